#!/usr/bin/env bash
# torch 2.15.0: where ranks of gloo are as many as cores, a message often takes a time slice of the scheduler longer.
#
# A thread of gloo reads what arrives, and must not wait for the lock of a connection: where another thread holds it, it
# asks epoll again, which answers at once, and so on. When a rank is woken by what the other one sends while it sends
# itself, Linux may give the core of the sender to that thread, which then asks, thousands of times, for the lock whose
# holder it keeps from running, until its slice is over: 3 to 5 ms. Under SCHED_BATCH, which keeps a thread that wakes
# from taking the core of one that runs, the sender goes on, and the message is there after a quarter of a millisecond:
# `chrt --batch 0 torchrun ...` starts ranks so.
#
# Seen, of two ranks on two cores, 300 messages of 4 KiB with 5 ms of work before each: gloo's threads are on a core for
# 0.40 to 0.57 s in all, and for 0.07 to 0.08 s under SCHED_BATCH; 64 to 96 messages take more than 2 ms from when the
# later rank sends, and at most 6 under SCHED_BATCH. Fails if those threads take less than twice as long by default. For
# Linux and two cores on which nothing else runs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip --quiet --disable-pip-version-check install "torch==2.15.0" "numpy==2.4.6"
cat > ranks.py << 'PYTHON'
import multiprocessing
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

MESSAGES = 300


def of_gloo():
    """Seconds that gloo's threads were on a core."""
    tasks = [task for task in Path("/proc/self/task").iterdir() if "gloo" in (task / "comm").read_text()]
    return sum(int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks)


def run(rank, batch, file, results):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    if batch:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    own, both, times, before = torch.zeros(512, dtype=torch.int64), torch.zeros(1024, dtype=torch.int64), [], of_gloo()
    for _ in range(MESSAGES):
        end = time.perf_counter() + 0.005
        while time.perf_counter() < end:
            pass
        start = time.perf_counter()
        dist.all_gather_single(both, own)
        times.append((start, time.perf_counter()))
    results.put((times, of_gloo() - before))
    dist.barrier()
    dist.destroy_process_group()


def measured(batch):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    file = f"{os.getcwd()}/rendezvous{batch}"
    ranks = [context.Process(target=run, args=(rank, batch, file, results)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    (one, spent), (other, more) = results.get(), results.get()
    for rank in ranks:
        rank.join()
    # From when the later rank is there until both go on.
    late = sum(max(a[1], b[1]) - max(a[0], b[0]) > 0.002 for a, b in zip(one, other))
    name = "SCHED_BATCH" if batch else "default"
    print(f"{name:12} gloo's threads on a core: {spent + more:.2f} s; messages of more than 2 ms: {late}")
    return spent + more


if __name__ == "__main__":
    assert len(os.sched_getaffinity(0)) > 1, "two cores are needed"
    default, batch = measured(False), measured(True)
    assert default > 2 * batch, (default, batch)
PYTHON
environment/bin/python -W ignore ranks.py
