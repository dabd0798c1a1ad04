"""Examples that torchrun starts: a rank fails, all go on from what was kept, and the bits are those of one run."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from torch.distributed import checkpoint

from torch_hrr import field

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "distributed"


def run(tmp_path, name, ranks, folder, *arguments):
    """What torchrun's ranks print."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command += ["--max-restarts", "1", str(EXAMPLES / name), str(tmp_path / folder), "--steps", "8", "--every", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=200, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [line for line in done.stdout.splitlines() if " steps on " in line]
    assert steps == [f"{count} steps on {ranks} ranks" for count in (2, 4, 6, 8)]
    return done.stdout


def test_ranks_that_torchrun_starts_anew_lose_nothing(tmp_path):
    printed = run(tmp_path, "split_field.py", 2, "kept", "--fail-at", "5")
    whole = torch.randn(12, 16, 16, 8, generator=torch.Generator().manual_seed(0))
    expected = field.evolve(whole, 0.01, 0.1, 8, noise=0.05, key=field.random_key(7))
    assert torch.equal(field.SplitField.load(tmp_path / "kept")[0].planes, expected)
    assert f"mean square {float(expected.square().mean()):.9f}" in printed


# Of a load without a group.
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_what_is_divided_as_dtensors_is_kept_by_checkpoints_of_torch(tmp_path):
    """A rank is killed; the weights have the bits of one rank that was never stopped."""
    printed = run(tmp_path, "divided_table.py", 2, "kept", "--fail-at", "5")
    assert printed.splitlines()[-1] == run(tmp_path, "divided_table.py", 1, "whole").splitlines()[-1]
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"latest", "step-8"}
    tables = [torch.zeros(101, 16) for _ in range(2)]
    for table, folder in zip(tables, ("kept", "whole"), strict=True):
        path = tmp_path / folder / "step-8"
        checkpoint.load({"model": {"embedder.weight": table}}, checkpoint_id=path, no_dist=True)
    assert torch.equal(*tables) and tables[0].abs().sum() > 0


@pytest.mark.parametrize("name", ["divided_table.py", "split_field.py"])
def test_an_example_says_how_to_run_it(name):
    text = ast.get_docstring(ast.parse((EXAMPLES / name).read_text()))
    assert f"torchrun --nproc-per-node 2 --max-restarts 1 examples/distributed/{name}" in text


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"divided_table.py", "split_field.py"}
