#!/usr/bin/env bash
# torch 2.15.0: torch.linalg.vector_norm of a DTensor that is a sum over ranks has no gradient.
#
# The norm itself is right: DTensor adds up the ranks' parts first. Its derivative divides the sum, which stays one over
# ranks, and then fills it in place, which no placement of a sum allows.
#
# Seen, on two ranks of gloo: the forward pass gives the norm of the whole, and backward() is a RuntimeError,
# "aten.masked_fill_.Scalar: in-place operations that require placement changes are not supported". What redistributes
# the sum first, x.redistribute(placements=[Replicate()]), has the gradient. Fails if that changes.
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


def run(rank, store, results):
    from torch.distributed.tensor import DTensor, Partial, Replicate, init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = DTensor.from_local(torch.tensor([3.0, 4.0]) * rank, mesh, [Partial()]).requires_grad_()
    norm = torch.linalg.vector_norm(x, 2, -1)
    try:
        norm.backward()
        said = "no error"
    except RuntimeError as error:
        said = str(error)
    (first,) = torch.autograd.grad(torch.linalg.vector_norm(x.redistribute(placements=[Replicate()]), 2, -1), x)
    if rank == 0:
        results.put((norm.full_tensor().item(), said, first.full_tensor().tolist()))
    else:
        norm.full_tensor(), first.full_tensor()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    started = [context.Process(target=run, args=(rank, f"{sys.argv[1]}/store", results)) for rank in range(2)]
    for process in started:
        process.start()
    norm, said, gradient = results.get(timeout=300)
    for process in started:
        process.join()
    print(f"torch {torch.__version__}: norm {norm}; backward: {said[:90]}; redistributed first: {gradient}")
    is_same = norm == 5.0 and said.startswith("aten.masked_fill_.Scalar: in-place operations")
    sys.exit(0 if is_same and [round(each, 6) for each in gradient] == [0.6, 0.8] else "this has changed")
PYTHON
environment/bin/python -W ignore ranks.py "$folder"
