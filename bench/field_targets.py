"""Targets of fields: steps beside a copy and beside torch.compile, steps on chip, and gradients."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from bench.field import DECAY, DIFFUSION
from bench.targets import Measured, Session, Target, beside, gpu_target, in_units
from bench.timing import Candidate, ratio
from torch_hrr import field
from torch_hrr._plain import field as plain

HEADING = (
    "Baseline: a copy of the field, ten calls of one step, or torch.compile of the definition; results used again."
)
SHAPE = (64, 64, 64, 64)
SIGMA = 0.1


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile for one shape."""
    result: Callable[..., Any] = torch.compile(function, dynamic=False)
    return result


def step_into(boundary: str, stencil: str, start: Tensor, out: Tensor) -> Tensor:
    """For torch.compile."""
    return out.copy_(plain.evolve(start, DECAY, DIFFUSION, 1, boundary, stencil))


def noisy_step(start: Tensor, noise: Tensor, out: Tensor) -> Tensor:
    """The step with numbers drawn before."""
    return out.copy_(plain.evolve(start, DECAY, DIFFUSION) + SIGMA * noise)


def gradient_into(start: Tensor, out: Tensor) -> Tensor:
    """For torch.compile."""
    return out.copy_(plain.gradient(start))


def ten_steps(steps: int, start: Tensor, out: Tensor, other: Tensor) -> Tensor:
    """So many calls of one step, to and fro."""
    source = start
    for step in range(steps):
        target = other if step % 2 else out
        source = field.evolve(source, DECAY, DIFFUSION, out=target)
    return source


def measured(session: Session, key: str, functions: dict[str, Callable[[], Any]], baseline: str) -> Measured:
    """Our time beside the baseline's."""

    def measure() -> dict[str, Candidate]:
        for function in functions.values():
            function()
        return session.times(functions)

    found = session.once(key, measure)
    note = f"{ratio(found['ours'], found['copy'])[0]:.2f} copies of the field" if "copy" in found else ""
    return beside(found, baseline, note)


def tensors(session: Session, count: int) -> list[Tensor]:
    """A random field, and others of its size."""
    generator = torch.Generator().manual_seed(session.settings.seed)
    start = torch.randn(SHAPE, generator=generator).to(session.settings.device)
    return [start, *(torch.zeros_like(start) for _ in range(count))]


def step(session: Session, *, boundary: str, stencil: str) -> Measured:
    """One step into a result that is used again, beside a copy."""
    start, out = tensors(session, 1)
    functions: dict[str, Callable[[], Any]] = {
        "ours": partial(field.evolve, start, DECAY, DIFFUSION, 1, boundary, stencil, out=out),
        "copy": partial(out.copy_, start),
    }
    return measured(session, f"{boundary} {stencil}", functions, "copy")


def copies(session: Session, *, steps: int) -> Measured:
    """Steps in one call into a result that is used again, in copies within the device."""
    start, out = tensors(session, 1)
    functions: dict[str, Callable[[], Any]] = {
        "ours": partial(field.evolve, start, DECAY, DIFFUSION, steps, out=out),
        "copy": partial(out.copy_, start),
    }
    return in_units(session, f"{steps} steps in copies", functions)


def many_steps(session: Session, *, steps: int) -> Measured:
    """Steps in one call, beside as many calls."""
    start, out, other = tensors(session, 2)
    functions: dict[str, Callable[[], Any]] = {
        "ours": partial(field.evolve, start, DECAY, DIFFUSION, steps, out=out),
        "calls": partial(ten_steps, steps, start, out, other),
        "copy": partial(out.copy_, start),
    }
    return measured(session, f"{steps} steps", functions, "calls")


def noise(session: Session) -> Measured:
    """A step with noise, beside torch's step and its normal_."""
    start, out, drawn = tensors(session, 2)
    key = field.random_key(1, device=start.device)
    functions: dict[str, Callable[[], Any]] = {
        "ours": partial(field.evolve, start, DECAY, DIFFUSION, noise=SIGMA, key=key, out=out),
        "copy": partial(out.copy_, start),
    }
    if not session.settings.compile:
        return measured(session, "noise", functions | {"compile": lambda: None}, "compile")
    torch_step = compiled(noisy_step)
    functions["compile"] = lambda: torch_step(start, drawn.normal_(), out)
    return measured(session, "noise", functions, "compile")


def sobel(session: Session) -> Measured:
    """All derivatives, beside torch.compile."""
    (start,) = tensors(session, 0)
    out = torch.zeros(3, *SHAPE, device=start.device)
    functions: dict[str, Callable[[], Any]] = {
        "ours": partial(field.gradient, start, out=out),
        "copy": partial(out[0].copy_, start),
        "compile": partial(compiled(gradient_into), start, out),
    }
    return measured(session, "sobel", functions, "compile")


def cycle(session: Session, *, spatial: int) -> Measured:
    """A whole cycle of a brain, beside the same cycle of compositions in plain torch."""
    own = field.create_brain(spatial=spatial, device=session.settings.device)
    eager = own.copy()
    eager.eager = True
    values = [0.1] * own.sensory_dim
    functions: dict[str, Callable[[], Any]] = {
        "ours": partial(own.process_robot_cycle, values),
        "eager": partial(eager.process_robot_cycle, values),
    }
    found = measured(session, f"cycle {spatial}", functions, "eager")
    note = f"{1 / found.value:.0f} Hz, {own.nbytes / 2**20:.0f} MiB"
    return replace(found, note=note)


def target(what: str, run: str, baseline: str, aim: float, measure: Callable[[Session], Measured]) -> Target:
    """One row."""
    return Target(what=what, run=run, measure=measure, speedup=aim, baseline=baseline)


# Of a GPU: copies within its memory, and a robot's cycles a second.
GPU_COPIES = {1: 1.3, 10: 3.0}
CYCLES_PER_SECOND = 1000
# Of the specification: 1.15 copies; three times faster than single steps; four times faster than torch.compile.
COPIES = 1 / 1.15
TARGETS = (
    *(
        target(
            f"64^3x64 {boundary} {stencil}", "field_evolve with out", "copy_", COPIES,
            partial(step, boundary=boundary, stencil=stencil),
        )
        for boundary, stencil in (
            ("replicate", "laplace"), ("zeros", "laplace"), ("circular", "laplace"),
            ("replicate", "box"), ("replicate", "binomial"),
        )
    ),
    target("64^3x64 10 steps, 10 calls", "field_evolve with out", "10 calls", 3.0, partial(many_steps, steps=10)),
    target("64^3x64 noise, compile", "field_evolve with out", "compile and normal_", 4.0, noise),
    target("64^3x64 gradient, compile", "field_gradient with out", "compile", 4.0, sobel),
    *(
        target(f"{edge}^3x64 cycle, eager", "process_robot_cycle", "plain torch", 10.0, partial(cycle, spatial=edge))
        for edge in (32, 64)
    ),
    *(
        gpu_target(f"64^3x64 in copies, steps: {n}", "field_evolve with out", partial(copies, steps=n), limit)
        for n, limit in GPU_COPIES.items()
    ),
    Target(
        f"32^3x64 cycle, {CYCLES_PER_SECOND} a second", "process_robot_cycle", partial(cycle, spatial=32),
        limit=1 / CYCLES_PER_SECOND, baseline="plain torch", needs_gpu=True,
    ),
)  # fmt: skip
