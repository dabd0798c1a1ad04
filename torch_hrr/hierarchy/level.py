"""A level: layers on a time scale of their own."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._jit_internal import is_scripting

from torch_hrr._checks import check_data, check_elements, check_finite, integer, strided
from torch_hrr._progress import Progress, Tick, in_parts, is_long, ticking, unseen
from torch_hrr._repr import DescribedModule
from torch_hrr._shared import writable_anywhere
from torch_hrr._spec import Choice, Instance, Int, Spec, takes
from torch_hrr.hierarchy.functional import may_be_cut
from torch_hrr.hierarchy.layers import LEARN, SIZES, Layer, keep, told, writable

POOLS = ("last", "mean", "max")
# What a level is made with beside its sizes; attributes that may be written.
_OWN: dict[str, Spec] = {"temporal_resolution": Int(1), "pool": Choice(POOLS)}
Changes = list[tuple[nn.Module, Mapping[str, Any]]]
"""What buffers and numbers of modules are to become."""
# Seconds and rows of a part whose size the time must not decide.
_PART, _ROWS = 0.1, 16


def held_between(ticks: Tensor, resolution: int, count: int) -> Tensor:
    """Outputs of ticks ``[T', ...]``, each held for `resolution` steps, of the first `count` steps."""
    # Before torch 2.13, views of a divided tensor without rows raise.
    if resolution == 1 or not len(ticks):
        return ticks[:count]
    held = ticks.unsqueeze(1)
    sizes = list(held.shape)
    sizes[1] = resolution
    # One copy, several times as fast as index_select.
    steps = held.expand(sizes).flatten(0, 1)[:count]
    # Of one tick, these were the same memory.
    return steps.contiguous()


def pooled(rows: Tensor, resolution: int, pool: str, begun: bool) -> tuple[Tensor, Tensor]:
    """What every tick sees of rows ``[steps, ...]``, and the rows after the last tick.

    Unless time has begun, the first tick has one row.
    """
    if pool == "last":
        first_tick = resolution - 1 if begun else 0
        ticks = rows[first_tick::resolution]
        return ticks, rows[first_tick + 1 + (len(ticks) - 1) * resolution :] if len(ticks) else rows
    first, rest = (rows[:0], rows) if begun else (rows[:1], rows[1:])
    windows = len(rest) // resolution
    pooled_rows, left = rest[: windows * resolution], rest[windows * resolution :]
    seen = pooled_rows[::resolution]
    # In the order of steps, so that a window has the same bits in any call.
    for step in range(1, resolution if windows else 1):
        row = pooled_rows[step::resolution]
        seen = torch.maximum(seen, row) if pool == "max" else seen + row
    if pool == "mean":
        seen = seen / resolution
    return torch.cat([first, seen]), left


def real(op: str, argument: str, data: Any, *shape: str | int) -> Tensor:
    """The data as a tensor; TypeError for what holds no real numbers, ValueError for what holds none at all.

    ValueError, too, unless the sizes are as those of the shape that are ints.
    """
    rows = strided(op, argument, data)
    check_data(op, argument, rows)
    if rows.is_complex():
        raise TypeError(f"{op}: {argument} must be real, got {rows.dtype}")
    differ = any(size != wanted for size, wanted in zip(rows.shape, shape, strict=False) if isinstance(wanted, int))
    if shape and (rows.dim() != len(shape) or differ):
        raise ValueError(f"{op}: {argument} must have shape [{', '.join(map(str, shape))}], got {list(rows.shape)}")
    return rows


def to_learn(op: str, argument: str, rows: Tensor, level: "HierarchicalLevel", learns: bool) -> Tensor:
    """The rows in the dtype of a level; what it learns from must be finite there, or it would be spoilt."""
    rows = rows.to(level.held.dtype)
    if learns:
        check_finite(op, argument, rows)
    return rows


class HierarchicalLevel(DescribedModule):
    """A chain of layers that ticks every `temporal_resolution` steps and holds its output in between.

    It ticks at steps 0, r, 2r, ... since `reset_state`. A tick sees what came since the tick before, pooled: the last
    step, or the mean or the maximum over the steps; at the first tick that is one step. "last" aliases what changes
    faster than r steps; "mean" does not.

    Attributes:
        level_id: The number given.
        input_size, output_size: Lengths of inputs and outputs.
        temporal_resolution: r.
        pool: "last", "mean" or "max".
        layers: The layers, in their order.
        steps: Steps since `reset_state`.
        held: ``[output_size]``, the output of the last tick; zeros before the first.
        window: ``[temporal_resolution - 1, input_size]``, the inputs since the last tick, then zeros.
    """

    held: Tensor
    window: Tensor
    __jit_unused_properties__ = ("learns",)

    @takes(level_id=Int(-(2**63), 2**63 - 1), **SIZES, **_OWN)
    @writable_anywhere
    def __init__(
        self, level_id: int, input_size: int, output_size: int, temporal_resolution: int = 1, pool: str = "last"
    ) -> None:
        """An empty level; `add_layer` fills it.

        Args:
            level_id: A number for its user.
            input_size: Length of an input, at least 1.
            output_size: Length of an output, at least 1: that of the last layer.
            temporal_resolution: Steps from one tick to the next, at least 1.
            pool: What a tick sees of the steps since the one before: "last", "mean" or "max".
        """
        super().__init__()
        op = "HierarchicalLevel"
        self.level_id = level_id
        self.input_size, self.output_size = input_size, output_size
        self.temporal_resolution, self.pool = temporal_resolution, pool
        self.layers: Any = nn.ModuleList()
        self.steps = 0
        shape = (self.temporal_resolution - 1, self.input_size)
        check_elements(op, "the output", (self.output_size,))
        check_elements(op, "the window of a tick", (self.temporal_resolution, self.input_size))
        self.register_buffer("held", torch.zeros(self.output_size, device="cpu"))
        self.register_buffer("window", torch.zeros(shape, device="cpu"))

    @takes(layer=Instance(Layer))
    def add_layer(self, layer: Layer) -> None:
        """Appends a layer.

        Raises:
            ValueError: Its input is not as long as the output of the layer before, or as the level's input; its device
                or dtype is another; or it is in the level already. The level is unchanged.
        """
        op = "add_layer"
        if any(layer is each for each in self.layers):
            raise ValueError(f"{op}: layer must be new to the level, got one that is in it already")
        before = self.layers[-1].output_size if len(self.layers) else self.input_size
        if layer.input_size != before:
            raise ValueError(f"{op}: layer must have input_size {before}, got {layer.input_size}")
        if len(self.layers) and (layer.device, layer.dtype) != (self.layers[0].device, self.layers[0].dtype):
            raise ValueError(
                f"{op}: layer must be of {self.layers[0].dtype} on {self.layers[0].device} as the first layer, got "
                f"{layer.dtype} on {layer.device}"
            )
        if not len(self.layers):
            self.held = self.held.to(layer.weight)
            self.window = self.window.to(layer.weight)
        self.layers.append(layer)

    def check(self, op: str) -> None:
        """ValueError unless the layers lead from inputs to outputs, where the level's state is, and may run.

        TypeError or ValueError, too, for attributes that were changed to ones that it cannot run with.
        """
        for name, spec in _OWN.items():
            given = getattr(self, name)
            value = spec(op, f"{name} of level {self.level_id}", given)
            if value is not given:
                setattr(self, name, value)
        made = (1 + self.window.shape[0], self.window.shape[1])
        if (self.temporal_resolution, self.input_size) != made:
            raise ValueError(
                f"{op}: temporal_resolution and input_size of level {self.level_id} must stay {made[0]} and {made[1]}, "
                f"got {self.temporal_resolution} and {self.input_size}"
            )
        if not len(self.layers):
            raise ValueError(f"{op}: level {self.level_id} must have layers, got none: call add_layer")
        found = self.layers[-1].output_size
        if found != self.output_size:
            raise ValueError(
                f"{op}: level {self.level_id} must end with a layer of output_size {self.output_size}, got {found}"
            )
        for layer in self.layers:
            if (layer.device, layer.dtype) != (self.held.device, self.held.dtype):
                raise ValueError(
                    f"{op}: level {self.level_id} must have layers of {self.held.dtype} on {self.held.device}, got "
                    f"{layer.dtype} on {layer.device}"
                )
            layer.check(op)

    def reset_parameters(self) -> None:
        """`reset_state`, as after ``to_empty``; layers have one each."""
        self.reset_state()

    @torch.no_grad()
    def reset_state(self) -> None:
        """Time starts at step 0 again; what was learned stays."""
        self.steps = 0
        for name in ("held", "window"):
            writable(self, name).zero_()

    @takes(learn=LEARN)
    def step(self, x: Any, learn: bool | None = None) -> Tensor:
        """One step: ``[output_size]`` for an input ``[input_size]``, as `process` of one row."""
        op = "step"
        return self._whole(op, "x", real(op, "x", x, self.input_size).unsqueeze(0), learn)[0]

    @takes(learn=LEARN)
    def process(self, inputs: Any, learn: bool | None = None, *, progress: Progress = None) -> Tensor:
        """Some steps at once: what as many calls of `step` would give and leave, bit for bit where the layers learn.

        Args:
            inputs: ``[T, input_size]``; a NumPy array is copied.
            learn: Whether layers that can learn do; without, nothing but the time changes. None means those that are
                in train mode, in a level that is: none after ``eval()``.
            progress: As of `HierarchyManager.process_hierarchy`, also about Ctrl-C.

        Returns:
            ``[T, output_size]``, outputs held between ticks.

        Raises:
            TypeError: inputs are not a tensor or array of real numbers.
            ValueError: The shape does not fit, layers are missing or do not fit, a theta is not above 0, or layers are
                to learn from NaN or infinity. After this or any other error the level is unchanged.
        """
        op = "process"
        tick = ticking(op, progress)
        return self._whole(op, "inputs", real(op, "inputs", inputs, "T", self.input_size), learn, tick)

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs ``[..., T, output_size]`` of sequences ``[..., T, input_size]``, each from step 0, without learning.

        Nothing changes, time neither; as of `HierarchyManager.process_batch` with ``learn=False``. Scriptable.

        Raises:
            As `process`.
        """
        op = "HierarchicalLevel"
        if is_scripting():
            # What `check` and `real` find that a program could meet.
            if len(self.layers) == 0:
                raise ValueError(f"{op}: level {self.level_id} must have layers, got none: call add_layer")
            if inputs.is_complex():
                raise TypeError(f"{op}: inputs must be real, got {inputs.dtype}")
        else:
            inputs = real(op, "inputs", inputs)
            self.check(op)
        if inputs.dim() < 2 or inputs.shape[-1] != self.input_size:
            raise ValueError(f"{op}: inputs must have shape [..., T, {self.input_size}], got {list(inputs.shape)}")
        return self.from_step_0(inputs)

    def from_step_0(self, rows: Tensor) -> Tensor:
        """`forward` of checked sequences."""
        # Steps first.
        samples = rows.flatten(0, -3) if rows.dim() > 2 else rows.unsqueeze(0)
        ticks = pooled(samples.transpose(0, 1).to(self.held), self.temporal_resolution, self.pool, False)[0]
        for layer in self.layers:
            # Scripted, without what keeps autocast off.
            ticks = layer(ticks) if is_scripting() else layer._run(ticks, False)[0]
        outputs = held_between(ticks, self.temporal_resolution, samples.shape[1]).transpose(0, 1)
        return outputs.unflatten(0, rows.shape[:-2]) if rows.dim() > 2 else outputs[0]

    def _whole(self, op: str, argument: str, rows: Tensor, learn: bool | None, tick: Tick = unseen) -> Tensor:
        self.check(op)
        rows = to_learn(op, argument, rows, self, self.learning(learn))
        parts: list[list[Tensor]] = []
        through(op, (self,), rows, learn, parts, tick)
        return joined(parts)[0]

    @property
    def learns(self) -> bool:
        """Whether a layer can learn."""
        return self.learning(True)

    def _seconds(self) -> float:
        """What a step may take."""
        ticks = sum(layer._tick_seconds + 3e-10 * layer.weight.numel() for layer in self.layers)
        return float(ticks / self.temporal_resolution)

    def learning(self, learn: bool | None) -> bool:
        """Whether a layer learns in a call that says so, or that leaves it to the modes."""
        return any(layer.learning(told(self, learn)) for layer in self.layers)

    def _run(self, rows: Tensor, learn: bool | None) -> tuple[Tensor, Changes]:
        """The outputs of `process`, and what is to change, the time and all that was learned: nothing has yet."""
        rows = rows.to(self.held)
        resolution, count = self.temporal_resolution, len(rows)
        waiting = (self.steps - 1) % resolution if self.steps else 0
        waited = torch.cat([self.window[:waiting], rows]) if waiting else rows
        ticks, rest = pooled(waited, resolution, self.pool, self.steps > 0)
        ticks, changes = self._through_layers(ticks, learn)
        # A step holds the output of the last tick; before the first tick of this call, what was held.
        outputs = held_between(ticks, resolution, count - min(-self.steps % resolution, count))
        if len(outputs) < count:
            outputs = torch.cat([self.held.expand(count - len(outputs), -1), outputs])
        window = nn.functional.pad(rest, (0, 0, 0, resolution - 1 - len(rest)))
        held: dict[str, Any] = {"held": ticks[-1]} if len(ticks) else {}
        return outputs, [*changes, (self, {**held, "window": window, "steps": self.steps + count})]

    def _run_batch(self, samples: Tensor, learn: bool | None) -> tuple[Tensor, Changes]:
        """``[T, B, output_size]`` for B samples ``[T, B, input_size]`` from step 0, which learn together; as `_run`."""
        samples = samples.to(self.held)
        ticks, changes = self._through_layers(pooled(samples, self.temporal_resolution, self.pool, False)[0], learn)
        return held_between(ticks, self.temporal_resolution, len(samples)), changes

    def _through_layers(self, ticks: Tensor, learn: bool | None) -> tuple[Tensor, Changes]:
        changes: Changes = []
        for layer in self.layers:
            ticks, learned = layer._run(ticks, layer.learning(told(self, learn)))
            changes.append((layer, learned))
        return ticks, changes

    def get_extra_state(self) -> Tensor:
        """Steps since `reset_state`, for state_dict."""
        return torch.tensor(self.steps, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Counterpart of `get_extra_state`; TypeError for anything else."""
        op = "load_state_dict"
        given = strided(op, "steps", state)
        check_data(op, "steps", given)
        if given.dtype != torch.int64 or given.dim() > 0:
            raise TypeError(f"{op}: steps must be an int64 number, got {given.dtype} of shape {list(given.shape)}")
        self.steps = integer(op, "steps", int(given), 0)

    def _summary(self) -> dict[str, Any]:
        names = ("level_id", "input_size", "output_size", "temporal_resolution", "pool")
        return {name: getattr(self, name) for name in names}


def through(
    op: str,
    levels: Sequence[HierarchicalLevel],
    rows: Tensor,
    learn: bool | None,
    parts: list[list[Tensor]],
    tick: Tick = unseen,
    axis: int = 0,
) -> None:
    """Sends checked rows ``[T, n]`` through levels in a chain, in parts if that takes long; `parts` gets the outputs.

    With every part all levels change, or after an error in it none. Parts of layers that all learn have the bits of a
    whole call. Others are matrix products, whose last bits depend on their sizes: the time has no part in these.

    For axis 1 rows are ``[T, B, n]``, of samples from step 0, and parts of some samples, unless a layer learns.
    """
    count, done = rows.shape[axis], 0
    learning = [layer.learning(told(level, learn)) for level in levels for layer in level.layers]

    def chained(given: Tensor) -> tuple[list[Tensor], Changes]:
        results: list[Tensor] = []
        changes: Changes = []
        for level in levels:
            given, own = level._run_batch(given, learn) if axis else level._run(given, learn)
            results.append(given)
            changes += own
        return results, changes

    def run(size: int) -> None:
        nonlocal done
        if parts and done == count:
            return
        results, changes = chained(rows.narrow(axis, done, size))
        # No call may begin with a theta that has diverged, but one may go on with it.
        thetas = [values["theta"] for _, values in changes if "theta" in values]
        if done + size < count and not all(theta.isfinite().all() for theta in thetas):
            size = count - done
            results, changes = chained(rows.narrow(axis, done, size))
        keep(changes)
        parts.append(results)
        done += size

    rows_each = len(rows) if axis else 1
    seconds = rows_each * sum(level._seconds() for level in levels)
    state = (buffer for level in levels for buffer in level.buffers() if buffer.is_floating_point())
    if is_long(seconds * count) and all(map(may_be_cut, (rows, *state))) and not (axis and any(learning)):
        fixed = max(-(-_ROWS // rows_each), int(_PART / seconds))
        in_parts(op, count, seconds, run, tick, **({} if all(learning) else {"most": fixed, "least": fixed}))
    else:
        run(count)
        tick(count, count)


def joined(parts: list[list[Tensor]], axis: int = 0) -> list[Tensor]:
    """The outputs of each level for all parts, which become one part."""
    if len(parts) > 1:
        parts[:] = [[torch.cat(each, axis) for each in zip(*parts, strict=True)]]
    return parts[0]
