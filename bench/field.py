"""Benchmark entries of fields: steps and gradients beside slices and convolution."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.entry import Entry, Inputs, Peer
from torch_hrr import field
from torch_hrr._plain import field as plain

DECAY, DIFFUSION = 0.1, 0.1


def fields(size: int, channels: int, batch: int, generator: torch.Generator) -> Inputs:
    """A cube of many channels; the leading size is its depth."""
    return (torch.randn(batch, size, size, channels, generator=generator),)


def slices(steps: int, boundary: str, start: Tensor) -> Tensor:
    """The steps in slices, for eager torch and torch.compile."""
    return plain.evolve(start, DECAY, DIFFUSION, steps, boundary)


def slices_into(steps: int, boundary: str, start: Tensor, *, out: Tensor) -> Tensor:
    """The same into a result that is used again."""
    return out.copy_(plain.evolve(start, DECAY, DIFFUSION, steps, boundary))


def convolution(boundary: str, start: Tensor) -> Tensor:
    """One step as a depthwise conv3d of the padded field."""
    mode = {"replicate": "replicate", "zeros": "constant", "circular": "circular"}[boundary]
    channels = start.shape[-1]
    kernel = start.new_zeros(channels, 1, 3, 3, 3)
    for place in ((0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2)):
        kernel[:, 0, place[0], place[1], place[2]] = DIFFUSION
    kernel[:, 0, 1, 1, 1] = 1 - 6 * DIFFUSION
    padded = F.pad((1 - DECAY) * start.movedim(-1, 0)[None], (1,) * 6, mode=mode)
    return F.conv3d(padded, kernel, groups=channels)[0].movedim(0, -1)


def ours(steps: int, boundary: str, start: Tensor) -> Tensor:
    """The operator."""
    return field.evolve(start, DECAY, DIFFUSION, steps, boundary)


def ours_into(steps: int, boundary: str, start: Tensor, *, out: Tensor) -> Tensor:
    """Into a result that is used again."""
    return field.evolve(start, DECAY, DIFFUSION, steps, boundary, out=out)


def entry(size: int, channels: int, steps: int, boundary: str) -> Entry:
    """field_evolve of a cube."""
    arguments = (steps, boundary)
    # A convolution of a larger field takes a second.
    eager = (Peer("conv3d", partial(convolution, boundary)),) if steps == 1 and size <= 32 else ()
    return Entry(
        op="field_evolve",
        shape=f"{size}^3x{channels} {steps} {boundary}",
        batch=size,
        inputs=partial(fields, size, channels),
        ours=partial(ours, *arguments),
        reuse=partial(ours_into, *arguments),
        peers=(
            Peer("slices", partial(slices, *arguments), reuse=partial(slices_into, *arguments)),
            *eager,
            Peer("torch.compile", partial(slices, *arguments), kind="compile"),
        ),
        traffic=2 * size**3 * channels * 4,
    )


def sobel_convolution(start: Tensor) -> Tensor:
    """The gradient as a depthwise conv3d of the padded field."""
    channels = start.shape[-1]
    smooth, change = start.new_tensor((1.0, 2.0, 1.0)), start.new_tensor((-1.0, 0.0, 1.0))
    kernels = []
    for axis in range(3):
        d, h, w = (change if i == axis else smooth for i in range(3))
        kernels.append(torch.einsum("d,h,w->dhw", d, h, w) / 32)
    weight = torch.stack(kernels).repeat(channels, 1, 1, 1)[:, None]
    padded = F.pad(start.movedim(-1, 0)[None], (1,) * 6, mode="replicate")
    return F.conv3d(padded, weight, groups=channels)[0].unflatten(0, (channels, 3)).movedim(0, -1)


def into(function: Callable[[Tensor], Tensor], start: Tensor, *, out: Tensor) -> Tensor:
    """A composition, into a result that is used again."""
    return out.copy_(function(start))


def gradient_entry(
    size: int, channels: int, op: str, fields_moved: int, ours: Callable[..., Tensor], plain: Callable[[Tensor], Tensor]
) -> Entry:
    """One of the operators of a cube's gradient; fields_moved: what it reads and writes, in fields."""
    convolution = Peer("conv3d", sobel_convolution)
    return Entry(
        op=op,
        shape=f"{size}^3x{channels}",
        batch=size,
        inputs=partial(fields, size, channels),
        ours=ours,
        reuse=ours,
        peers=(
            Peer("slices", plain, reuse=partial(into, plain)),
            *((convolution,) if op == "field_gradient" and size <= 32 else ()),
            Peer("torch.compile", plain, kind="compile"),
        ),
        traffic=fields_moved * size**3 * channels * 4,
    )


def places(size: int, channels: int, batch: int, generator: torch.Generator) -> Inputs:
    """The channels of a cube's places; the leading size is its depth."""
    return (torch.randn(batch * size * size, channels, generator=generator),)


def moments(field: Tensor) -> Tensor:
    """The operator, as a brain's metrics take it."""
    return torch.ops.torch_hrr._field_moments(field, 0.01)


def moments_into(field: Tensor, *, out: Tensor) -> Tensor:
    """Into a result that is used again."""
    torch.ops.torch_hrr._field_moments.out(field, 0.01, out=out)
    return out


def moments_in_torch(field: Tensor) -> Tensor:
    """The same in plain torch, of whole blocks."""
    blocks = field.unflatten(0, (-1, 64))
    mean = blocks.mean(1, keepdim=True)
    size = blocks.abs()
    squares = (blocks - mean).square().sum(1)
    return torch.stack((mean.squeeze(1), squares, size.amax(1), (size < 0.01).sum(1)), 1)


def moments_entry(size: int, channels: int) -> Entry:
    """_field_moments of a cube."""
    return Entry(
        op="_field_moments",
        shape=f"{size}^3x{channels}",
        batch=size,
        inputs=partial(places, size, channels),
        ours=moments,
        reuse=moments_into,
        peers=(Peer("eager", moments_in_torch), Peer("torch.compile", moments_in_torch, kind="compile")),
        traffic=size**3 * channels * 4,
    )


ENTRIES = (
    *(entry(64, 64, 1, boundary) for boundary in ("replicate", "zeros", "circular")),
    *(entry(32, 64, steps, "replicate") for steps in (1, 10)),
    *(
        gradient_entry(size, 64, *kind)
        for size in (32, 64)
        for kind in (
            ("field_gradient", 4, field.gradient, plain.gradient),
            ("gradient_magnitude", 2, field.gradient_magnitude, plain.gradient_magnitude),
        )
    ),
    *(moments_entry(size, 64) for size in (32, 64)),
)
