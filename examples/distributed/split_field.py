"""A field divided among ranks that is kept while it evolves, so that a rank that is lost costs a few steps.

Every rank holds some planes; every few steps all of them write the field to a folder. Where a rank ends, torchrun
starts all ranks anew, and they go on from what the folder holds: noise included, the result has the bits of a run in
one piece.

Run: torchrun --nproc-per-node 2 --max-restarts 1 examples/distributed/split_field.py kept --fail-at 25
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from torch_hrr import field

SHAPE = (12, 16, 16, 8)


def main(argv: Sequence[str] | None = None) -> float:
    """Evolves the field to the end, from where the folder leaves it, and returns the mean of its squares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=10, help="how many steps are lost at most")
    parser.add_argument("--halo", type=int, default=2)
    parser.add_argument("--fail-at", type=int, default=-1, help="a step at which the last rank ends, the first time")
    options = parser.parse_args(argv)
    begin_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if (options.folder / "index.safetensors").exists():
        split, held = field.SplitField.load(options.folder, halo=options.halo)
    else:
        whole = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))
        split, held = field.SplitField(whole.tensor_split(ranks, -4)[rank], halo=options.halo), {"done": 0}
    for done in range(held["done"], options.steps, options.every):
        if done <= options.fail_at < done + options.every and rank == ranks - 1 and first_time():
            os._exit(1)
        count = min(options.every, options.steps - done)
        key = field.advance_key(field.random_key(7), split.numel, done)
        split.evolve(decay=0.01, diffusion=0.1, steps=count, noise=0.05, key=key)
        split.save(options.folder, {"done": done + count})
        if rank == 0:
            print(f"{done + count} steps on {ranks} ranks", flush=True)
    result = float(split.gather().square().mean())
    if rank == 0:
        print(f"mean square {result:.9f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return result


def begin_group() -> None:
    """Apart from what ranks of before have left in torchrun's store: gloo would look for them there (torch 2.15)."""
    store, rank, ranks = next(dist.rendezvous("env://"))
    own = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group("gloo", store=own, rank=rank, world_size=ranks)


def first_time() -> bool:
    """Whether torchrun has not started the ranks anew."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"


if __name__ == "__main__":
    main()
