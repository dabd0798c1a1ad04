"""Targets of the encodings: times beside torch.compile, eager torch and a fill of the result."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench import targets
from bench.encoding import filled, filled_into, stacked
from bench.targets import Measured, Session, Target, compiled, gpu_target, in_units
from bench.timing import Candidate, ratio
from torch_hrr.encoding import sinusoidal_encoding

HEADING = "Baseline: the faster form of torch.compile, or of eager torch; results used again (out=) or fresh."
# Of the specification: with a result used again over torch.compile and over eager torch, and fresh over torch.compile.
AIMS = {(8192, 512): (2.0, 6.0), (65_536, 1024): (5.0, 12.0)}
FRESH_AIM = 1.3
# Of a GPU: fills of the result.
GPU_FILLS = 1.2
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def stacked_into(dim: int, positions: Tensor, out: Tensor) -> Tensor:
    """For torch.compile, which writes the result in place."""
    return out.copy_(stacked(dim, out.dtype, positions))


def times(session: Session, rows: int, dim: int, dtype: torch.dtype) -> dict[str, Candidate]:
    """Every way to the encoding of 0 to rows - 1, and a fill."""
    positions = torch.arange(rows, device=session.settings.device)
    out = torch.zeros(rows, dim, dtype=dtype, device=session.settings.device)
    functions: dict[str, Callable[[], Any]] = {
        "ours, reused": partial(sinusoidal_encoding, positions, dim, out=out),
        "ours, fresh": partial(sinusoidal_encoding, positions, dim, dtype=dtype),
        "eager, reused": partial(filled_into, dim, positions, out=out),
        "eager, fresh": partial(filled, dim, dtype, positions),
        "fill": partial(out.fill_, 1.0),
    }
    if session.settings.compile:
        functions["compile, reused"] = partial(compiled(stacked_into), dim, positions, out)
        functions["compile, fresh"] = partial(compiled(stacked), dim, dtype, positions)
    return session.times(functions)


def beside(session: Session, *, rows: int, dim: int, dtype: torch.dtype, result: str, peer: str) -> Measured:
    """Our time, and how often it goes into that of the peer's faster form."""
    found = session.once((rows, dim, dtype), partial(times, session, rows, dim, dtype))
    own = f"ours, {result}"
    forms = [each for name, each in found.items() if name.startswith(peer)]
    fastest = min(forms, key=lambda each: each.median, default=None)
    note = f"{ratio(found[own], found['fill'])[0]:.2f} fills of the result"
    return targets.beside(found, fastest, f"{note}; {fastest.name if fastest else f'without {peer}'}", own)


def fills(session: Session, *, rows: int, dim: int, dtype: torch.dtype) -> Measured:
    """Our time into a result that is used again, in fills of it within the device."""
    positions = torch.arange(rows, device=session.settings.device)
    out = torch.zeros(rows, dim, dtype=dtype, device=session.settings.device)
    ours, fill = partial(sinusoidal_encoding, positions, dim, out=out), partial(out.fill_, 1.0)
    return in_units(session, {"ours": ours, "fill": fill})


RUN = "sinusoidal_encoding of 0 to rows - 1"
TARGETS = (
    *(
        Target(
            f"{rows}x{dim} {name} {result}, {peer}", RUN,
            partial(beside, rows=rows, dim=dim, dtype=dtype, result=result, peer=peer), speedup=aim, baseline=peer,
        )
        for (rows, dim), (compile_aim, eager_aim) in AIMS.items()
        for name, dtype in DTYPES.items()
        for result, peer, aim in (
            ("reused", "compile", compile_aim), ("reused", "eager", eager_aim), ("fresh", "compile", FRESH_AIM),
        )
    ),
    *(
        gpu_target(f"{rows}x{dim} {name} in fills", RUN, partial(fills, rows=rows, dim=dim, dtype=dtype), GPU_FILLS)
        for rows, dim in AIMS
        for name, dtype in DTYPES.items()
    ),
)  # fmt: skip
