"""The field operators as Python functions, and the keys of their noise."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import (
    can_be_cut,
    check_bool,
    check_out,
    check_strided,
    integer,
    named,
    optional_tensor,
    real,
    signed,
    strided,
    tensor,
    word,
)
from torch_hrr._ops import ops as _ops
from torch_hrr._progress import Progress, in_parts, ticking
from torch_hrr._sharding import drawn_beside
from torch_hrr._spec import Device, Seed, takes
from torch_hrr.runtime.device import resolve_parameter_device

# Of a step without noise and with it, for each element, on a slow processor.
_SECONDS, _SECONDS_WITH_NOISE = 1e-9, 4e-9


def evolve(
    field: Tensor,
    decay: float | Tensor,
    diffusion: float | Tensor,
    steps: int = 1,
    boundary: str = "replicate",
    stencil: str = "laplace",
    noise: float = 0.0,
    key: Tensor | None = None,
    generator: torch.Generator | None = None,
    out: Tensor | None = None,
    *,
    progress: Progress = None,
) -> Tensor:
    """Steps of decay, diffusion and noise: ``f1 = (1 - decay) f``, ``f2`` by the stencil, ``f2 + noise * N(0, 1)``.

    ``"laplace"`` is ``f2 = f1 + diffusion * (sum of the 6 neighbours - 6 f1)``; ``"box"`` and ``"binomial"`` are
    ``f2 = (1 - diffusion) f1 + diffusion * mean``, with the mean of the 27 elements around, or the one with weights
    ``[1/4, 1/2, 1/4]`` along each axis. Every step rounds to the field's dtype, and half types are computed in float32,
    so that T steps in one call are bit-equal to T calls.

    Noise is numbered channel-major, as if the field were contiguous ``[..., C, D, H, W]``: element i is word ``i % 4``
    of Philox4x32-10 counter ``offset + i // 4``, and words (0, 1) and (2, 3) become normal numbers by Box-Muller, in
    float32 for every dtype. A step takes ``ceil(numel / 4)`` counters. The call leaves the key as it is: `advance_key`
    gives the one after it.

    The matrix of a step is symmetric, so the gradient of the field is the same operator on the incoming gradient, and
    nothing is kept. Gradients of ``decay`` and ``diffusion`` recompute the fields of all steps and hold them at once.
    Differentiable in every mode. Deterministic: the same bits on every instruction set, whatever the threads and the
    layout; without noise also whatever the batch. Cost: a step is near one read and one write of the field with
    ``out``; a large new result costs more in page faults. Several steps without noise in one call cost about half as
    much per step on a CPU if widths are multiples of 16 and channels fill vectors, since each channel stays in the
    caches.

    Args:
        field: ``[..., D, H, W, C]``, float32, float64, float16 or bfloat16, any strides; a NumPy array is copied.
        decay: the share lost in a step, 0 to 1; a float or a 0-d tensor. A tensor's value is checked on the CPU alone,
            since reading one back from a GPU would wait for the device.
        diffusion: 0 to 1/6 for ``"laplace"``, which is unstable beyond, 0 to 1 for the means; a float or a 0-d tensor.
        steps: >= 0; 0 gives a copy.
        boundary: the values outside: "replicate" (the nearest element, no flux), "zeros" or "circular".
        stencil: "laplace", "box" or "binomial".
        noise: standard deviation of the noise that a step adds, >= 0.
        key: ``[2]``, uint64 or int64, as `random_key` makes it, on the field's device; None draws one where noise is
            above 0, of a field on several ranks the first rank.
        generator: draws that key; None means torch's default one.
        out: optional result of the field's shape and dtype that shares no memory with it; decay and diffusion are
            floats then, and there is no gradient.
        progress: called with the steps done and ``steps``; True shows a bar, None nothing. Many steps on the CPU run in
            parts of a fifth of a second with the same bits, between which Ctrl-C ends the call; others in one.

    Returns:
        The field after the steps, or ``out``.

    Raises:
        TypeError: a tensor has a dtype not named above, or ``out`` is given while decay or diffusion is a tensor.
        ValueError: a number is outside its range, a shape does not fit, or ``boundary`` or ``stencil`` is unknown.
        RuntimeError: devices differ, ``out`` shares memory with the field or is given where a gradient is
            asked for, or within vmap ``key`` is given, whose numbering could not follow the batches.

    Source: discretised heat equation (forward time, centred space); Amari, Dynamics of pattern formation in
    lateral-inhibition type neural fields, Biological Cybernetics 27, 1977; Salmon et al., Parallel random numbers: as
    easy as 1, 2, 3, SC 2011.
    """
    op = "evolve"
    field, key = tensor(op, "field", field), optional_tensor(op, "key", key)
    if out is not None:
        check_out(op, out)
    if not isinstance(decay, Tensor):
        decay = real(op, "decay", decay)
    if not isinstance(diffusion, Tensor):
        diffusion = real(op, "diffusion", diffusion)
    steps = signed(op, "steps", steps)
    noise = real(op, "noise", noise)
    word(op, "boundary", boundary)
    word(op, "stencil", stencil)
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(f"{op}: generator must be a torch.Generator or None, got {type(generator).__name__}")
    if noise > 0 and key is None:
        key = drawn_beside(drawn_key(field.device, generator), field)
    tick = ticking(op, progress)
    seconds = _SECONDS_WITH_NOISE if noise > 0 else _SECONDS
    with named("field_evolve", op):
        if isinstance(decay, Tensor) or isinstance(diffusion, Tensor):
            if out is not None:
                raise TypeError(f"{op}: decay and diffusion must be floats where out is given, got a tensor")
            numbers = (_number(decay), _number(diffusion))
            made = _ops.field_evolve.Tensor(field, *numbers, steps, boundary, stencil, noise, key)
        elif steps > 1 and can_be_cut(field):
            made, left = field, steps

            def run(count: int) -> None:
                nonlocal made, key, left
                # A part may not write to what it begins with.
                before = made if out is None or left == steps else made.clone()
                made = _evolved(before, decay, diffusion, count, boundary, stencil, noise, key, out=out)
                left -= count
                if left and key is not None:
                    key = advance_key(key, made.numel(), count)

            in_parts(op, steps, seconds * field.numel(), run, tick)
            return made
        else:
            made = _evolved(field, decay, diffusion, steps, boundary, stencil, noise, key, out=out)
        tick(steps, steps)
    return made


def _evolved(field: Tensor, *arguments: Any, out: Tensor | None) -> Tensor:
    if out is None:
        made: Tensor = _ops.field_evolve.default(field, *arguments)
        return made
    _ops.field_evolve.out(field, *arguments, out=out)
    return out


def gradient(field: Tensor, normalize: bool = True, *, out: Tensor | None = None) -> Tensor:
    """Sobel's derivatives by depth, height and width: ``[1, 2, 1] x [1, 2, 1] x [-1, 0, 1] / 32`` along each axis.

    Exact for linear and quadratic fields away from the border. Beyond the border lies the nearest element, so the
    derivatives of a constant field are zero there too. All channels in one pass; the derivatives of the channels' mean
    are those of ``field.mean(-1, keepdim=True)``, at the cost of one read. Half types are computed in float32 and
    rounded once.

    Differentiable in every mode; the operator is linear, and nothing is kept. Deterministic: the same bits on every
    instruction set, whatever the batch, the threads and the layout. Cost: near one read of the field and three writes.

    Args:
        field: ``[..., D, H, W, C]``, float32, float64, float16 or bfloat16, any strides.
        normalize: whether to divide by 32, the sum of the weights' distances.
        out: optional result of the right shape and dtype that shares no memory with ``field``; no gradient.

    Returns:
        ``[..., 3, D, H, W, C]``, or ``out``.

    Raises:
        TypeError: ``field`` has a dtype not named above, or ``out`` has another dtype than ``field``.
        ValueError: ``field`` has fewer than 4 dimensions, or ``out`` has another shape.
        RuntimeError: devices differ, ``out`` shares memory with ``field`` or is given where a gradient is asked for.

    Source: Sobel and Feldman, An isotropic 3x3 image gradient operator, 1968; Zucker and Hummel, A three-dimensional
    edge operator, IEEE Transactions on Pattern Analysis and Machine Intelligence 3, 1981.
    """
    with named("field_gradient", "gradient"):
        return _slopes("gradient", _ops.field_gradient, field, normalize, out)


def gradient_magnitude(field: Tensor, normalize: bool = True, *, out: Tensor | None = None) -> Tensor:
    """The norm of `gradient` at every place and channel, ``sqrt(g_d^2 + g_h^2 + g_w^2)``, in one pass.

    Where the norm is 0, its derivative is taken as 0. Squares are computed in the compute type: in float32 derivatives
    beyond 1e19 give infinity and those below 1e-23 zero. The rest as for `gradient`; cost: near one read and one write.

    Args:
        field: ``[..., D, H, W, C]``.
        normalize: as for `gradient`.
        out: optional result, as for `gradient`.

    Returns:
        ``[..., D, H, W, C]``, or ``out``.

    Raises:
        TypeError, ValueError, RuntimeError: As `gradient`.

    Source: as `gradient`.
    """
    return _slopes("gradient_magnitude", _ops.gradient_magnitude, field, normalize, out)


def _slopes(op: str, call: Any, field: Tensor, normalize: bool, out: Tensor | None) -> Tensor:
    field = tensor(op, "field", field)
    normalize = check_bool(op, "normalize", normalize)
    if out is None:
        made: Tensor = call.default(field, normalize)
        return made
    check_out(op, out)
    call.out(field, normalize, out=out)
    return out


@takes(seed=Seed(), device=Device())
def random_key(seed: int, device: torch.device | str | int | None = None) -> Tensor:
    """The key tensor (seed, offset) of noise, ``[2]`` int64, with offset 0.

    Args:
        seed: any int, taken modulo 2^64.
        device: device of the fields; None means that of `runtime.set_device`, if called, else torch's default.
    """
    return torch.tensor([seed, 0], dtype=torch.int64, device=resolve_parameter_device(device, op="random_key"))


def drawn_key(device: torch.device, generator: torch.Generator | None = None) -> Tensor:
    """A key that the generator draws, or torch's default one."""
    bounds = -(2**63), 2**63 - 1
    seed = torch.randint(*bounds, (1,), generator=generator, device=_device_of(generator))
    if seed.is_meta and device.type != "meta":
        # Torch's default device has no numbers.
        seed = torch.randint(*bounds, (1,), device="cpu")
    return torch.cat((seed, torch.zeros_like(seed))).to(device)


def advance_key(key: Tensor, numel: int, steps: int = 1) -> Tensor:
    """The key after so many steps of a field of ``numel`` elements: its offset plus ``steps * ceil(numel / 4)``.

    Five steps and then five with the advanced key equal ten steps. The given key stays as it is.

    Raises:
        TypeError: ``key`` is not uint64 or int64, or a number is not an int.
        ValueError: ``numel`` or ``steps`` is negative, or ``key`` is not of shape ``[2]``.
    """
    key = strided("advance_key", "key", key)
    return _advanced("advance_key", key.clone(), numel, steps)


def advance_key_(key: Tensor, numel: int, steps: int = 1) -> Tensor:
    """`advance_key` in place, on the key's device and without waiting for it: fresh noise in every replay of a graph.

    Raises:
        TypeError: As `advance_key`.
        ValueError: As `advance_key`.
    """
    check_strided("advance_key_", "key", key)
    return _advanced("advance_key_", key, numel, steps)


def _advanced(op: str, key: Tensor, numel: int, steps: int) -> Tensor:
    numel, steps = integer(op, "numel", numel, 0), integer(op, "steps", steps, 0)
    if key.dtype not in (torch.uint64, torch.int64):
        raise TypeError(f"{op}: key must be uint64 or int64, got {key.dtype}")
    if key.shape != (2,):
        raise ValueError(f"{op}: key must have shape [2], got {list(key.shape)}")
    # Modulo 2^64, as the counters.
    blocks = (numel + 3) // 4 * steps % 2**64
    key.view(torch.int64)[1].add_(blocks if blocks < 2**63 else blocks - 2**64)
    return key


def _number(value: float | Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64, device="cpu")


def _device_of(generator: torch.Generator | None) -> torch.device | None:
    return None if generator is None else generator.device
