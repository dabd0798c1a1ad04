"""Calls that go on where a device's memory is too short, and where the device fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_data, check_strided, strided
from torch_hrr._shared import is_out_of_memory
from torch_hrr.runtime.device import given_up, is_failure, leaves, map_leaves, resolve_adaptive_device, wait_for
from torch_hrr.runtime.memory import free_caches

_CPU = torch.device("cpu")


def adaptive_call(fn: Callable[..., Any], *batches: Any, device: torch.device | str | int | None = None) -> Any:
    """``fn(*batches)`` on a device, with fewer rows at a time where its memory is too short, at last on the CPU.

    Where memory runs out, caches are freed and the rows tried again, then half as many rows at a time, down to one;
    where one row does not fit, all rows that are left go to the CPU. A device that fails is given up, after a
    RuntimeWarning: this call and later ones go on on the CPU, and other calls that name the device are errors.

    Args:
        fn: A function of rows: row i of its results depends on row i of the batches alone. It takes tensors on the
            device and gives a tensor, or dicts, lists and tuples of tensors, all with the batches' first dimension.
            It must change nothing else, since it may be called again for the same rows.
        *batches: Tensors or NumPy arrays ``[rows, ...]`` with the same number of rows.
        device: As for `resolve_device`; None means the current one.

    Returns:
        The results of all rows, on the device of the first batch. They are those of one call on the device, bit for
        bit if fn's rows do not depend on the batch, as those of most of torch_hrr's operators (docs/hrr.md says
        which); rows computed on the CPU have the CPU's bits.

    Raises:
        TypeError: fn is not callable, a batch not a strided tensor or an array, or a result not a strided tensor.
        ValueError: No batches, batches or results of different numbers of rows, results that differ in more than that
            from rows to rows, or a tensor or device without data (meta).
        MemoryError, torch.OutOfMemoryError: One row does not fit into the CPU's memory, or the results do not fit
            where the batches are.
        DeviceError: A device failed that the batches are on, with which they are lost.
    """
    return call_in_rows("adaptive_call", fn, batches, device)


def call_in_rows(
    op: str,
    fn: Callable[..., Any],
    batches: Sequence[Any],
    device: torch.device | str | int | None,
    copied: Callable[[float], None] | None = None,
) -> Any:
    """`adaptive_call` under the name of the user's call.

    Args:
        op: The name.
        fn: As for `adaptive_call`.
        batches: As for `adaptive_call`.
        device: As for `adaptive_call`.
        copied: Told the seconds of copies between devices; the device is waited for, so that its work does not count.
    """
    if not callable(fn):
        raise TypeError(f"{op}: fn must be callable, got {type(fn).__name__}")
    if not batches:
        raise ValueError(f"{op}: batches must be at least one, got none")
    given = [strided(op, f"batch {index}", batch, as_given=True) for index, batch in enumerate(batches)]
    for index, batch in enumerate(given):
        check_data(op, f"batch {index}", batch)
    counts = {batch.shape[0] if batch.dim() else None for batch in given}
    if len(counts) > 1 or None in counts:
        shapes = [list(batch.shape) for batch in given]
        raise ValueError(f"{op}: batches must have the same number of rows, got shapes {shapes}")
    call = _Call(op, fn, given, copied)
    target = resolve_adaptive_device(device, op=op)
    if target.type == "meta":
        raise ValueError(f"{op}: device must hold data, got meta")
    if target.type != "cpu":
        try:
            call.run(target)
        except (RuntimeError, MemoryError) as error:
            if is_failure(error):
                lost = given_up(op, target, error)
                # What is on the device is lost with it; results are on the device of the batches.
                if any(batch.device.type == target.type for batch in given):
                    raise lost from error
            elif not is_out_of_memory(error):
                raise
    if not call.is_done:
        call.run(_CPU)
    return call.result()


class _Call:
    """Results of the first `done` rows, and how to get those of more."""

    def __init__(
        self, op: str, fn: Callable[..., Any], batches: list[Tensor], copied: Callable[[float], None] | None
    ) -> None:
        self.op = op
        self.fn = fn
        self.batches = batches
        self.copied = copied
        self.rows = batches[0].shape[0]
        self.done = 0
        self.parts: list[Any] = []

    @property
    def is_done(self) -> bool:
        """Whether there are results of all rows; of none, there is one result too."""
        return bool(self.parts) and self.done == self.rows

    def run(self, device: torch.device) -> None:
        """All rows that are left; raises what the allocator does where one row does not fit."""
        size = self.rows - self.done
        tried_again = False
        while not self.is_done:
            count = min(size, self.rows - self.done)
            try:
                self.parts.append(self._part(device, count))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or (tried_again and count <= 1):
                    raise
                fits = False
            else:
                fits = True
                self.done += count
            if not fits:
                # Not where the error is at hand, whose frames hold memory.
                free_caches(device)
                size = (count + 1) // 2 if tried_again else count
            tried_again = not fits

    def _part(self, device: torch.device, count: int) -> Any:
        rows = slice(self.done, self.done + count)
        home = self.batches[0].device

        def brought(leaf: Any) -> Tensor:
            if not isinstance(leaf, Tensor):
                raise TypeError(f"{self.op}: fn must give tensors, got {type(leaf).__name__}")
            check_strided(self.op, "fn's result", leaf)
            check_data(self.op, "fn's result", leaf)
            if leaf.dim() == 0 or leaf.shape[0] != count:
                raise ValueError(f"{self.op}: fn must give {count} rows for {count} rows, got shape {list(leaf.shape)}")
            return self._placed(leaf, home)

        return map_leaves(brought, self.fn(*(self._placed(batch[rows], device) for batch in self.batches)))

    def _placed(self, given: Tensor, device: torch.device) -> Tensor:
        is_there = given.device.type == device.type and device.index in (None, given.device.index)
        if is_there or self.copied is None:
            return given.to(device)
        for each in (given.device, device):
            wait_for(self.op, each)
        start = time.perf_counter()
        placed = given.to(device)
        self.copied(time.perf_counter() - start)
        return placed

    def result(self) -> Any:
        """Of all rows."""
        if len(self.parts) == 1:
            return self.parts[0]
        columns = [leaves(part) for part in self.parts]
        kinds = [[(list(leaf.shape[1:]), leaf.dtype) for leaf in column] for column in columns]
        for kind in kinds:
            if kind != kinds[0]:
                got = f"{_described(kinds[0])} and {_described(kind)}"
                raise ValueError(f"{self.op}: fn must give the same for all rows but the first dimension, got {got}")
        joined = iter([torch.cat(column) for column in zip(*columns, strict=True)])
        return map_leaves(lambda leaf: next(joined), self.parts[0])


def _described(kind: list[tuple[list[int], torch.dtype]]) -> str:
    return ", ".join(f"{dtype} [rows{''.join(f', {size}' for size in sizes)}]" for sizes, dtype in kind) or "nothing"
