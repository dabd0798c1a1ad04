"""Levels on several time scales, each of which sees the outputs of the one before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from torch_hrr._checks import check_bool, check_data, check_finite, integer, strided
from torch_hrr._shared import Shared, locked
from torch_hrr.hierarchy.layers import HebbianCore, Layer, ReactiveLayer
from torch_hrr.hierarchy.level import HierarchicalLevel
from torch_hrr.hierarchy.softhebb import SoftHebb
from torch_hrr.io import Saveable

Hook = Callable[[HierarchicalLevel, Tensor], None]
_LAYERS: dict[str, type[Layer]] = {"ReactiveLayer": ReactiveLayer, "HebbianCore": HebbianCore, "SoftHebb": SoftHebb}


class HierarchyManager(Shared, Saveable, nn.Module):
    """Levels in a chain: at every step the first sees the data, each other the output that the level before holds.

    Time goes on from call to call, and so does learning; `reset_state` sets time back. What is saved in the middle of a
    window goes on there. Threads may share one: its calls run one at a time.

    Attributes:
        levels: The levels, in their order.
    """

    file_format = "torch_hrr.hierarchy"

    def __init__(self) -> None:
        """An empty hierarchy; `add_level` fills it."""
        super().__init__()
        self.levels: Any = nn.ModuleList()
        self._hooks: OrderedDict[int, Hook] = OrderedDict()

    @locked
    def add_level(self, level: HierarchicalLevel) -> None:
        """Appends a level, with or without its layers.

        Raises:
            TypeError: Not a HierarchicalLevel.
            ValueError: Its input is not as long as the output of the level before, or its layers do not lead from its
                input to its output. The hierarchy is unchanged.
        """
        op = "add_level"
        if not isinstance(level, HierarchicalLevel):
            raise TypeError(f"{op}: level must be a HierarchicalLevel, got {type(level).__name__}")
        if len(self.levels) and level.input_size != self.levels[-1].output_size:
            raise ValueError(
                f"{op}: level must have input_size {self.levels[-1].output_size}, the output_size of the level before, "
                f"got {level.input_size}"
            )
        if len(level.layers):
            level.check(op)
        self.levels.append(level)

    @locked
    def process_hierarchy(self, data: Any, steps: int | None = None, learn: bool = True) -> list[Tensor]:
        """Some steps of all levels.

        Learning needs no gradient and keeps none; without it, gradients flow from the results to the data.

        Args:
            data: ``[T, n]``, a tensor or a NumPy array of real numbers, on any device; it is moved to the levels.
            steps: How many of the T steps; None means all.
            learn: Whether layers that can learn do.

        Returns:
            For every level its outputs ``[steps, output_size]``, held between its ticks.

        Raises:
            TypeError: An argument of another type, complex or sparse data.
            ValueError: The hierarchy is empty, a level has no layers or its layers do not fit, a shape does not fit, a
                theta is not above 0, or layers are to learn from NaN or infinity. Nothing is changed.

        Determinism: any division of the steps into calls gives the same bits for levels of layers that learn, and
        nearly the same where a matrix product stands for all ticks. Cost: that of `plastic_scan`, or of one matrix
        product a layer.
        """
        op = "process_hierarchy"
        self._check(op, learn)
        rows = self._rows(op, "data", data, learn)
        first = self.levels[0]
        if rows.dim() != 2 or rows.shape[1] != first.input_size:
            raise ValueError(f"{op}: data must have shape [T, {first.input_size}], got {list(rows.shape)}")
        count = len(rows) if steps is None else integer(op, "steps", steps, 0)
        if count > len(rows):
            raise ValueError(f"{op}: steps must be at most {len(rows)}, the length of data, got {count}")
        rows = rows[:count]
        results = []
        for level in self.levels:
            rows = level._process(op, rows, learn)
            results.append(rows)
            for hook in tuple(self._hooks.values()):
                hook(level, rows)
        return results

    @locked
    def step(self, x: Any, learn: bool = True) -> list[Tensor]:
        """One step of all levels, for one input ``[n]``: the row that `process_hierarchy` gives for each level."""
        check_bool("step", "learn", learn)
        vector = self._rows("step", "x", x, learn)
        if vector.dim() != 1:
            raise ValueError(f"step: x must have 1 dimension [n], got {vector.dim()}")
        return [rows[0] for rows in self.process_hierarchy(vector.unsqueeze(0), learn=learn)]

    @locked
    def process_batch(self, samples: Any, learn: bool = True) -> list[Tensor]:
        """Many sequences side by side, each from step 0; where they learn, every tick takes the mean of their updates.

        The time of the hierarchy itself does not go on.

        Args:
            samples: ``[B, T, n]``, as the data of `process_hierarchy`.
            learn: Whether layers that can learn do.

        Returns:
            For every level its outputs ``[B, T, output_size]``.

        Raises:
            As `process_hierarchy`; a ValueError for an empty batch too.
        """
        op = "process_batch"
        self._check(op, learn)
        rows = self._rows(op, "samples", samples, learn)
        first = self.levels[0]
        if rows.dim() != 3 or rows.shape[2] != first.input_size or not len(rows):
            shape = f"[B, T, {first.input_size}] with at least one sample"
            raise ValueError(f"{op}: samples must have shape {shape}, got {list(rows.shape)}")
        rows = rows.transpose(0, 1)
        results = []
        for level in self.levels:
            rows = level.process_batch(rows.to(level.held), learn)
            results.append(rows.transpose(0, 1))
        return results

    @locked
    def reset_state(self) -> None:
        """Time starts at step 0 again in all levels; what was learned stays."""
        for level in self.levels:
            level.reset_state()

    @locked
    def register_level_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(level, outputs)`` after every level of `process_hierarchy` and `step`; outputs ``[steps, m]``.

        Returns:
            A handle; its ``remove()`` ends the calls.
        """
        if not callable(hook):
            raise TypeError(f"register_level_hook: hook must be callable, got {type(hook).__name__}")
        handle = RemovableHandle(self._hooks)
        self._hooks[handle.id] = hook
        return handle

    def _check(self, op: str, learn: bool) -> None:
        check_bool(op, "learn", learn)
        if not len(self.levels):
            raise ValueError(f"{op}: the hierarchy must have levels, got none: call add_level")
        for level in self.levels:
            level.check(op)

    def _rows(self, op: str, argument: str, data: Any, learn: bool) -> Tensor:
        """The data as a tensor. Where layers learn it must be finite: one NaN would spoil all that was learned."""
        rows = strided(op, argument, data)
        check_data(op, argument, rows)
        if rows.is_complex():
            raise TypeError(f"{op}: {argument} must be real, got {rows.dtype}")
        if learn and not all(isinstance(layer, ReactiveLayer) for level in self.levels for layer in level.layers):
            check_finite(op, argument, rows)
        return rows

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles."""
        # Hooks stay with the hierarchy that they were given to.
        return {**super().__getstate__(), "_hooks": OrderedDict()}

    @locked
    def _content(self) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
        tensors = {name: value for name, value in self.state_dict().items() if not name.endswith("_extra_state")}
        levels = [
            {
                "level_id": level.level_id,
                "input_size": level.input_size,
                "output_size": level.output_size,
                "temporal_resolution": level.temporal_resolution,
                "pool": level.pool,
                "steps": level.steps,
                "layers": [{"class": type(layer).__name__, **layer.settings()} for layer in level.layers],
            }
            for level in self.levels
        ]
        return tensors, {"levels": levels}

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        made = cls()
        if set(metadata) != {"levels"} or options:
            raise ValueError(f"levels alone, got {sorted(metadata)} and {sorted(options)}")
        for number, given in enumerate(metadata["levels"]):
            level_settings = dict(given)
            layers, steps = level_settings.pop("layers"), level_settings.pop("steps")
            level = HierarchicalLevel(**level_settings)
            for i, layer_settings in enumerate(layers):
                settings = dict(layer_settings)
                kind: Any = _LAYERS[settings.pop("class")]
                dtype = tensors[f"levels.{number}.layers.{i}.weight"].dtype
                level.add_layer(kind(**settings, device=device, dtype=dtype))
            level.steps = integer("load", "steps", steps, 0)
            made.add_level(level)
        expected: dict[str, Tensor] = dict(made._content()[0])
        if expected.keys() != tensors.keys():
            raise ValueError(f"tensors {sorted(expected)}, got {sorted(tensors)}")
        for name, value in tensors.items():
            place = expected[name]
            if (place.shape, place.dtype) != (value.shape, value.dtype):
                raise ValueError(f"{name} of {place.dtype} {list(place.shape)}, got {value.dtype} {list(value.shape)}")
            place.copy_(value)
        for level in made.levels:
            if len(level.layers):
                level.check("load")
        return made
