"""Operators on tensors divided over a mesh give what they give on one rank."""

import subprocess
import sys

import ranks

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
