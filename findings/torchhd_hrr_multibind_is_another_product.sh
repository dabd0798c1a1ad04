#!/usr/bin/env bash
# torchhd 5.8.4: multibind of HRR vectors is not what binding them one after the other gives.
#
# torchhd.multibind documents "Binds all the input hypervectors together", V_1 * V_2 * ... . HRRTensor.multibind
# multiplies the vectors' spectra with torch.prod(..., dtype=self.dtype), a real dtype, which drops the imaginary parts
# before they are multiplied. torch says so once, in a UserWarning ("Casting complex values to real"). bind_sequence
# goes through it, and resonators do. A product of two vectors and its multibind differ as well.
#
# Seen, D = 10000, unit vectors: cosine of multibind with the product by bind .50 for two vectors and .25 for four, where
# another random vector has 0.00. Of the same with FHRR: 1.00. Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip --quiet --disable-pip-version-check install "torch-hd==5.8.4" "torch==2.15.0" "numpy==2.4.6" \
  "scipy==1.17.1" "pandas==2.3.3" "setuptools==80.9.0"
environment/bin/python -W ignore - << 'PYTHON'
import functools
from importlib.metadata import version

import torch
import torchhd

torch.manual_seed(0)


def cosine(model, count):
    """Of multibind and the product of so many random vectors."""
    vectors = torchhd.random(count, 10000, model)
    both = torchhd.multibind(vectors), functools.reduce(torchhd.bind, vectors)
    return float(torchhd.cosine_similarity(*both).real)


hrr, fhrr = [[round(cosine(model, count), 2) for count in (2, 4)] for model in ("HRR", "FHRR")]
print(f"torchhd {version('torch-hd')}: cosines of multibind with the product of 2 and 4 vectors: HRR {hrr}, FHRR {fhrr}")
assert all(value < 0.9 for value in hrr) and fhrr == [1, 1], (hrr, fhrr)
PYTHON
