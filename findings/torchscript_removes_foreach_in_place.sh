#!/usr/bin/env bash
# torch 2.15.0: TorchScript removes in-place operators on a list of tensors, torch._foreach_add_ and a library's own.
#
# The schema says Tensor(a!)[]: the tensors are written to. TorchScript's analysis takes the list for what is written
# to, and removes the call as dead code where nobody reads that list again, although the tensors in it are read. So
# torch._foreach_add_([a], 1.0); return a gives a as it was, where Python, torch.compile and torch.export add 1. So it
# is with operators that a library registers with such an argument, such as the rounds of a simulator whose state is
# a list. If the list is read afterwards, as in xs = [a]; torch._foreach_add_(xs, 1.0); return xs[0], the call stays.
#
# Seen: the scripted function gives 0 for the list written in the call and for one with a name that nobody reads, and 1
# where the list is read; a scripted module whose buffer is so updated stands still. Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip --quiet --disable-pip-version-check install "torch==2.15.0" "numpy==2.4.6" "setuptools==80.9.0"
cat > functions.py << 'PYTHON'
import torch
from torch import Tensor

library = torch.library.Library("integrators", "DEF")
library.define("leak_(Tensor(a!)[] state, float rate) -> ()")


@torch.library.impl(library, "leak_", "CPU")
def leak(state, rate):
    for each in state:
        each.mul_(1 - rate)


def written_in_the_call(a: Tensor) -> Tensor:
    torch._foreach_add_([a], 1.0)
    return a


def named(a: Tensor) -> Tensor:
    xs = [a]
    torch._foreach_add_(xs, 1.0)
    return a


def read_again(a: Tensor) -> Tensor:
    xs = [a]
    torch._foreach_add_(xs, 1.0)
    return xs[0]


class Leaky(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.ones(()))

    def forward(self) -> Tensor:
        torch.ops.integrators.leak_([self.state], 0.5)
        return self.state
PYTHON
environment/bin/python -W ignore - << 'PYTHON'
import functions
import torch

kept = {functions.written_in_the_call: 0.0, functions.named: 0.0, functions.read_again: 1.0}
for function, expected in kept.items():
    assert function(torch.zeros(())).item() == 1.0
    found = torch.jit.script(function)(torch.zeros(())).item()
    print(f"{function.__name__}: {found} in TorchScript, 1.0 in Python")
    assert found == expected, f"{function.__name__} now gives {found}"
exported = torch.export.export(functions.Leaky(), ()).module()
scripted = torch.jit.script(functions.Leaky())
steps = {"exported": [exported().item() for _ in range(3)], "scripted": [scripted().item() for _ in range(3)]}
print(steps)
assert steps == {"exported": [0.5, 0.25, 0.125], "scripted": [1.0, 1.0, 1.0]}, steps
PYTHON
