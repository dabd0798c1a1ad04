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

    The first call of a kind runs directly, so that libraries can set up what they need at first use. The second is
    captured and then replayed, because capturing runs nothing; later ones are replays. Only the device's work is
    repeated: the caller must repeat any changes in Python. An error while capturing is raised, and nothing has run.
    Results must be in memory that the caller provides: memory allocated within a call is shared with other calls.
    Copies and pickles are empty, since a graph is bound to its memory.
    """

    def __init__(self, most: int) -> None:
        """Makes an empty cache.

        Args:
            most: How many kinds are kept. When one more comes, for example because memory was replaced, all are
                dropped.
        """
        self._most = most
        self.clear()

    def clear(self) -> None:
        """Drops all captured graphs and their memory."""
        self._calls: dict[Hashable, tuple[Any, Tensor] | None] = {}
        self._pool: Any = None

    def __call__(
        self, function: Callable[[], Tensor], device: torch.device, kind: Hashable, memory: Iterable[Tensor]
    ) -> Tensor:
        """The function's result, by a call, a capture or a replay.

        Args:
            function: What to do on the device, without waiting for it.
            device: The device.
            kind: Everything else that determines what the function does.
            memory: All tensors that it reads or writes but does not make itself.
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
