"""Processes of one group: python PROGRAM RENDEZVOUS runs its check on every rank."""

import datetime
import gc
import multiprocessing
import os
import pathlib
import subprocess
import sys
import traceback

import torch
import torch.distributed as dist


def _run(check, rank, ranks, rendezvous):
    torch.set_num_threads(1)
    # Where one fails, the others do not wait for long.
    wait = datetime.timedelta(minutes=1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks, timeout=wait)
    try:
        check(rank)
    except BaseException:
        # Before the others' errors, which are of a lost peer.
        traceback.print_exc()
        sys.stderr.flush()
        raise
    # Together, and with nothing left that holds the group: gloo's threads must not outlive the interpreter.
    dist.barrier()
    gc.collect()
    dist.destroy_process_group()


def main(check, ranks):
    """Forked, which is soon done: nothing has run in threads yet."""
    fork = multiprocessing.get_context("fork")
    started = [fork.Process(target=_run, args=(check, rank, ranks, sys.argv[1]), daemon=True) for rank in range(ranks)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    sys.exit(any(process.exitcode for process in started))


def run(program, directory, *arguments, fails=False, timeout=200):
    """Of a test: what the ranks wrote. No rank may fail, or one must."""
    tests = pathlib.Path(__file__).parent
    path = tests / program
    command = [sys.executable, str(path), str(directory / "rendezvous"), *map(str, arguments)]
    folders = [str(tests), str(path.parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(command, timeout=timeout, capture_output=True, text=True, env=environment)
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr
