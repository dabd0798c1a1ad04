"""What is wrong with an installation, and the one line that mends it: `python -m torch_hrr doctor`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from torch_hrr import hrr, runtime
from torch_hrr._library import build_info, slow_kernels
from torch_hrr.runtime.memory import available_memory

_REINSTALL = "pip install --no-build-isolation --force-reinstall --no-deps . (in the source tree)"
_REBUILD = f"TORCH_HRR_CUDA=1 {_REINSTALL}"
_LEAST_MEMORY = 2**31
# Microseconds of processors in each period, of a control group.
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
# Packages that parts of torch_hrr use: the module, and what for.
_EXTRAS = {
    "matplotlib": ("matplotlib", "figures"),
    "scikit-learn": ("sklearn", "the demo and the examples"),
    "gymnasium": ("gymnasium", "robots of gymnasium"),
}


class Finding(NamedTuple):
    """What a check found.

    Attributes:
        state: "ok", "note" (something could be better) or "wrong".
        text: What it is.
        cure: The line that mends it; empty where nothing needs mending.
    """

    state: str
    text: str
    cure: str = ""


def examine() -> Iterator[Finding]:
    """The findings of all checks; the library's alone, if it cannot be used."""
    for check in _CHECKS:
        for found in check():
            yield found
            if check is _library and found.state == "wrong":
                return


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON, for other programs")


def run(options: argparse.Namespace) -> int:
    """Prints the findings; the exit status is 1 if something is wrong."""
    findings = list(examine())
    wrong = sum(found.state == "wrong" for found in findings)
    if options.json:
        print(json.dumps({"wrong": wrong, "findings": [found._asdict() for found in findings]}, indent=1))
        return int(wrong > 0)
    for found in findings:
        print(f"{found.state:<6} {found.text}")
        if found.cure:
            print(f"{'':<6} mend it with: {found.cure}")
    print(f"\n{wrong} of {len(findings)} checks found something wrong" if wrong else "\nnothing is wrong")
    return int(wrong > 0)


def _library() -> Iterator[Finding]:
    # That it is there and fits torch was checked when the package was imported.
    try:
        build = build_info()
    except RuntimeError as error:
        yield Finding("wrong", str(error), "unset TORCH_HRR_ISA")
        return
    yield Finding("ok", f"the library of version {build['version']} is loaded, for torch {torch.__version__}")
    slow = slow_kernels(build)
    yield Finding("wrong", slow, _REINSTALL) if slow else Finding("ok", f"CPU kernels use {build['isa']}")
    a, b = torch.randn(2, 4, 64, dtype=torch.float64, device="cpu", generator=torch.Generator().manual_seed(0))
    places = (torch.arange(64).view(64, 1) - torch.arange(64)) % 64
    exact = torch.einsum("rj,rkj->rk", a, b[:, places])
    largest = float((hrr.bind(a, b) - exact).abs().max())
    if largest < 1e-12:
        yield Finding("ok", f"binding is right: its largest error is {largest:.1e}")
    else:
        yield Finding("wrong", f"binding is wrong: its largest error is {largest:.1e}", _REBUILD)


def _gpu() -> Iterator[Finding]:
    kernels = build_info()["cuda"] != "none"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not torch.cuda.is_available():
        if shutil.which("nvidia-smi") is None:
            yield Finding("ok", "there is no NVIDIA GPU: everything runs on the CPU")
        elif hidden is not None and hidden.strip() in ("", "-1"):
            yield Finding("note", f"CUDA_VISIBLE_DEVICES={hidden!r} hides the GPU", "unset CUDA_VISIBLE_DEVICES")
        elif torch.version.cuda is None:
            yield Finding("wrong", "this torch has no CUDA, but there is a GPU", "pip install --force-reinstall torch")
        else:
            text = f"torch {torch.__version__} (CUDA {torch.version.cuda}) cannot use the GPU: its driver is too old"
            yield Finding("wrong", text, "nvidia-smi (shows the CUDA version that the driver has; install a newer one)")
        return
    info = runtime.get_device_info()
    if not info["cuda_available"]:
        yield Finding("wrong", "the GPU is listed, but does not compute", "nvidia-smi (shows its error)")
        return
    yield Finding("ok", f"{info['device_name']}, {info['device_memory']}, driver {info['driver']}")
    if not kernels:
        yield Finding("wrong", "this build has no CUDA kernels: on the GPU operators run in plain torch", _REBUILD)
        return
    here = torch.randn(2, 4, 64, generator=torch.Generator().manual_seed(0))
    try:
        there = hrr.bind(*here.to("cuda")).cpu()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        yield Finding("wrong", f"the CUDA kernels do not run ({reason}): they are for another GPU", _REBUILD)
        return
    close = torch.allclose(there, hrr.bind(*here), atol=1e-5)
    yield Finding("ok", "the CUDA kernels run") if close else Finding("wrong", "the CUDA kernels are wrong", _REBUILD)


def _cores() -> int:
    """How many this process may use: those it is bound to, and what a container has of them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = map(float, _QUOTA.read_text().split())
    except (OSError, ValueError):
        return cores
    return min(cores, math.ceil(quota / period))


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _machine() -> Iterator[Finding]:
    threads, cores = torch.get_num_threads(), _cores()
    text = f"torch uses {_count(threads, 'thread')} on {_count(cores, 'core')}"
    if threads > cores:
        yield Finding("note", f"{text}, and threads then wait for each other", f"export OMP_NUM_THREADS={cores}")
    else:
        yield Finding("ok", text)
    try:
        free = available_memory("cpu")
    except RuntimeError as error:
        yield Finding("note", str(error), "pip install psutil")
        return
    state = "ok" if free >= _LEAST_MEMORY else "note"
    yield Finding(state, f"{free / 2**30:.1f} GB of memory are free")


def _extras() -> Iterator[Finding]:
    for package, (module, purpose) in _EXTRAS.items():
        if importlib.util.find_spec(module) is None:
            yield Finding("note", f"{package} is not installed, which {purpose} need", f"pip install {package}")
    if torch.cuda.is_available() and importlib.util.find_spec("pynvml") is None:
        text = "nvidia-ml-py is not installed, without which monitors see no load, temperature and power"
        yield Finding("note", text, "pip install nvidia-ml-py")


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (_library, _gpu, _machine, _extras)
