"""The example that torchrun starts: a rank fails, all go on from what was kept, and the bits are those of one run."""

import ast
import os
import pathlib
import subprocess
import sys

import torch

from torch_hrr import field

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "distributed" / "split_field.py"


def test_ranks_that_torchrun_starts_anew_lose_nothing(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["--max-restarts", "1", str(EXAMPLE), str(tmp_path / "kept"), "--steps", "8", "--every", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--fail-at", "5"], capture_output=True, text=True, timeout=200, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [line for line in done.stdout.splitlines() if line.endswith("steps on 2 ranks")]
    assert steps == [f"{count} steps on 2 ranks" for count in (2, 4, 6, 8)]
    whole = torch.randn(12, 16, 16, 8, generator=torch.Generator().manual_seed(0))
    expected = field.evolve(whole, 0.01, 0.1, 8, noise=0.05, key=field.random_key(7))
    assert torch.equal(field.SplitField.load(tmp_path / "kept")[0].planes, expected)
    assert f"mean square {float(expected.square().mean()):.9f}" in done.stdout


def test_the_example_says_how_to_run_it():
    text = ast.get_docstring(ast.parse(EXAMPLE.read_text()))
    assert "torchrun --nproc-per-node 2 --max-restarts 1 examples/distributed/split_field.py" in text
