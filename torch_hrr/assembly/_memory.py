"""The memory of a brain: what it takes, what is to spare, and how both change over rounds."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import torch
from torch import Tensor

from torch_hrr._shared import lock_public_calls
from torch_hrr._spec import Choice, Int, takes
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly.brain import Brain

_MEBIBYTE = 2.0**20
_DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def memory_usage(brain: Brain) -> dict[str, float]:
    """Memory of the tensors of a brain, as `TorchBrain.get_memory_usage` says."""
    reserved = sum(buffer.numel() * buffer.element_size() for buffer in brain.buffers())
    spare = 0
    edges = 0
    for fiber in brain._network.fibers.values():
        per_chunk = sum(
            tensor.element_size() * tensor[0, :1].numel() for tensor in (fiber.next, fiber.target, fiber.weight)
        )
        spare += per_chunk * int((fiber.next.shape[1] - fiber.chunks).sum())
        edges += int(fiber.length.sum())
    neurons = sum(area.n for area in brain._network.areas.values()) * brain._network.brains
    return {
        "allocated_mb": (reserved - spare) / _MEBIBYTE,
        "reserved_mb": reserved / _MEBIBYTE,
        "edges": edges,
        "bytes_per_neuron": reserved / neurons if neurons else 0.0,
    }


@lock_public_calls
class ConnectomeMemory:
    """The memory of a brain's connectomes."""

    def __init__(self, brain: Brain) -> None:
        """Of this brain."""
        self._brain = brain

    @property
    def _lock(self) -> Any:
        return self._brain._lock

    @takes(n_source=Int(0, 2**31 - 2), n_target=Int(0, 2**31 - 2), dtype=Choice(_DTYPES))
    def allocate_connectome(self, n_source: int, n_target: int, dtype: str = "float32") -> Tensor:
        """A dense tensor of zeros on the brain's device, for a graph of your own: `Brain.connect(edges=)`.

        Random connectomes need none of this: they take no memory.

        Args:
            n_source: its rows, the neurons that fire.
            n_target: its columns.
            dtype: "float16", "bfloat16", "float32" or "float64"; weights are float32 once connected.

        Returns:
            ``[n_source, n_target]``.
        """
        return torch.zeros(n_source, n_target, dtype=_DTYPES[dtype], device=self._brain.device)

    def optimize_layout(self) -> int:
        """Gives back the memory that tables of synapses keep to grow into; later rounds take new memory.

        Returns:
            How many bytes it was.
        """
        freed = 0
        for fiber in self._brain._network.fibers.values():
            used = int(fiber.chunks.max())
            for name in ("next", "target", "weight"):
                old: Tensor = getattr(fiber, name)
                freed += old[:, used:].numel() * old.element_size()
                fiber.hold(name, old[:, :used].clone())
        return freed


class UsageSamples:
    """Memory and time of a brain over its rounds: a hook that samples at most once an interval.

    Args:
        brain: the brain it is a hook of.
        interval: seconds between samples, >= 0; with 0 every round is one.
        most: how many samples are kept, the last ones.
    """

    def __init__(self, brain: Brain, interval: float, most: int = 10_000) -> None:
        """See the class."""
        self._interval = checks.number("start_monitoring", "interval", interval, least=0)
        self._brain = brain
        self._samples: deque[dict[str, Any]] = deque(maxlen=most)
        self._start = self._last = time.perf_counter()
        self._rounds = 0
        self._handle = brain.register_round_hook(self._after_round)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Of a copy, which samples the copy of the brain.
        self.__dict__.update(state)
        self._handle = self._brain.register_round_hook(self._after_round)

    def _after_round(self, brain: Brain) -> None:
        self._rounds += 1
        if time.perf_counter() - self._last >= self._interval:
            self._sample()

    def _sample(self) -> None:
        self._last = time.perf_counter()
        usage = memory_usage(self._brain)
        self._samples.append({"seconds": self._last - self._start, "rounds": self._rounds, **usage})

    def stop(self) -> list[dict[str, Any]]:
        """The samples, and a last one of this moment; there are no more afterwards."""
        self._handle.remove()
        self._sample()
        return list(self._samples)
