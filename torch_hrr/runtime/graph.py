"""Calls that a GPU repeats: captured once as CUDA graphs, and replayed from then on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import torch
from torch import Tensor


def can_capture(device: torch.device) -> bool:
    """Whether the device's work can be captured as a graph; under autocast not, whose casts a graph would not own."""
    return device.type == "cuda" and not torch.is_autocast_enabled("cuda")


class CapturedCalls:
    """Replays a call that was made before, of the same kind and on the same memory.

    The first call of a kind runs as it is, so that libraries make what they make at first use. The second is captured
    and then replayed, because capturing runs nothing; later ones are replays. Only the device's work is repeated: what
    a call changes in Python is the caller's to repeat. An error while capturing is raised, and nothing has run.

    Results must lie in memory that is given: what is made within a call shares memory with that of other calls.
    Copies and pickles are empty, since a graph is bound to its memory.
    """

    def __init__(self, most: int) -> None:
        """Empty.

        Args:
            most: How many kinds are kept. When another comes, as after memory was replaced, all are dropped.
        """
        self._most = most
        self.clear()

    def clear(self) -> None:
        """Drops what was captured, and its memory."""
        self._calls: dict[Hashable, tuple[Any, Tensor] | None] = {}
        self._pool: Any = None

    def __call__(
        self, function: Callable[[], Tensor], device: torch.device, kind: Hashable, memory: Iterable[Tensor]
    ) -> Tensor:
        """The function's result, by a call, a capture or a replay.

        Args:
            function: What to do on the device, without waiting for it.
            device: Where.
            kind: Everything else that decides what the function does.
            memory: All tensors that it reads and writes and does not make itself.
        """
        key = (kind, tuple((each.data_ptr(), each.dtype, each.shape, each.stride()) for each in memory))
        if key not in self._calls:
            result = function()
            if len(self._calls) == self._most:
                self.clear()
            self._calls[key] = None
            return result
        known = self._calls[key]
        if known is None:
            if self._pool is None:
                self._pool = _pool()
            known = self._calls[key] = _capture(function, device, self._pool)
        graph, result = known
        graph.replay()
        return result

    def __reduce__(self) -> Any:
        """An empty one."""
        return type(self), (self._most,)


def _pool() -> Any:
    """Memory that graphs share which never run at once."""
    return torch.cuda.graph_pool_handle()


@functools.cache
def _stream(device: torch.device) -> Any:
    """Where a device's work is captured: one for all, since cuBLAS keeps a workspace for every stream."""
    return torch.cuda.Stream(device)


def _capture(function: Callable[[], Tensor], device: torch.device, pool: Any) -> tuple[Any, Tensor]:
    """A graph of the function, which has not run, and where its result will be."""
    graph = torch.cuda.CUDAGraph()
    # Other threads, which load data for example, may go on with what a capture forbids.
    with (
        torch.cuda.device(device),
        torch.cuda.graph(graph, pool=pool, stream=_stream(device), capture_error_mode="thread_local"),
    ):
        result = function()
    return graph, result
