"""Ranks of which one is killed: python lost_rank.py RENDEZVOUS FOLDER."""

import os
import pathlib
import signal
import sys
import time

import pytest
import torch
import torch.distributed as dist
from ranks import main

from torch_hrr import assembly, field, hrr

ARGUMENTS = {"decay": 0.05, "diffusion": 0.1, "noise": 0.2}
STEPS, EVERY, LOST_AT = 8, 2, 5


def start():
    return torch.randn(7, 4, 5, 3, generator=torch.Generator().manual_seed(0))


def run(split, key, done, folder):
    """Steps from a number on; the field is kept after every second one, with what else its future needs."""
    for step in range(done, STEPS):
        if step == LOST_AT and dist.is_initialized() and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        split.evolve(**ARGUMENTS, key=key)
        key = field.advance_key(key, split.numel)
        if (step + 1) % EVERY == 0:
            split.save(folder, {"done": step + 1, "key": key.tolist()})


def resume(folder, group=None):
    split, held = field.SplitField.load(folder, group)
    return split, torch.tensor(held["key"], dtype=torch.int64), held["done"]


def check(rank):
    folder = pathlib.Path(sys.argv[2])
    parts = start().tensor_split(3, -4)
    split = field.SplitField(parts[rank])
    brain = assembly.SplitBrain(0.1)
    brain.add_area("A", 30, 3)
    robot = field.SplitFieldBrain(2, 1, spatial=4, channels=5, device="cpu")
    robot.step(torch.ones(2))
    memory = hrr.SplitMemory(torch.eye(4))
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=r"SplitField: a rank is lost, or did not answer within the group's timeout"):
        run(split, field.random_key(3), 0, folder)
    with pytest.raises(RuntimeError, match="SplitBrain: a rank is lost"):
        brain.add_stimulus("s", 3)
    with pytest.raises(RuntimeError, match="SplitFieldBrain: a rank is lost"):
        robot.step(torch.ones(2))
    with pytest.raises(RuntimeError, match="SplitMemory: a rank is lost"):
        memory.cleanup(torch.ones(4))
    # The group's timeout is a minute; a connection that is closed says so at once.
    assert time.monotonic() - begun < 50
    (folder / f"told-{rank}").touch()
    # A group that has lost a rank cannot be left in order.
    os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(check, 3)
