"""Targets of fields: steps beside a copy and beside torch.compile, steps on chip, and gradients."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.field import DECAY, DIFFUSION, into
from bench.targets import Measured, Session, Target, beside, compiled, gpu_target, in_units
from bench.timing import ratio
from torch_hrr import field
from torch_hrr._plain import field as plain

HEADING = (
    "Baseline: a copy of the field, ten calls of one step, or torch.compile of the definition; results used again."
)
SHAPE = (64, 64, 64, 64)
SIGMA = 0.1


def noisy_step(start: Tensor, noise: Tensor, out: Tensor) -> Tensor:
    """The step with numbers drawn before."""
    return out.copy_(plain.evolve(start, DECAY, DIFFUSION) + SIGMA * noise)


def single_steps(steps: int, start: Tensor, out: Tensor, other: Tensor) -> Tensor:
    """So many calls of one step, to and fro."""
    source = start
    for step in range(steps):
        source = field.evolve(source, DECAY, DIFFUSION, out=other if step % 2 else out)
    return source


def measured(session: Session, baseline: str, functions: dict[str, Callable[[], Any] | None]) -> Measured:
    """Our time beside the baseline's and, in the note, a copy's; what is None is left out."""
    found = session.times({name: function for name, function in functions.items() if function is not None})
    return beside(found, baseline, f"{ratio(found['ours'], found['copy'])[0]:.2f} copies of the field")


def tensors(session: Session, count: int) -> list[Tensor]:
    """A random field, and others of its size."""
    generator = torch.Generator().manual_seed(session.settings.seed)
    start = torch.randn(SHAPE, generator=generator).to(session.settings.device)
    return [start, *(torch.zeros_like(start) for _ in range(count))]


def step(session: Session, *, boundary: str, stencil: str) -> Measured:
    """One step into a result that is used again, beside a copy."""
    start, out = tensors(session, 1)
    ours = partial(field.evolve, start, DECAY, DIFFUSION, 1, boundary, stencil, out=out)
    return measured(session, "copy", {"ours": ours, "copy": partial(out.copy_, start)})


def copies(session: Session, *, steps: int) -> Measured:
    """Steps in one call into a result that is used again, in copies within the device."""
    start, out = tensors(session, 1)
    ours = partial(field.evolve, start, DECAY, DIFFUSION, steps, out=out)
    return in_units(session, {"ours": ours, "copy": partial(out.copy_, start)})


def many_steps(session: Session, *, steps: int) -> Measured:
    """Steps in one call, beside as many calls."""
    start, out, other = tensors(session, 2)
    ours, calls = partial(field.evolve, start, DECAY, DIFFUSION, steps, out=out), partial(single_steps, steps)
    copy = partial(out.copy_, start)
    return measured(session, "calls", {"ours": ours, "calls": partial(calls, start, out, other), "copy": copy})


def noise(session: Session) -> Measured:
    """A step with noise, beside torch's step and its normal_."""
    start, out, drawn = tensors(session, 2)
    key = field.random_key(1, device=start.device)
    ours = partial(field.evolve, start, DECAY, DIFFUSION, noise=SIGMA, key=key, out=out)
    theirs = (lambda: compiled(noisy_step)(start, drawn.normal_(), out)) if session.settings.compile else None
    return measured(session, "compile", {"ours": ours, "copy": partial(out.copy_, start), "compile": theirs})


def sobel(session: Session) -> Measured:
    """All derivatives, beside torch.compile."""
    (start,) = tensors(session, 0)
    out = torch.zeros(3, *SHAPE, device=start.device)
    ours, theirs = partial(field.gradient, start, out=out), partial(compiled(into), plain.gradient, start, out=out)
    return measured(session, "compile", {"ours": ours, "copy": partial(out[0].copy_, start), "compile": theirs})


def cycle(session: Session, *, spatial: int) -> Measured:
    """A whole cycle of a brain, beside the same cycle of compositions in plain torch."""
    own = field.create_brain(spatial=spatial, learner="imprint", device=session.settings.device)
    eager = own.copy()
    eager.eager = True
    values = [0.1] * own.sensory_dim
    brains = {"ours": own, "eager": eager}
    found = session.times({name: partial(brain.process_robot_cycle, values) for name, brain in brains.items()})
    return beside(found, "eager", f"{1 / found['ours'].median:.0f} Hz, {own.nbytes / 2**20:.0f} MiB")


# Of a GPU: copies within its memory, and a robot's cycles a second.
GPU_COPIES = {1: 1.3, 10: 3.0}
CYCLES_PER_SECOND = 1000
# Of the specification: 1.15 copies; three times faster than single steps; four times faster than torch.compile.
COPIES = 1 / 1.15
INTO = "field_evolve with out"
TARGETS = (
    *(
        Target(
            f"64^3x64 {boundary} {stencil}", INTO, partial(step, boundary=boundary, stencil=stencil),
            speedup=COPIES, baseline="copy_",
        )
        for boundary, stencil in (
            ("replicate", "laplace"), ("zeros", "laplace"), ("circular", "laplace"),
            ("replicate", "box"), ("replicate", "binomial"),
        )
    ),
    Target("64^3x64 10 steps, 10 calls", INTO, partial(many_steps, steps=10), speedup=3.0, baseline="10 calls"),
    Target("64^3x64 noise, compile", INTO, noise, speedup=4.0, baseline="compile and normal_"),
    Target("64^3x64 gradient, compile", "field_gradient with out", sobel, speedup=4.0, baseline="compile"),
    *(
        Target(
            f"{edge}^3x64 cycle, eager", "process_robot_cycle", partial(cycle, spatial=edge),
            speedup=10.0, baseline="plain torch",
        )
        for edge in (32, 64)
    ),
    *(
        gpu_target(f"64^3x64 in copies, steps: {n}", INTO, partial(copies, steps=n), limit)
        for n, limit in GPU_COPIES.items()
    ),
    Target(
        f"32^3x64 cycle, {CYCLES_PER_SECOND} a second", "process_robot_cycle", partial(cycle, spatial=32),
        limit=1 / CYCLES_PER_SECOND, baseline="plain torch", needs_gpu=True,
    ),
)  # fmt: skip
