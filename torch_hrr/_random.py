"""Random generators of torch's by seeds of 64 bits."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from torch_hrr._checks import check_seed

_CPU = torch.device("cpu")
# Where the 624 words of a CPU generator lie in its state, one in each eight bytes.
_WORDS = slice(24, 24 + 8 * 624)


def given_or_drawn_seed(op: str, seed: Any) -> int:
    """`check_seed` of a seed; for None, 64 bits from torch's default generator on the CPU, which `manual_seed` sets."""
    if seed is not None:
        return check_seed(op, seed)
    # Real numbers also where new tensors hold no data, as in fake tensor mode.
    with _disable_current_modes():
        return int(torch.randint(-(2**63), 2**63 - 1, (), device="cpu"))


def seeded_generator(seed: int, device: torch.device = _CPU) -> torch.Generator:
    """A generator in which all 64 bits of a seed count; seeds below 2^32 give torch's own.

    The Mersenne twister on the CPU takes the low 32 bits alone, so that the words of the high ones are added (xor), one
    place on, or swapped halves would be the same. Other devices count with 64 bits.
    """
    low, high = seed % 2**32, seed % 2**64 >> 32
    generator = torch.Generator(device)
    if device.type != "cpu" or high == 0:
        return generator.manual_seed(seed % 2**64)
    # As above.
    with _disable_current_modes():
        state = generator.manual_seed(low).get_state()
        more = torch.Generator(_CPU).manual_seed(high).get_state()[_WORDS].view(torch.int64)
        state[_WORDS].view(torch.int64).bitwise_xor_(more.roll(1))
        return generator.set_state(state)


def outside_transforms() -> contextlib.AbstractContextManager[Any]:
    """A block that torch.func's transforms do not see: what a seed decides is the same in each of a batch."""
    block: contextlib.AbstractContextManager[Any] = torch._C._DisableFuncTorch()
    return block


def restore_generator(generator: torch.Generator, state: Tensor) -> None:
    """ValueError for the state of a generator of another kind of device, which counts otherwise, or of none."""
    before = generator.get_state()
    if state.shape != before.shape:
        raise ValueError(f"random numbers of another kind of device than {generator.device}")
    generator.set_state(state)
    if not torch.equal(generator.get_state(), state):
        # Torch leaves out what no generator gives.
        generator.set_state(before)
        raise ValueError("random numbers that no generator gives")
