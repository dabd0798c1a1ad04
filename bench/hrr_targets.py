"""The performance targets that were set for the HRR operators, at D = 512: time, speed-up, transfers and memory."""

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fft import irfft, rfft

from bench import gpu_figures
from bench.entry import Inputs, vectors
from bench.hrr import bind_fft, bind_rfft, unbind_rfft
from bench.targets import Measured, Session, Target, Work, gpu_target, growth, in_units, timed
from torch_hrr import hrr

# Only the baselines need it, and they are left out where it is not installed.
np: Any = importlib.import_module("numpy") if importlib.util.find_spec("numpy") is not None else None

DIM = 512
SUPERPOSED = 1000
# Batch -> (seconds asked for, speed-up asked for, seconds that the baseline was expected to take).
BATCHES = {1: (0.5e-3, 2, 1e-3), 10: (1e-3, 10, 10e-3), 100: (2e-3, 50, 100e-3), 1000: (10e-3, 100, 1.0)}
# Of bind_normalize on a GPU: times the larger of a launch and its traffic.
GPU_TRAFFIC = 1.5
TRAFFIC_ROWS = (1, 1000, 100_000)
NUMPY = "NumPy, one vector at a time"


def bind_numpy(a: Any, b: Any) -> Any:
    return np.fft.ifft(np.fft.fft(a) * np.fft.fft(b)).real


def bind_numpy_loop(a: Any, b: Any) -> Any:
    bound = np.empty_like(a)
    for k in range(len(a)):
        bound[k] = bind_numpy(a[k], b[k])
    return bound


def superpose_numpy(x: Any) -> Any:
    """The sum over K, of norm 1."""
    total = x.sum(0)
    return total / np.linalg.norm(total)


def superpose_numpy_loop(x: Any) -> Any:
    """The same, vector after vector."""
    total = np.zeros_like(x[0])
    for vector in x:
        total += vector
    return total / np.linalg.norm(total)


def cycle_numpy(a: Any, b: Any) -> Any:
    """Bind, then unbind."""
    bound = bind_numpy(a, b)
    return bound, np.fft.ifft(np.fft.fft(bound) * np.conj(np.fft.fft(a))).real


def cycle(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    bound = hrr.bind(a, b)
    return bound, hrr.unbind(bound, a)


def cycle_rfft(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The same, every transform made."""
    bound = bind_rfft(a, b)
    return bound, unbind_rfft(bound, a)


def cycle_spectra(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The same, the spectra of `a` and of the bound vector kept."""
    role = rfft(a)
    bound = role * rfft(b)
    return irfft(bound, n=a.shape[-1]), irfft(bound * role.conj(), n=a.shape[-1])


def pair(shape: tuple[int, ...], generator: torch.Generator) -> Inputs:
    """Two vectors, or two batches of them."""
    return vectors(*shape, generator=generator), vectors(*shape, generator=generator)


def binding(batch: int, dim: int) -> Work:
    """`batch` bindings; a single one has no batch dimension, nor a loop in its baseline."""
    shape = (dim,) if batch == 1 else (batch, dim)
    forms = {"irfft(rfft*rfft)": bind_rfft, "ifft(fft*fft).real": bind_fft}
    baselines = (bind_numpy, None) if batch == 1 else (bind_numpy_loop, bind_numpy)
    return Work(f"bind {'x'.join(map(str, shape))}", partial(pair, shape), hrr.bind, forms, *baselines)


def superposition(count: int, dim: int) -> Work:
    forms: dict[str, Callable[[Tensor], Tensor]] = {
        "normalize(sum)": lambda x: F.normalize(x.sum(-2), dim=-1),
        "normalize(ones @ x)": lambda x: F.normalize(x.new_ones(len(x)) @ x, dim=-1),
    }
    return Work(
        f"superpose {count}x{dim}", lambda generator: (vectors(count, dim, generator=generator),), hrr.superpose,
        forms, superpose_numpy_loop, superpose_numpy,
    )  # fmt: skip


def bind_and_unbind(dim: int) -> Work:
    forms = {"rfft of each": cycle_rfft, "spectra kept": cycle_spectra}
    return Work(f"bind and unbind {dim}", partial(pair, (dim,)), cycle, forms, cycle_numpy)


def time_target(
    what: str, work: Work, limit: float, speedup: float | None = None, expected: float | None = None
) -> Target:
    """A time of an operator, and its speed-up over NumPy."""
    measure = partial(timed, work=work)
    return Target(what, work.name, measure, limit, speedup=speedup, baseline=NUMPY, expected_baseline=expected)


def share_target(what: str, run: str, measure: Callable[..., Any], limit: float) -> Target:
    """A share in percent that only a GPU has."""
    return Target(what, run, measure, limit, "%", needs_gpu=True)


def traffic(session: Session, *, rows: int, dim: int) -> Measured:
    """bind_normalize over the larger of an empty launch and a copy of as many bytes as it reads and writes."""
    device = session.settings.device
    a, b = (x.to(device) for x in pair((rows, dim), torch.Generator().manual_seed(session.settings.seed)))
    tiny = torch.zeros(1, device=device)
    # Half of the 12 D bytes a row are read, and half are written.
    source = torch.zeros(6 * dim * rows, dtype=torch.int8, device=device)
    functions: dict[str, Callable[[], Any]] = {
        "ours": partial(hrr.bind_normalize, a, b, out=torch.empty_like(a)),
        "launch": tiny.zero_,
        "copy": partial(torch.empty_like(source).copy_, source),
    }
    return in_units(session, functions)


def transfer(
    what: str, rows: int, dim: int, pinned: bool, to_device: bool, limit: float | None = None,
    speedup: float | None = None, expected: float | None = None,
) -> Target:  # fmt: skip
    """A copy between host and device; pinned memory has pageable memory as its baseline."""
    kind = "pinned, non_blocking" if pinned else "pageable"
    way = "host to device" if to_device else "device to host"
    measure = partial(gpu_figures.copy_time, rows=rows, dim=dim, pinned=pinned, to_device=to_device)
    baseline = "the same copy in pageable memory" if pinned else None
    run = f"copy of {rows}x{dim} float32, {kind}, {way}"
    return Target(what, run, measure, limit, "s", speedup, baseline, expected, needs_gpu=True)


def targets(dim: int = DIM) -> tuple[Target, ...]:
    """Every row; tests make vectors of another dimension."""
    state = (16 << 20) // (4 * dim)
    return (
        time_target("single bind", binding(1, dim), 0.1e-3, 10, 1e-3),
        time_target("batch bind 100", binding(100, dim), 2e-3, 50, 100e-3),
        time_target("superposition 1000", superposition(SUPERPOSED, dim), 1e-3, 50, 50e-3),
        time_target("bind and unbind", bind_and_unbind(dim), 1e-3),
        *(time_target(f"batch size {n}", binding(n, dim), *asked) for n, asked in BATCHES.items()),
        Target(
            "linear scaling", "bind: largest factor in time for ten times the batch, from 1 to 1000",
            partial(growth, works=[binding(n, dim) for n in BATCHES]), 10.0, "x",
        ),
        transfer("memory transfer, 16 MiB state", state, dim, True, True, 1e-3, 10, 10e-3),
        *(
            transfer(f"{size} {kind}, {way}", rows, dim, kind == "pinned", way == "to device")
            for size, rows in (("1000 vectors", 1000), ("16 MiB", state))
            for way in ("to device", "to host")
            for kind in ("pinned", "pageable")
        ),
        *(
            share_target(
                f"overhead of transfers, {job}{suffix}",
                f"16 batches of 1000x{dim} from pinned memory, {job} of each, {how}: "
                "time above that of the computation alone",
                partial(gpu_figures.transfer_overhead, job=job, dim=dim, overlapped=not suffix), 0.1,
            )
            for job in gpu_figures.JOBS
            for suffix, how in (
                ("", "copied ahead on a side stream"), (", in turn", "copy and computation in turn"),
            )
        ),
        share_target(
            "GPU memory usage",
            f"share of the whole device in use after a VectorStore has grown to {gpu_figures.STORED}x{dim}",
            partial(gpu_figures.memory_usage, dim=dim), 0.8,
        ),
        *(
            share_target(
                f"fragmentation, store {made}",
                f"1 - allocated / reserved by a VectorStore of {gpu_figures.STORED}x{dim}, {how}",
                partial(gpu_figures.fragmentation, dim=dim, preallocated=made == "made large"), 0.2,
            )
            for made, how in (("grown", "doubled as it fills"), ("made large", "capacity made in advance"))
        ),
        *(
            gpu_target(
                f"bind_normalize over traffic, {rows}",
                f"bind_normalize {rows}x{dim} with out, over the larger of an empty launch and 12 D bytes a row",
                partial(traffic, rows=rows, dim=dim), GPU_TRAFFIC,
            )
            for rows in TRAFFIC_ROWS
        ),
    )  # fmt: skip


TARGETS: tuple[Target, ...] = targets()
