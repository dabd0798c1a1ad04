"""Targets of the encodings: times beside torch.compile, eager torch and a fill of the result."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from bench.encoding import encoded, filled, filled_into, ours, ours_into
from bench.targets import Measured, Session, Target, gpu_target, in_units
from bench.timing import Candidate, median_and_iqr, ratio

HEADING = "Baseline: the faster form of torch.compile, or of eager torch; results used again (out=) or fresh."


def stacked_into(dim: int, positions: Tensor, out: Tensor) -> Tensor:
    """For torch.compile, which writes the result in place."""
    return out.copy_(encoded(positions, dim, "interleaved", out.dtype))


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile for one shape."""
    result: Callable[..., Any] = torch.compile(function, dynamic=False)
    return result


def stacked(dim: int, dtype: torch.dtype, positions: Tensor) -> Tensor:
    """For torch.compile, with a fresh result."""
    return encoded(positions, dim, "interleaved", dtype)


def times(session: Session, rows: int, dim: int, dtype: torch.dtype) -> dict[str, Candidate]:
    """Every way to the encoding of 0 to rows - 1, and a fill, measured once."""

    def measure() -> dict[str, Candidate]:
        positions = torch.arange(rows, device=session.settings.device)
        out = torch.zeros(rows, dim, dtype=dtype, device=session.settings.device)
        functions: dict[str, Callable[[], Any]] = {
            "ours, reused": partial(ours_into, dim, positions, out=out),
            "ours, fresh": partial(ours, dim, dtype, positions),
            "eager, reused": partial(filled_into, dim, positions, out=out),
            "eager, fresh": partial(filled, dim, dtype, positions),
            "fill": partial(out.fill_, 1.0),
        }
        if session.settings.compile:
            functions["compile, reused"] = partial(compiled(stacked_into), dim, positions, out)
            functions["compile, fresh"] = partial(compiled(stacked), dim, dtype, positions)
        for function in functions.values():
            function()
        return session.times(functions)

    return session.once((rows, dim, dtype), measure)


def beside(session: Session, *, rows: int, dim: int, dtype: torch.dtype, result: str, peer: str) -> Measured:
    """Our time, and how often it goes into that of the peer's faster form."""
    found = times(session, rows, dim, dtype)
    own = found[f"ours, {result}"]
    seconds = median_and_iqr(own.rounds)[0]
    note = f"{ratio(own, found['fill'])[0]:.2f} fills of the result"
    forms = [each for name, each in found.items() if name.startswith(peer)]
    if not forms:
        return Measured(seconds, note=f"{note}; without {peer}")
    fastest = min(forms, key=lambda each: median_and_iqr(each.rounds)[0])
    return Measured(
        seconds,
        baseline_seconds=median_and_iqr(fastest.rounds)[0],
        speedup=ratio(fastest, own)[0],
        note=f"{note}; {fastest.name}",
        candidates=tuple(found.values()),
    )


def fills(session: Session, *, rows: int, dim: int, dtype: torch.dtype) -> Measured:
    """Our time into a result that is used again, in fills of it within the device."""
    positions = torch.arange(rows, device=session.settings.device)
    out = torch.zeros(rows, dim, dtype=dtype, device=session.settings.device)
    functions: dict[str, Callable[[], Any]] = {
        "ours": partial(ours_into, dim, positions, out=out),
        "fill": partial(out.fill_, 1.0),
    }
    return in_units(session, ("fills", rows, dim, dtype), functions)


def target(rows: int, dim: int, dtype: torch.dtype, result: str, peer: str, aim: float) -> Target:
    """One row."""
    name = str(dtype).removeprefix("torch.")
    return Target(
        what=f"{rows}x{dim} {name} {result}, {peer}",
        run="sinusoidal_encoding of 0 to rows - 1",
        measure=partial(beside, rows=rows, dim=dim, dtype=dtype, result=result, peer=peer),
        speedup=aim,
        baseline=peer,
    )


# Of the specification: with a result used again, and fresh.
AIMS = {(8192, 512): (2.0, 6.0), (65_536, 1024): (5.0, 12.0)}
FRESH_AIM = 1.3
# Of a GPU: fills of the result.
GPU_FILLS = 1.2
DTYPES = (torch.float32, torch.bfloat16)
TARGETS = (
    *(
        target(rows, dim, dtype, result, peer, aim)
        for (rows, dim), (compile_aim, eager_aim) in AIMS.items()
        for dtype in DTYPES
        for result, peer, aim in (
            ("reused", "compile", compile_aim),
            ("reused", "eager", eager_aim),
            ("fresh", "compile", FRESH_AIM),
        )
    ),
    *(
        gpu_target(
            f"{rows}x{dim} {str(dtype).removeprefix('torch.')} in fills",
            "sinusoidal_encoding of 0 to rows - 1",
            partial(fills, rows=rows, dim=dim, dtype=dtype),
            GPU_FILLS,
        )
        for rows, dim in AIMS
        for dtype in DTYPES
    ),
)
