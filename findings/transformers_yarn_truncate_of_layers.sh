#!/usr/bin/env bash
# transformers 5.23.0: "truncate": false of yarn is not read where a config has rope_parameters for each kind of layer.
#
# YaRN blends two sets of frequencies by a ramp over the pairs; "truncate" says whether the ends of the ramp are rounded
# to whole pairs, which is the default. In a model with one set of rope_parameters, such as Qwen3, false changes the
# frequencies. In one with a set for each kind of layer, such as Gemma 3, every other entry is read from the set of the
# layer, but this one beside the sets, where it never stands: the ends are always rounded, without a word.
#
# Seen, heads of 64, factor 8 over 4096: false changes frequencies of Qwen3 by up to 16 percent, and none of Gemma 3's.
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip --quiet --disable-pip-version-check install "transformers==5.23.0" "torch==2.15.0" "numpy==2.4.6"
environment/bin/python -W ignore - << 'PYTHON'
import transformers
from transformers import Gemma3TextConfig, Qwen3Config
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 4096}
SIZES = {"head_dim": 64, "max_position_embeddings": 32768}


def of_model(truncate):
    return Qwen3RotaryEmbedding(Qwen3Config(**SIZES, rope_parameters=YARN | {"truncate": truncate})).inv_freq


def of_layers(truncate):
    kinds = {
        "full_attention": YARN | {"truncate": truncate},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    }
    return Gemma3RotaryEmbedding(Gemma3TextConfig(**SIZES, rope_parameters=kinds)).full_attention_inv_freq


changes = [float(((of(False) - of(True)) / of(True)).abs().max()) for of in (of_model, of_layers)]
print(f"transformers {transformers.__version__}: truncate=False changes frequencies by {changes[0]:.0%} and {changes[1]:.0%}")
assert changes[0] > 0.1 and changes[1] == 0, changes
PYTHON
