"""Levels on several time scales, each of which sees the outputs of the one before."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch._jit_internal import is_scripting
from torch.utils.hooks import RemovableHandle

from torch_hrr._checks import integer
from torch_hrr._progress import Progress, Tick, ticking, unseen
from torch_hrr._repr import DescribedModule
from torch_hrr._shared import Shared, locked
from torch_hrr._spec import Bool, Instance, takes
from torch_hrr.hierarchy.layers import LEARN, HebbianCore, Layer, ReactiveLayer, told
from torch_hrr.hierarchy.level import HierarchicalLevel, joined, real, through, to_learn
from torch_hrr.hierarchy.softhebb import SoftHebb
from torch_hrr.io import Saveable
from torch_hrr.io.saveable import check_shape

Hook = Callable[[HierarchicalLevel, Tensor], None]
_LAYERS: dict[str, type[Layer]] = {"ReactiveLayer": ReactiveLayer, "HebbianCore": HebbianCore, "SoftHebb": SoftHebb}


class HierarchyManager(Shared, Saveable, DescribedModule):
    """Levels in a chain: at every step the first sees the data, each other the output that the level before holds.

    Time goes on from call to call, and so does learning in train mode, in which a new hierarchy is; after ``eval()``
    only calls with ``learn=True`` learn. `reset_state` sets time back. What is saved in the middle of a window goes on
    there. Threads may share one: its calls run one at a time.

    Attributes:
        levels: The levels, in their order.
    """

    file_format = "torch_hrr.hierarchy"
    _later = frozenset({"center", "losers", "scaled", "power"})

    def __init__(self) -> None:
        """An empty hierarchy; `add_level` fills it."""
        super().__init__()
        self.levels: Any = nn.ModuleList()
        self._hooks: OrderedDict[int, Hook] = OrderedDict()

    @takes(level=Instance(HierarchicalLevel))
    @locked
    def add_level(self, level: HierarchicalLevel) -> None:
        """Appends a level, with or without its layers.

        Raises:
            ValueError: Its input is not as long as the output of the level before, its layers do not lead from its
                input to its output, or it is in the hierarchy already. The hierarchy is unchanged.
        """
        op = "add_level"
        if any(level is each for each in self.levels):
            raise ValueError(f"{op}: level must be new to the hierarchy, got one that is in it already")
        if len(self.levels) and level.input_size != self.levels[-1].output_size:
            raise ValueError(
                f"{op}: level must have input_size {self.levels[-1].output_size}, the output_size of the level before, "
                f"got {level.input_size}"
            )
        if len(level.layers):
            level.check(op)
        self.levels.append(level)

    @takes(learn=LEARN)
    @locked
    def process_hierarchy(
        self, data: Any, steps: int | None = None, learn: bool | None = None, *, progress: Progress = None
    ) -> list[Tensor]:
        """Some steps of all levels.

        Learning needs no gradient and keeps none; without it, gradients flow from the results to the data.

        Args:
            data: ``[T, n]``, a tensor or a NumPy array of real numbers, on any device; it is moved to the levels.
            steps: How many of the T steps; None means all.
            learn: Whether layers that can learn do; None means those in train mode, in a level and a hierarchy in
                train mode: none after ``eval()``.
            progress: Called with the steps done and all; True shows a bar, None nothing. Many steps in float32 or
                float64 on the CPU, without a gradient, run in parts of about a fifth of a second, between which Ctrl-C
                ends the call: all levels are as after the last part, whose outputs hooks get. Others run in one.

        Returns:
            For every level its outputs ``[steps, output_size]``, held between its ticks.

        Raises:
            TypeError: Complex or sparse data.
            ValueError: The hierarchy is empty, a level has no layers or its layers do not fit, a shape does not fit, a
                theta is not above 0, or layers are to learn from NaN or infinity. Nothing is changed.

        Determinism: any division of the steps into calls gives the same bits for levels of layers that learn, and
        nearly the same where a matrix product stands for all ticks. Cost: that of `plastic_scan`, or of one matrix
        product a layer.
        """
        op = "process_hierarchy"
        tick = ticking(op, progress)
        learn = self._check(op, learn)
        rows = real(op, "data", data, "T", self.levels[0].input_size)
        count = len(rows) if steps is None else integer(op, "steps", steps, 0)
        if count > len(rows):
            raise ValueError(f"{op}: steps must be at most {len(rows)}, the length of data, got {count}")
        return self._process(op, "data", rows[:count], learn, tick)

    @takes(learn=LEARN)
    @locked
    def step(self, x: Any, learn: bool | None = None) -> list[Tensor]:
        """One step of all levels, for one input ``[n]``: the row that `process_hierarchy` gives for each level."""
        op = "step"
        learn = self._check(op, learn)
        row = real(op, "x", x, self.levels[0].input_size).unsqueeze(0)
        return [rows[0] for rows in self._process(op, "x", row, learn)]

    def _process(self, op: str, argument: str, rows: Tensor, learn: bool | None, tick: Tick = unseen) -> list[Tensor]:
        levels, parts = tuple(self.levels), list[list[Tensor]]()
        rows = self._to_learn(op, argument, rows, learn)
        try:
            through(op, levels, rows, learn, parts, tick)
        finally:
            # After an interrupt, of the steps that were done.
            for level, outputs in zip(levels, joined(parts) if parts and self._hooks else (), strict=False):
                for hook in tuple(self._hooks.values()):
                    hook(level, outputs)
        return joined(parts)

    @takes(learn=LEARN)
    @locked
    def process_batch(self, samples: Any, learn: bool | None = None, *, progress: Progress = None) -> list[Tensor]:
        """Many sequences side by side, each from step 0; where they learn, every tick takes the mean of their updates.

        The time of the hierarchy itself does not go on.

        Args:
            samples: ``[B, T, n]``, as the data of `process_hierarchy`.
            learn: Whether layers that can learn do; None means those in train mode, in a level and a hierarchy in
                train mode: none after ``eval()``.
            progress: As of `process_hierarchy`, of samples, for calls that do not learn; Ctrl-C changes nothing.

        Returns:
            For every level its outputs ``[B, T, output_size]``.

        Raises:
            As `process_hierarchy`; a ValueError for an empty batch too.
        """
        op = "process_batch"
        tick = ticking(op, progress)
        learn = self._check(op, learn)
        rows = real(op, "samples", samples, "B", "T", self.levels[0].input_size)
        if not len(rows):
            raise ValueError(f"{op}: samples must be at least one, got {list(rows.shape)}")
        rows = self._to_learn(op, "samples", rows.transpose(0, 1), learn)
        parts: list[list[Tensor]] = []
        through(op, tuple(self.levels), rows, learn, parts, tick, axis=1)
        return [outputs.transpose(0, 1) for outputs in joined(parts, 1)]

    def forward(self, data: Tensor) -> list[Tensor]:
        """For every level its outputs ``[..., T, output_size]`` of sequences ``[..., T, n]``, without learning.

        Each sequence starts at step 0, and nothing changes, time neither: what `process_batch` gives with
        ``learn=False``. Gradients flow to the data. Scriptable.

        Raises:
            As `process_hierarchy`.
        """
        if not is_scripting():
            # A graph holds no lock.
            if not torch.compiler.is_compiling():
                return self._apart(data)
        if len(self.levels) == 0:
            raise ValueError("HierarchyManager: the hierarchy must have levels, got none: call add_level")
        results: list[Tensor] = []
        for level in self.levels:
            data = level(data)
            results.append(data)
        return results

    @locked
    def _apart(self, data: Any) -> list[Tensor]:
        op = "HierarchyManager"
        self._check(op, False)
        rows, size = real(op, "data", data), self.levels[0].input_size
        if rows.dim() < 2 or rows.shape[-1] != size:
            raise ValueError(f"{op}: data must have shape [..., T, {size}], got {list(rows.shape)}")
        results = []
        for level in self.levels:
            rows = level.from_step_0(rows)
            results.append(rows)
        return results

    @locked
    def reset_state(self) -> None:
        """Time starts at step 0 again in all levels; what was learned stays."""
        for level in self.levels:
            level.reset_state()

    @locked
    def register_level_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(level, outputs)`` for every level after `process_hierarchy` and `step`; outputs ``[steps, m]``.

        By then all levels have made their steps, so that a hook that raises leaves nothing half done.

        Returns:
            A handle; its ``remove()`` ends the calls.
        """
        if not callable(hook):
            raise TypeError(f"register_level_hook: hook must be callable, got {type(hook).__name__}")
        handle = RemovableHandle(self._hooks)
        self._hooks[handle.id] = hook
        return handle

    def _check(self, op: str, learn: bool | None) -> bool | None:
        if not len(self.levels):
            raise ValueError(f"{op}: the hierarchy must have levels, got none: call add_level")
        for level in self.levels:
            level.check(op)
        return told(self, learn)

    def _to_learn(self, op: str, argument: str, rows: Tensor, learn: bool | None) -> Tensor:
        learns = any(level.learning(learn) for level in self.levels)
        return to_learn(op, argument, rows, self.levels[0], learns)

    @takes(state_dict=Instance(Mapping), strict=Bool(), assign=Bool())
    @locked
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As of any module, but after an error the hierarchy is unchanged."""
        before = copy.deepcopy(self.state_dict())
        try:
            return super().load_state_dict(state_dict, strict=strict, assign=assign)
        except BaseException:
            super().load_state_dict(before, assign=True)
            raise

    def __copy__(self) -> Self:
        """A copy that shares nothing, as `copy.deepcopy` makes: two owners of the same weights would damage them."""
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles."""
        # Hooks stay with the hierarchy that they were given to.
        return {**super().__getstate__(), "_hooks": OrderedDict()}

    @locked
    def _settings(self) -> dict[str, Any]:
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
        return {"levels": levels}

    @classmethod
    def _from_settings(
        cls, settings: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | None, **options: Any
    ) -> Self:
        made, made_of = cls(**options), cast("dict[str, Tensor]", tensors)
        levels = settings.pop("levels")
        if settings:
            raise ValueError(f"levels alone, got {sorted(settings)}")
        for number, given in enumerate(levels):
            level_settings = dict(given)
            layers, steps = level_settings.pop("layers"), level_settings.pop("steps")
            sizes = (level_settings["temporal_resolution"] - 1, level_settings["input_size"])
            check_shape(tensors, f"levels.{number}.window", sizes)
            check_shape(tensors, f"levels.{number}.held", (level_settings["output_size"],))
            level = HierarchicalLevel(**level_settings)
            for i, layer_settings in enumerate(layers):
                own = dict(layer_settings)
                kind: Any = _LAYERS[own.pop("class")]
                weight = f"levels.{number}.layers.{i}.weight"
                check_shape(tensors, weight, (own["output_size"], own["input_size"]))
                layer = kind(**own, device=device, dtype=tensors[weight].dtype)
                if kind is SoftHebb and "center" not in own:
                    # From before inputs were centred.
                    layer.center = False
                    held = {weight.replace("weight", name): getattr(layer, name) for name in ("mean", "sums")}
                    if held.keys() & tensors.keys():
                        raise ValueError(f"{weight} of a layer that does not say whether inputs are centred")
                    made_of.update(held)
                level.add_layer(layer)
            level.steps = integer("load", "steps", steps, 0)
            made.add_level(level)
        return made

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        made = super()._from_content(tensors, metadata, device, **options)
        for level in made.levels:
            if len(level.layers):
                level.check("load")
        return made
