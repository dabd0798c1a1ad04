#!/usr/bin/env bash
# torch 2.15.0: a strategy of register_sharding that reads a flag is not asked again when the flag changes.
#
# torch.distributed.tensor.experimental.register_sharding takes a function that gives the acceptable placements for the
# arguments of an operator. Which of them was chosen is kept, by the tensors and by the arguments from the first int on:
# a bool, a float or a dtype is no part of what it is kept by. The choice for one value of a flag then serves the other.
#
# Seen, on two ranks of gloo, an operator that gives x where square is False and x^2 where it is True, of a tensor that
# is a sum over both ranks (1 + 2 = 3 in each place): the call with True gives 9 when it comes first, and 5, the sum of
# squares, after a call with False, without a word. Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip --quiet --disable-pip-version-check install "torch==2.15.0" "numpy==2.4.6"
cat > ranks.py << 'PYTHON'
import multiprocessing
import sys

import torch
import torch.distributed as dist


@torch.library.custom_op("seen::total", mutates_args=())
def total(x: torch.Tensor, square: bool) -> torch.Tensor:
    return x.square() if square else x.clone()


@total.register_fake
def _(x, square):
    return torch.empty_like(x)


def run(rank, store, flags, results):
    from torch.distributed.tensor import DTensor, Partial, Replicate, init_device_mesh
    from torch.distributed.tensor.experimental import register_sharding

    @register_sharding(torch.ops.seen.total.default)
    def placements(x, square):
        whole = ([Replicate()], [Replicate(), None])
        return [whole] if square else [whole, ([Partial()], [Partial(), None])]

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    x = DTensor.from_local(torch.full((4,), 1.0 + rank), init_device_mesh("cpu", (2,)), [Partial()])
    for flag in flags:
        result = torch.ops.seen.total(x, flag).full_tensor()[0].item()
    if rank == 0:
        results.put(result)
    dist.barrier()
    dist.destroy_process_group()


def last(name, flags):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    started = [context.Process(target=run, args=(rank, f"{sys.argv[1]}/{name}", flags, results)) for rank in range(2)]
    for process in started:
        process.start()
    result = results.get(timeout=300)
    for process in started:
        process.join()
    return result


if __name__ == "__main__":
    first, after = last("first", [True]), last("after", [False, True])
    print(f"torch {torch.__version__}: (1 + 2)^2 is {first} in the first call, {after} after a call without squares")
    sys.exit(0 if (first, after) == (9.0, 5.0) else "this has changed")
PYTHON
environment/bin/python -W ignore ranks.py "$folder"
