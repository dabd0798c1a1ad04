"""What a liquid state machine holds: reservoir, read-out and where it ended; on devices, in states and files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from torch_hrr._checks import check_bool, named
from torch_hrr._repr import DescribedModule
from torch_hrr._spec import Instance, takes
from torch_hrr.encoding import connections
from torch_hrr.encoding.acceleration import choose_device
from torch_hrr.encoding.readout import Moments
from torch_hrr.encoding.trajectories import Graph, ReadOut, Step
from torch_hrr.io import Saveable
from torch_hrr.runtime.memory import check_free

SETTINGS = ("input_dim", "units", "spectral_radius", "leak", "input_scaling", "density", "ridge", "seed")
# What weights have that were drawn, and None where they were given.
OF_A_SEED = ("spectral_radius", "input_scaling", "seed")
DRAWN = ("columns", "values", "input_weights", "bias")
LEARNED = ("readout_weights", "readout_constant", "end_state", "end_output")
# What a machine may have or not, and what a file calls all of them.
_OPTIONAL = ("leak", "feedback_weights", *LEARNED)
_FILED = {name: name.replace("end_", "final_") for name in (*DRAWN, *_OPTIONAL)}
_MOMENTS = "moments."


class ReservoirState(Saveable, DescribedModule):
    """The buffers of a `LiquidStateMachine`, which its class documents."""

    _reads_values = True
    _later = frozenset({"embedder"})
    input_dim: int
    units: int
    density: float
    ridge: float
    activation: str
    leak: float | Tensor
    spectral_radius: float | None
    input_scaling: float | None
    seed: int | None
    columns: Tensor
    values: Tensor
    input_weights: Tensor
    bias: Tensor
    feedback_weights: Tensor | None
    readout_weights: Tensor | None
    readout_constant: Tensor | None
    end_state: Tensor | None
    end_output: Tensor | None
    moments: Moments | None
    embedder: nn.Module | None
    _matrix: Tensor | None = None

    def _hold(
        self,
        reservoir: Mapping[str, Tensor],
        leak: float | Tensor,
        embedder: nn.Module | None,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Registers the tensors of a reservoir, and leaves room for the others."""
        # From the end: whoever asks a module for its dtype looks at its first tensor.
        for name in reversed(DRAWN):
            self.register_buffer(name, reservoir[name].to(device, None if name == "columns" else dtype))
        for name in ("feedback_weights", *LEARNED):
            held = reservoir.get(name)
            self.register_buffer(name, None if held is None else held.to(device, dtype))
        self._set_leak(leak.to(device, dtype) if isinstance(leak, Tensor) else leak)
        self.moments = None
        self.register_module("embedder", embedder)

    def _set_leak(self, leak: float | Tensor) -> None:
        """A number is a setting, one for every unit a buffer."""
        if isinstance(leak, Tensor) and "leak" not in self._buffers:
            self.__dict__.pop("leak", None)
            self.register_buffer("leak", leak)
        else:
            self.leak = leak

    def _summary(self) -> dict[str, Any]:
        shown = {name: getattr(self, name) for name in SETTINGS} | {"fitted": self.fitted}
        shown = {name: value for name, value in shown.items() if value is not None}
        return shown if self.activation == "tanh" else shown | {"activation": self.activation}

    def __getstate__(self) -> dict[str, Any]:
        """Without the matrix, which torch copies in no sparse form; a copy has buffers of its own to replace."""
        own = {"_buffers": dict(self._buffers), "_modules": dict(self._modules)}
        return {**nn.Module.__getstate__(self), "_matrix": None, **own}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Devices change, dtypes do not: in a half type states would be another reservoir's."""

        def moved(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            return changed if changed.dtype == tensor.dtype else tensor.to(changed.device)

        if recurse and self.embedder is not None:
            self.embedder._apply(fn)
        for module in (self, self.moments):
            if module is not None:
                nn.Module._apply(module, moved, recurse=False)
        self._matrix = None
        return self

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        own = {name.removeprefix(prefix): state_dict[name] for name in state_dict if name.startswith(prefix)}
        try:
            self._make_room(own)
        except ValueError as error:
            # The list of errors comes last: torch raises them together, and nothing has changed.
            args[-1].append(f"{prefix}{error}")
            return
        for name in DRAWN:
            # Tensors of inference mode cannot be written outside of it.
            if (held := getattr(self, name)).is_inference():
                setattr(self, name, held.clone())
        self._matrix = None
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _make_room(self, state: Mapping[str, Any]) -> None:
        """Room for what a state has and another may lack; ValueError for one that no machine of these settings has."""
        parts = {name: part for name, part in state.items() if isinstance(part, Tensor)}
        shapes = {name: tuple(part.shape) for name, part in parts.items()}
        weights, constant = shapes.get("readout_weights"), shapes.get("readout_constant")
        fits = weights is None if constant is None else len(constant) <= 1 and weights == (self.units, *constant)
        if not fits:
            raise ValueError("readout_weights and readout_constant must be [units, out] and [out], or neither")
        for name in ("end_state", "leak"):
            if shapes.get(name, (self.units,)) != (self.units,):
                raise ValueError(f"{name} must have shape [{self.units}], got {list(shapes[name])}")
        if shapes.get("end_output", constant) != constant:
            raise ValueError(f"end_output must have the shape of readout_constant, got {list(shapes['end_output'])}")
        out = None if constant is None else (*constant, 1)[0]
        heard = shapes.get("feedback_weights")
        if heard is not None and (len(heard) != 2 or heard[0] != self.units or out not in (None, heard[1])):
            raise ValueError(f"feedback_weights must have shape [{self.units}, out], got {list(heard)}")
        summed = shapes.get(_MOMENTS + "cross")
        if summed is not None and (out is None or summed != (self.units, out)):
            raise ValueError(f"{_MOMENTS}cross must have shape [units, out], got {list(summed)}")
        columns = parts.get("columns")
        if columns is not None and columns.shape == self.columns.shape and not columns.is_meta:
            if bool((columns < 0).any() | (columns >= self.units).any() | (columns.diff(dim=1) <= 0).any()):
                raise ValueError("columns must be ascending indices of units")
        for name in _OPTIONAL:
            kind, part = torch.float64 if name in LEARNED and name != "end_state" else self.dtype, parts.get(name)
            room = None if part is None else torch.empty_like(part, dtype=kind, device=self.device)
            if name != "leak":
                setattr(self, name, room)
            elif room is not None:
                self._set_leak(room)
        self.moments = None if summed is None else Moments(*summed, self.device)

    @property
    def device(self) -> torch.device:
        """The device on which states are computed."""
        return self.bias.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of states and predictions."""
        return self.bias.dtype

    @property
    def fitted(self) -> bool:
        """Whether there is a read-out."""
        return self.readout_weights is not None

    @property
    def weights(self) -> Tensor:
        """W, dense, ``[units, units]``: row i holds the weights into unit i; a copy."""
        return connections.dense(self.columns, self.values)

    @property
    def readout(self) -> tuple[Tensor, Tensor]:
        """The learned w ``[units, out]`` and c ``[out]``, float64, or ``[units]`` and ``[]``; copies.

        RuntimeError before `fit`.
        """
        weights, constant = self._fitted_readout("readout")
        return weights.clone(), constant.clone()

    @property
    def final_state(self) -> Tensor:
        """The state ``[units]`` at the end of the series that `fit` learned from; a copy, and saved with the machine.

        ``predict(rest, state=machine.final_state)`` goes on where training ended: the values of one call for the whole
        series, up to rounding.

        Raises:
            RuntimeError: `fit` was not called, or saw a batch of several sequences, which has no one end; or the
                machine is from a file that has no such state.
        """
        if self.end_state is None:
            self._fitted_readout("final_state")
            raise RuntimeError(
                "final_state: the machine must have learned from a single series, and not be from an older file; "
                "otherwise predict(x, return_state=True) gives states"
            )
        return self.end_state.clone()

    def _fitted_readout(self, op: str) -> tuple[Tensor, Tensor]:
        if self.readout_weights is None or self.readout_constant is None:
            raise self._not_fitted(op)
        return self.readout_weights, self.readout_constant

    def _not_fitted(self, op: str) -> RuntimeError:
        return RuntimeError(f"{op}: the machine must have a read-out: call fit first")

    def _reading(self, op: str) -> ReadOut:
        """The read-out with an output's dimension, whether `fit` had it or not."""
        weights, constant = self._fitted_readout(op)
        return ReadOut(weights.reshape(self.units, -1), constant.reshape(-1))

    def _step(self) -> Step:
        """The reservoir as it takes steps one after the other."""
        if self._matrix is None:
            self._matrix = connections.fastest(self.columns, self.values)
        return Step(self._matrix, self.leak, self.activation, self._buffers["feedback_weights"])

    def _graph(self) -> Graph:
        """The same for a graph, which must not hold what this call computes."""
        return Graph(self.columns, self.values, self.leak, self.activation, self.feedback_weights)

    @classmethod
    @takes(embedder=Instance(nn.Module).or_none())
    def load(
        cls,
        path: str | os.PathLike[str],
        key: bytes | None = None,
        *,
        device: torch.device | str | int | None = None,
        embedder: nn.Module | None = None,
        **options: Any,
    ) -> Self:
        """As `Saveable.load`; ``embedder`` is the embedder that the machine was saved with, if it had one.

        Raises:
            ValueError: ``embedder`` is None and the machine had one.
            Others: As for `Saveable.load`.
        """
        cls._check_options(options)
        place = cls._resolved(device)
        tensors, settings = cls._read(path, key)
        if embedder is None and settings.get("embedder") is True:
            raise ValueError(
                f"load: embedder must be the one that the machine in {os.fsdecode(path)} was saved with, got None"
            )
        return cls._made(path, tensors, settings, device=place, embedder=embedder)

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        held = {filed: getattr(self, name) for name, filed in _FILED.items()}
        tensors = {filed: tensor for filed, tensor in held.items() if isinstance(tensor, Tensor)}
        if self.moments is not None:
            tensors |= {_MOMENTS + name: tensor for name, tensor in self.moments.named_buffers()}
        return tensors, self._settings()

    def _settings(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in SETTINGS}
        if isinstance(self.leak, Tensor):
            settings["leak"] = None
        # As text, since other readers of JSON may not take integers of 64 bits.
        settings |= {"seed": None if self.seed is None else str(self.seed), "embedder": self.embedder is not None}
        # Files of machines as they were are as ever.
        return settings if self.activation == "tanh" else settings | {"activation": self.activation}

    @classmethod
    def _from_settings(
        cls, settings: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | None, **options: Any
    ) -> Self:
        # Older files do not say whether there was an embedder.
        check_bool("load", "embedder", settings.pop("embedder", False))
        given = [name for name in OF_A_SEED if settings[name] is None]
        if given and (given != [*OF_A_SEED] or device != torch.device("meta")):
            raise ValueError(f"{', '.join(OF_A_SEED)} or none of them, got no {', '.join(given)}")
        if (settings["leak"] is None) != ("leak" in tensors):
            raise ValueError(f"a leak that is one number or one for every unit, got {settings['leak']}")
        seed = {} if given else {"seed": int(settings["seed"])}
        numbers = {name: value for name, value in settings.items() if value is not None} | seed
        made = cls(**numbers, device=device, dtype=tensors["bias"].dtype, **options)
        for name in given:
            setattr(made, name, None)
        made._make_room({name: tensors[filed] for name, filed in _FILED.items() if filed in tensors} | dict(tensors))
        return made

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        # Checked without memory, as nothing need be drawn.
        made = super()._from_content(tensors, metadata, torch.device("meta"), **options)
        target = choose_device(True, device, "load")
        for name, filed in _FILED.items():
            if filed in tensors:
                setattr(made, name, tensors[filed].to(target))
        if made.moments is not None:
            for name, _ in [*made.moments.named_buffers()]:
                setattr(made.moments, name, tensors[_MOMENTS + name].to(target))
        return made

    def _check_memory(self, op: str) -> None:
        """RuntimeError unless what drawing the reservoir takes is free."""
        units, heard = self.units, self.units * connections.per_unit(self.units, self.density)
        # Indices in 64 and 32 bits and weights; a Krylov space and what it projects to; input weights in three steps.
        needed = 20 * heard + 16 * units**2 + 24 * units * self.input_dim
        got = f"{units}, {self.input_dim} and {self.density:g}"
        check_free(op, "units, input_dim and density", got, needed)

    def _empty(self) -> dict[str, Tensor]:
        """What `connections.draw` gives, without memory."""
        shape = (self.units, connections.per_unit(self.units, self.density))
        columns, values = (torch.empty(shape, dtype=kind, device="meta") for kind in (torch.int32, torch.float64))
        weights = values.new_empty(self.units, self.input_dim)
        return {"columns": columns, "values": values, "input_weights": weights, "bias": values.new_empty(self.units)}

    def _embed(self, op: str, tokens: Tensor) -> Tensor:
        assert self.embedder is not None
        with named("embed", op, ids="x"):
            embedded = self.embedder(tokens, torch.zeros(1, dtype=torch.int64, device=tokens.device))
        if embedded.shape != (*tokens.shape, self.input_dim):
            raise ValueError(
                f"{op}: embedder must give rows of width {self.input_dim}, got shape {list(embedded.shape)}"
            )
        rows: Tensor = embedded.to(self.device, self.dtype)
        return rows
