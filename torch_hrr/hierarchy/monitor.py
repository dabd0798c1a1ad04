"""A record of what the levels of a hierarchy do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_elements, integer
from torch_hrr._monitor import Recorder
from torch_hrr._spec import Instance, Int, takes
from torch_hrr.hierarchy.level import HierarchicalLevel
from torch_hrr.hierarchy.manager import HierarchyManager

COLUMNS = ("mean", "rms", "active", "change")


class Monitor(Recorder):
    """Statistics of every step of every level, in rings of fixed size on the levels' device: nothing waits for it.

    It records as soon as it is made; ``with Monitor(manager) as monitor: ...`` ends that. ``monitor[0, "rms"]`` is a
    series of a level, ``[records]``; `data` gives all of them as tensors, `numpy` as arrays.

    Rings follow where the hierarchy is moved, and to its dtype, but are never of a half type.

    Of each step it keeps the mean of the outputs, their root mean square, the share above 0, and the root mean square
    of the change since the step before (0 at the first).

    Attributes:
        manager: The hierarchy.
        capacity: Records that are kept of each level.
        every: Of so many steps the last one is recorded.
    """

    @takes(manager=Instance(HierarchyManager), capacity=Int(1), every=Int(1))
    def __init__(self, manager: HierarchyManager, capacity: int = 1000, every: int = 1) -> None:
        """Starts to record.

        Args:
            manager: A hierarchy that has levels.
            capacity: Records that are kept of each level, at least 1; new ones replace the oldest.
            every: Of so many steps the last one is recorded, at least 1.

        Raises:
            ValueError: ``manager`` has no levels, or a ring would be too large for torch.
        """
        op = "Monitor"
        if not len(manager.levels):
            raise ValueError(f"{op}: manager must have levels, got none: call add_level")
        self.manager, self.capacity, self.every = manager, capacity, every
        check_elements(op, "a ring", (self.capacity, len(COLUMNS)))
        with torch.inference_mode(False):
            self._rings: list[Tensor] = [
                torch.zeros(
                    self.capacity,
                    len(COLUMNS),
                    device=level.held.device,
                    dtype=torch.promote_types(level.held.dtype, torch.float32),
                )
                for level in manager.levels
            ]
        self.clear()
        self.attach()

    def _summary(self) -> dict[str, Any]:
        own = {"levels": len(self._rings), "capacity": self.capacity, "every": self.every}
        return own | {"recorded": self._recorded, "attached": self._handle is not None}

    @property
    def _lock(self) -> Any:
        return self.manager._lock

    def _watch(self) -> Any:
        # Those that came later have no ring.
        self._numbers = {id(level): i for i, level in enumerate(self.manager.levels[: len(self._rings)])}
        return self.manager.register_level_hook(self._record)

    def clear(self) -> None:
        """Forgets what was recorded and counts steps from 0; the next change is 0."""
        with self._lock:
            self._last: list[Tensor | None] = [None] * len(self._rings)
            self._seen = [0] * len(self._rings)

    @property
    def _recorded(self) -> list[int]:
        return [seen // self.every for seen in self._seen]

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles."""
        return {**super().__getstate__(), "_numbers": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of a copy, which has rings of its own, and watches the hierarchy that it has."""
        rings = [ring.clone() for ring in state["_rings"]]
        super().__setstate__({**state, "_rings": rings, "_last": list(state["_last"]), "_seen": list(state["_seen"])})

    @torch.no_grad()
    def _record(self, level: HierarchicalLevel, outputs: Tensor) -> None:
        number = self._numbers.get(id(level))
        if number is None or not len(outputs):
            return
        # Half types would not hold the squares.
        outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        last = self._last[number]
        before = torch.cat([(outputs[:1] if last is None else last.to(outputs).unsqueeze(0)), outputs[:-1]])
        rows = torch.stack(
            (
                outputs.mean(-1),
                outputs.square().mean(-1).sqrt(),
                (outputs > 0).to(outputs.dtype).mean(-1),
                (outputs - before).square().mean(-1).sqrt(),
            ),
            -1,
        )
        seen = self._seen[number]
        rows = rows[self.every - 1 - seen % self.every :: self.every][-self.capacity :]
        end = (seen + len(outputs)) // self.every
        ring = self._rings[number]
        if ring.device != rows.device or ring.dtype != rows.dtype:
            # The hierarchy was moved.
            with torch.inference_mode(False):
                ring = self._rings[number] = ring.to(rows)
        places = torch.arange(end - len(rows), end, device=ring.device) % self.capacity
        ring.index_copy_(0, places, rows)
        self._seen[number] = seen + len(outputs)
        self._last[number] = outputs[-1].clone()

    def _keys(self) -> list[tuple[int, str]]:
        return [(level, name) for level in range(len(self._rings)) for name in COLUMNS]

    def _series(self, part: int, quantity: str) -> Tensor:
        return self.records(part)[:, COLUMNS.index(quantity)]

    def records(self, level: int) -> Tensor:
        """The records kept of a level, oldest first, ``[records, 4]``: mean, rms, active, change.

        Raises:
            IndexError: There is no such level.
        """
        number = integer("records", "level", level)
        if not -len(self._rings) <= number < len(self._rings):
            raise IndexError(f"records: level must be in 0..{len(self._rings) - 1}, got {number}")
        with self._lock:
            ring, count = self._rings[number], self._recorded[number]
            kept: Tensor = ring[:count].clone() if count <= self.capacity else ring.roll(-(count % self.capacity), 0)
        return kept

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns level, step, mean, rms, active and change, as ``pandas.DataFrame`` takes them."""
        columns: dict[str, list[Any]] = {name: [] for name in ("level", "step", *COLUMNS)}
        with self._lock:
            for number, level in zip(range(len(self._rings)), self.manager.levels, strict=False):
                rows = self.records(number).cpu()
                columns["level"] += [level.level_id] * len(rows)
                last = self._recorded[number]
                columns["step"] += [self.every * i - 1 for i in range(last - len(rows) + 1, last + 1)]
                for i, name in enumerate(COLUMNS):
                    columns[name] += rows[:, i].tolist()
        return columns

    def close(self) -> None:
        """As `detach`."""
        self.detach()
