"""Operators on tensors divided over a mesh give what they give on one rank."""

import subprocess
import sys

import pytest
import ranks
import torch
from cases import ALL_CASES
from cases.base import build

from torch_hrr import _sharding

LAZY = """
import sys, importlib.util
import torch_hrr
# Asking whether it is there is no import.
assert importlib.util.find_spec("torch.distributed.tensor") is not None
print(sum(name.startswith("torch.distributed.tensor") for name in sys.modules), len(sys.meta_path))
import torch.distributed.tensor as tensors
strategies = tensors.DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
print(torch_hrr.hrr.bind is not None, sum("torch_hrr" in str(name) for name in strategies) > 40, len(sys.meta_path))
print(type(tensors.__loader__).__name__, type(tensors.__spec__.loader).__name__)
"""


def test_two_ranks_compute_what_one_does(tmp_path):
    """Operators on divided tensors; layers under DDP and FSDP2: in one group, since processes cost more than checks."""
    ranks.run("distributed/two_ranks.py", tmp_path)


def test_strategies_are_registered_with_the_first_import_of_dtensor():
    found = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=True, timeout=300)
    lines = [line.split() for line in found.stdout.splitlines()]
    assert lines[0][0] == "0" and lines[1][:2] == ["True", "True"]
    assert int(lines[1][2]) == int(lines[0][1]) - 1
    assert lines[2] == ["SourceFileLoader", "SourceFileLoader"]


def test_strategies_are_registered_where_dtensor_came_first():
    counted = LAZY.splitlines()[7]
    count = "sum('torch_hrr' in str(name) for name in strategies)"
    program = f"import torch.distributed.tensor as tensors\nimport torch_hrr\n{counted}\nprint({count})"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert int(found.stdout) > 40


def adds_up(case, sample, name):
    """Whether the results of a sum are the sum of the results."""
    one, other = build(sample, torch.float64), build(sample, torch.float64, seed=1)
    given = one, one | {name: other[name]}, one | {name: one[name] + other[name]}
    return all(
        result.is_floating_point() and torch.allclose(first + second, result, rtol=1e-9, atol=1e-9)
        for first, second, result in zip(*map(case.run, given), strict=True)
    )


# Linear in an operand where options leave nothing else of it, of which nobody makes a sum over ranks.
NOT_SUMMED = ("embed_positions", "plastic_scan", "_plastic_scan_backward", "_plastic_scan_tangent")


@pytest.mark.parametrize(
    "case", [case for case in ALL_CASES if not case.is_out and case.name not in NOT_SUMMED], ids=lambda case: case.id
)
def test_a_sum_over_ranks_passes_through_what_is_linear_and_nothing_else(case):
    known = _sharding._LINEAR.get(case.op._schema.name.removeprefix("torch_hrr::"), ())
    for argument in case.arguments:
        for sample in case.kinds:
            arguments = build(sample, torch.float64)
            given = arguments.get(argument.name)
            if argument.batched and given is not None and given.is_floating_point():
                listed = argument.name in known and _sharding._is_linear(case.name, arguments)
                assert adds_up(case, sample, argument.name) == listed, (argument.name, sample.id)
