#!/usr/bin/env bash
# torch 2.15.0: AOTInductor makes a package of an operator with an infinite argument, and cannot load it.
#
# A library's operator may take a float that is infinite by default: a cap that does not bind, an upper bound of a
# weight. torch.export keeps it, aoti_compile_and_package writes the package without a word, and aoti_load_package ends
# in an error of its JSON reader: the calls of operators that Inductor does not compile are in a JSON file, to which
# infinity is written as the text "Infinity", and the reader expects a number. It is so in a list of floats, too. A
# large finite number loads.
#
# Seen: the exported program and the package with 16777216.0 give the result; packages with inf and [inf] raise
# "type must be number, but is string" when they are loaded. Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export TORCHINDUCTOR_CACHE_DIR=$folder/cache
python3 -m venv environment
environment/bin/pip --quiet --disable-pip-version-check install "torch==2.15.0" "numpy==2.4.6" "setuptools==80.9.0"
environment/bin/python -W ignore - << 'PYTHON'
import math

import torch
from torch import Tensor


@torch.library.custom_op("weights::grow", mutates_args=())
def grow(weights: Tensor, caps: list[float], cap: float) -> Tensor:
    return (weights * 2).clamp(max=min(cap, *caps))


@grow.register_fake
def _(weights, caps, cap):
    return torch.empty_like(weights)


class Grow(torch.nn.Module):
    def __init__(self, caps, cap):
        super().__init__()
        self.caps, self.cap = caps, cap

    def forward(self, weights):
        return torch.ops.weights.grow(weights, self.caps, self.cap)


def result(caps, cap, path):
    program = torch.export.export(Grow(caps, cap), (torch.ones(2),))
    assert program.module()(torch.ones(2)).tolist() == [2.0, 2.0]
    package = torch._inductor.aoti_compile_and_package(program, package_path=path)
    try:
        return torch._inductor.aoti_load_package(package)(torch.ones(2)).tolist()
    except RuntimeError as error:
        return str(error)


large = 2.0**24
for name, caps, cap in (("finite", [large], large), ("inf", [large], math.inf), ("list", [math.inf], large)):
    found = result(caps, cap, f"{name}.pt2")
    print(f"caps {caps}, cap {cap}: {found}")
    if name == "finite":
        assert found == [2.0, 2.0], found
    else:
        assert "type must be number, but is string" in str(found), found
PYTHON
