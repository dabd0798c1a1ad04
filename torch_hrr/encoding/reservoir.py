"""A liquid state machine: an untrained sparse random recurrent network with a trained ridge read-out."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Self, overload

import torch
from torch import Tensor, nn

from torch_hrr._checks import brief, check_bool, check_data, check_finite, named
from torch_hrr._compile import outside_graphs
from torch_hrr._inputs import check_warmup, real_tensor, token_tensor
from torch_hrr._progress import Progress, ticking
from torch_hrr._random import given_or_drawn_seed, seeded_generator
from torch_hrr._repr import DescribedModule
from torch_hrr._spec import Bool, Device, Instance, Int, Real, Seed, takes
from torch_hrr.encoding.acceleration import choose_device
from torch_hrr.encoding.readout import Moments
from torch_hrr.io import Saveable
from torch_hrr.runtime.memory import check_free

# Elements of states computed at a time: small enough for the cache, large enough that a chunk costs little beside.
_CHUNK = 2**20
# Below so many units, and above so many connections a unit, a dense product takes less time than a sparse one.
_DENSE_UNITS, _DENSE_SHARE = 256, 0.2
# Units up to which all eigenvalues are computed; beyond, a Krylov space grows by as many until two agree to so much.
_ALL_EIGENVALUES, _AGREEMENT = 256, 1e-9
SETTINGS = ("input_dim", "units", "spectral_radius", "leak", "input_scaling", "density", "ridge", "seed")
_DRAWN = ("columns", "values", "input_weights", "bias")
_LEARNED = ("readout_weights", "readout_constant", "end_state")
# What a file calls them.
_FILED = {name: "final_state" if name == "end_state" else name for name in (*_DRAWN, *_LEARNED)}


class LiquidStateMachine(Saveable, DescribedModule):
    """A reservoir of leaky tanh units with a linear read-out.

    ``x[t] = (1 - leak) x[t-1] + leak tanh(W x[t-1] + W_in u[t] + b)`` from ``x = 0``; ``y[t] = w x[t] + c``.

    Every unit receives input from ``max(1, round(density units))`` random units, through weights drawn from U(-1, 1)
    and then scaled so that the largest modulus of W's eigenvalues is ``spectral_radius``. W_in is drawn from U(-1, 1)
    times ``input_scaling``, b from U(-1/2, 1/2). Only w and c are learned, by ridge regression. The reservoir depends
    on the settings alone and is the same on every machine; its states agree among machines and numbers of threads up to
    rounding.

    A call starts from rest, or from the state in which another ended: ``predict(x, state=..., return_state=True)``. A
    series that comes in parts so gives the values of one call, up to rounding. After `fit` on a single series,
    `final_state` is where it ended.

    Inputs u are tensors or NumPy arrays of any real dtype, ``[T, input_dim]``, ``[T]`` if ``input_dim`` is 1, or
    ``[B, T, input_dim]`` for B independent sequences. With an ``embedder`` they are tokens instead, integers ``[T]`` or
    ``[B, T]``, whose rows enter one chunk at a time. Every token is embedded at position 0: the reservoir itself keeps
    the order, and sinusoids of the position would be a second input that never repeats (measured on text with a ridge
    read-out: 3.42 bits per character with them, 2.83 without). Inputs are moved to the machine's device and dtype. No
    gradients.

    It is a module without parameters of its own, called like `run`. A model moves it to a device, but its dtype never
    changes. A ``state_dict`` holds reservoir, read-out and `final_state`, and not the settings. With ``device="meta"``
    nothing is drawn, for ``to_empty`` and ``load_state_dict``.

    Attributes:
        columns: The units that each unit hears, int32 ``[units, connections]``; buffers like all of these, to be read.
        values: The weights of these connections.
        input_weights: W_in, ``[units, input_dim]``.
        bias: b, ``[units]``.
        embedder: As given, or None.

    Source: Jaeger, The "echo state" approach to analysing and training recurrent neural networks, GMD report 148, 2001;
    Maass, Natschläger and Markram, Real-time computing without stable states, Neural Computation 14, 2002.
    """

    file_format = "torch_hrr.liquid_state_machine"
    _reads_values = True
    columns: Tensor
    values: Tensor
    input_weights: Tensor
    bias: Tensor
    readout_weights: Tensor | None
    readout_constant: Tensor | None
    end_state: Tensor | None
    embedder: nn.Module | None
    _matrix: Tensor | None = None

    @takes(
        input_dim=Int(1),
        units=Int(1, 2**24),
        spectral_radius=Real(0),
        leak=Real(0, 1, open_left=True),
        input_scaling=Real(0),
        density=Real(0, 1, open_left=True),
        ridge=Real(0),
        seed=Seed().or_none(),
        embedder=Instance(nn.Module).or_none(),
        device=Device(),
    )
    def __init__(
        self,
        input_dim: int,
        units: int = 500,
        spectral_radius: float = 0.9,
        leak: float = 0.3,
        input_scaling: float = 1.0,
        density: float = 0.1,
        ridge: float = 1e-6,
        seed: int | None = 0,
        *,
        embedder: nn.Module | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the reservoir.

        Args:
            input_dim: Width of an input, at least 1.
            units: Number of units, at least 1.
            spectral_radius: Largest modulus of W's eigenvalues, at least 0. Below 1 old inputs fade.
            leak: Share of a unit's state that each step renews, above 0 and at most 1.
            input_scaling: Largest input weight, at least 0.
            density: Share of the units from which each unit receives input, above 0 and at most 1.
            ridge: Added to the Gram matrix of the states, at least 0; it is not scaled by the number of steps.
            seed: Any int, taken modulo 2^64; None draws one from torch's default generator on the CPU.
            embedder: Called with tokens ``[B, n]`` and positions, gives ``[B, n, input_dim]``: for example a
                `ConfigurableSinusoidalEmbedder`. It is used as it is and not saved.
            device: Where states are computed, "cpu", "cuda" or "meta"; None means the current device of `runtime` if
                that is a GPU that the library has kernels for, else the CPU.
            dtype: dtype of states and predictions, float32 or float64; None means torch's default dtype, or float32
                where that is a half type.

        Raises:
            ValueError: ``spectral_radius`` or ``input_scaling`` gives weights that are not finite.
            RuntimeError: The machine needs more memory than is free.

        Cost: the spectral radius, exact to about 1e-9, takes 0.1 s for 500 units and 1 s for 2000.
        """
        super().__init__()
        op = type(self).__name__
        dtype = torch.promote_types(torch.get_default_dtype(), torch.float32) if dtype is None else dtype
        if not isinstance(dtype, torch.dtype) or dtype not in (torch.float32, torch.float64):
            raise TypeError(f"{op}: dtype must be torch.float32 or torch.float64, got {brief(dtype)}")
        target = choose_device(True, device, op)
        self.input_dim, self.units, self.density = input_dim, units, density
        self.spectral_radius, self.leak, self.input_scaling, self.ridge = spectral_radius, leak, input_scaling, ridge
        self.seed = given_or_drawn_seed(op, seed) % 2**64
        drawn = self._empty() if target.type == "meta" else self._draw(op)
        # From the end: whoever asks a module for its dtype looks at its first tensor.
        for name in reversed(_DRAWN):
            self.register_buffer(name, drawn[name].to(target, None if name == "columns" else dtype))
        for name in _LEARNED:
            self.register_buffer(name, None)
        self.register_module("embedder", embedder)
        for name, weights in (("spectral_radius", self.values), ("input_scaling", self.input_weights)):
            if not weights.is_meta and not bool(weights.isfinite().all()):
                raise ValueError(f"{op}: {name} must give finite weights, got {getattr(self, name)}")

    def _summary(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SETTINGS} | {"fitted": self.fitted}

    def __getstate__(self) -> dict[str, Any]:
        """Without the matrix, which torch copies in no sparse form; a copy has buffers of its own to replace."""
        return {**self.__dict__, "_matrix": None, "_buffers": dict(self._buffers)}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Devices change, dtypes do not: in a half type states would be another reservoir's."""

        def moved(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            return changed if changed.dtype == tensor.dtype else tensor.to(changed.device)

        if recurse and self.embedder is not None:
            self.embedder._apply(fn)
        nn.Module._apply(self, moved, recurse=False)
        self._matrix = None
        return self

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        try:
            self._make_room({name: state_dict.get(prefix + name) for name in _FILED})
        except ValueError as error:
            # The list of errors comes last: torch raises them together, and nothing has changed.
            args[-1].append(f"{prefix}{error}")
            return
        for name in _DRAWN:
            # Tensors of inference mode cannot be written outside of it.
            if (held := getattr(self, name)).is_inference():
                setattr(self, name, held.clone())
        self._matrix = None
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _make_room(self, state: Mapping[str, Any]) -> None:
        """Room for what a state has learned; ValueError for one that no machine of these settings has."""
        parts = {name: part for name, part in state.items() if isinstance(part, Tensor)}
        shapes = {name: tuple(part.shape) for name, part in parts.items()}
        weights, constant = shapes.get("readout_weights"), shapes.get("readout_constant")
        fits = weights is None if constant is None else len(constant) <= 1 and weights == (self.units, *constant)
        if not fits:
            raise ValueError("readout_weights and readout_constant must be [units, out] and [out], or neither")
        if shapes.get("end_state", (self.units,)) != (self.units,):
            raise ValueError(f"end_state must have shape [{self.units}], got {list(shapes['end_state'])}")
        columns = parts.get("columns")
        if columns is not None and columns.shape == self.columns.shape and not columns.is_meta:
            if bool((columns < 0).any() | (columns >= self.units).any() | (columns.diff(dim=1) <= 0).any()):
                raise ValueError("columns must be ascending indices of units")
        for name in _LEARNED:
            kind, part = self.dtype if name == "end_state" else torch.float64, parts.get(name)
            setattr(self, name, None if part is None else torch.empty_like(part, dtype=kind, device=self.device))

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
        return _dense(self.columns, self.values)

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

    def forward(self, x: Any, state: Tensor | None = None) -> Tensor:
        """As `run`."""
        return self._run("LiquidStateMachine", x, state)

    def run(self, x: Any, state: Tensor | None = None) -> Tensor:
        """The states that inputs lead to.

        Args:
            x: Inputs.
            state: The state to start from, ``[units]`` or ``[B, units]`` in the machine's dtype and, unless it is an
                array, on its device: the last of an earlier run, or what `predict` returned; None means rest, 0.

        Returns:
            ``[T, units]`` or ``[B, T, units]``.

        Raises:
            TypeError: Not a tensor or an array of real numbers, or of integers if they are tokens; a state of another
                dtype.
            ValueError: Another shape, or a state on another device.
            IndexError: A token is outside the embedder's vocabulary.

        A NaN input makes all later states of its sequence NaN. Cost: 2 units (connections + input_dim) operations per
        step, one step after the other; B sequences at once take much less time than one after the other.
        """
        return self._run("run", x, state)

    @outside_graphs
    def _run(self, op: str, x: Any, state: Tensor | None) -> Tensor:
        inputs, batched = self._inputs(op, x)
        start = self._start(op, state, len(inputs))
        states = start.new_empty(*inputs.shape[:2], self.units)
        for begin, chunk in self._chunks(op, inputs, start, None):
            states[:, begin : begin + chunk.shape[1]] = chunk
        return states if batched else states.squeeze(0)

    @takes(steps=Int(1).or_none())
    def chunks(self, x: Any, state: Tensor | None = None, steps: int | None = None) -> Iterator[tuple[int, Tensor]]:
        """The states of `run`, one chunk of steps after the other, for when all states would not fit into memory.

        Args:
            x: As for `run`.
            state: As for `run`.
            steps: Steps in a chunk, at least 1; None means about a million numbers.

        Yields:
            The first step of a chunk, and its states ``[B, n, units]``, B being 1 for a single sequence.

        Raises:
            TypeError, ValueError, IndexError: As for `run`, before the first chunk.
        """
        return self._chunks_for("chunks", x, state, steps)

    def _chunks_for(
        self, op: str, x: Any, state: Tensor | None = None, steps: int | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        """`chunks` under the name of the user's call."""
        inputs, _ = self._inputs(op, x)
        return self._chunks(op, inputs, self._start(op, state, len(inputs)), steps)

    @takes(warmup=Int(0))
    @outside_graphs
    def fit(self, x: Any, y: Any, warmup: int = 0, progress: Progress = None) -> Self:
        """Learns the read-out from inputs and targets, and keeps `final_state`; the reservoir stays as it is.

        ``w`` and ``c`` minimise ``sum |w x[t] + c - y[t]|^2 + ridge |w|^2`` over all steps from ``warmup`` on. Sums
        over states are kept in float64, states only chunk by chunk, so memory does not grow with T beyond x and y.

        Args:
            x: As for `run`, all of it finite.
            y: ``[T, out]`` or ``[B, T, out]``, or without the last dimension, which predictions then lack too; finite.
            warmup: Steps at the start of every sequence that are ignored, because their states still depend on the
                start; at least 0 and below T. Some 100 where the old inputs fade slowly.
            progress: Called after every chunk, which takes some hundredths of a second, with the number of steps done
                and of all; True shows a bar. What it raises, like KeyboardInterrupt, ends the call and leaves the
                machine as it was.

        Returns:
            The machine itself.

        Raises:
            TypeError: x or y is not a tensor or an array of real numbers.
            ValueError: Another shape, a value that is not finite, too long a warmup.

        Cost: that of `run`, and ``units (units + out)`` multiplications per step in float64.
        """
        tick = ticking("fit", progress)
        inputs, batched = self._inputs("fit", x)
        targets = real_tensor("fit", "y", y)
        leading = inputs.shape[not batched : 2]
        flat = targets.shape == leading
        if not flat and (targets.dim() != len(leading) + 1 or targets.shape[:-1] != leading):
            got = f"{list(x.shape)} and {list(y.shape)}"
            raise ValueError(f"fit: x and y must have the same leading dimensions, got {got}")
        if not flat and not targets.shape[-1]:
            raise ValueError(f"fit: y must have at least one column, got shape {list(y.shape)}")
        check_warmup("fit", warmup, inputs)
        targets = targets.to(self.device, torch.float64).reshape(*inputs.shape[:2], -1)
        check_finite("fit", "x", inputs)
        check_finite("fit", "y", targets)
        moments = Moments(self.units, targets.shape[-1], self.device)
        start = self._start("fit", None, len(inputs))
        final = start[0]
        for begin, chunk in self._chunks("fit", inputs, start, None):
            final, end = chunk[0, -1], begin + chunk.shape[1]
            skipped = min(max(warmup - begin, 0), chunk.shape[1])
            kept = chunk[:, skipped:].to(torch.float64, memory_format=torch.contiguous_format)
            moments.add(kept.flatten(0, 1), targets[:, begin + skipped : end].flatten(0, 1))
            tick(end, inputs.shape[1])
        weights, constant = moments.ridge(self.ridge)
        self.readout_weights, self.readout_constant = (
            (weights.squeeze(1), constant.squeeze(0)) if flat else (weights, constant)
        )
        # A copy, which does not keep the chunk.
        self.end_state = final.clone() if len(inputs) == 1 else None
        return self

    @overload
    def predict(self, x: Any, state: Tensor | None = None, return_state: Literal[False] = False) -> Tensor: ...

    @overload
    def predict(self, x: Any, state: Tensor | None = None, *, return_state: Literal[True]) -> tuple[Tensor, Tensor]: ...

    @takes(return_state=Bool())
    def predict(
        self, x: Any, state: Tensor | None = None, return_state: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The read-out of the states that follow from inputs, from rest or from a state.

        Args:
            x: As for `run`.
            state: The state to start from, as for `run`: `final_state`, or what an earlier call returned; None means
                rest.
            return_state: Whether to return the state after the last step too.

        Returns:
            ``[T, out]`` or ``[B, T, out]``, or without the last dimension if `fit` had y so; computed in float64 and
            rounded to the machine's dtype. With ``return_state`` a tuple of it and the state, ``[units]`` or
            ``[B, units]``, from which the next call goes on.

        Raises:
            RuntimeError: There is no read-out yet.
            TypeError, ValueError: As for `run`.
        """
        readout = self._fitted_readout("predict")
        inputs, batched = self._inputs("predict", x)
        predicted, last = self._read_series("predict", readout, inputs, batched, state, self.dtype)
        return (predicted, last) if return_state else predicted

    @outside_graphs
    def _read_series(
        self,
        op: str,
        readout: tuple[Tensor, Tensor],
        inputs: Tensor,
        batched: bool,
        state: Tensor | None,
        dtype: torch.dtype,
        finish: Callable[[Tensor], Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """A read-out at every step of checked inputs, through `finish` if given, and the state after the last."""
        last = self._start(op, state, len(inputs))
        result = last.new_empty(*inputs.shape[:2], *readout[1].shape, dtype=dtype)
        for begin, chunk in self._chunks(op, inputs, last, None):
            read = read_out(chunk, *readout)
            result[:, begin : begin + chunk.shape[1]] = read if finish is None else finish(read)
            last = chunk[:, -1]
        # The state is a copy, which does not keep the chunk.
        return (result, last.clone()) if batched else (result.squeeze(0), last.squeeze(0).clone())

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
        return {filed: tensor for filed, tensor in held.items() if tensor is not None}, self._settings()

    def _settings(self) -> dict[str, Any]:
        # As text, since other readers of JSON may not take integers of 64 bits.
        settings = {name: getattr(self, name) for name in SETTINGS}
        return settings | {"seed": str(self.seed), "embedder": self.embedder is not None}

    @classmethod
    def _from_settings(
        cls, settings: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | None, **options: Any
    ) -> Self:
        # Older files do not say whether there was an embedder.
        check_bool("load", "embedder", settings.pop("embedder", False))
        made = cls(**settings | {"seed": int(settings["seed"])}, device=device, dtype=tensors["bias"].dtype, **options)
        made._make_room({name: tensors.get(filed) for name, filed in _FILED.items()})
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
        return made

    def _check_memory(self, op: str) -> None:
        """RuntimeError unless what drawing the reservoir takes is free."""
        units, connections = self.units, self.units * _connections(self.units, self.density)
        # Indices in 64 and 32 bits and weights; a Krylov space and what it projects to; input weights in three steps.
        needed = 20 * connections + 16 * units**2 + 24 * units * self.input_dim
        got = f"{units}, {self.input_dim} and {self.density:g}"
        check_free(op, "units, input_dim and density", got, needed)

    def _draw(self, op: str) -> dict[str, Tensor]:
        """The reservoir of the seed, on the CPU in float64 but for its scale, whose 24 bits are the same everywhere."""
        self._check_memory(op)
        generator = seeded_generator(self.seed)

        # Uniform numbers are integers divided by a power of two; normal ones would depend on the instruction set.
        def uniform(*shape: int) -> Tensor:
            return 2 * torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu") - 1

        count = _connections(self.units, self.density)
        rows = max(1, _CHUNK // self.units)
        columns = torch.cat([
            uniform(min(rows, self.units - row), self.units).argsort(dim=1, stable=True)[:, :count].sort(1).values
            for row in range(0, self.units, rows)
        ])  # fmt: skip
        values = uniform(self.units, count)
        input_weights, bias = self.input_scaling * uniform(self.units, self.input_dim), uniform(self.units) / 2
        scale = torch.tensor(self.spectral_radius / spectral_radius(columns, values), dtype=torch.float32, device="cpu")
        return {
            "columns": columns.to(torch.int32),
            "values": values * scale.double(),
            "input_weights": input_weights,
            "bias": bias,
        }

    def _empty(self) -> dict[str, Tensor]:
        """What `_draw` gives, without memory."""
        shape = (self.units, _connections(self.units, self.density))
        columns, values = (torch.empty(shape, dtype=kind, device="meta") for kind in (torch.int32, torch.float64))
        weights = values.new_empty(self.units, self.input_dim)
        return {"columns": columns, "values": values, "input_weights": weights, "bias": values.new_empty(self.units)}

    def _fitted_readout(self, op: str) -> tuple[Tensor, Tensor]:
        if self.readout_weights is None or self.readout_constant is None:
            raise RuntimeError(f"{op}: the machine must have a read-out: call fit first")
        return self.readout_weights, self.readout_constant

    def _inputs(self, op: str, x: Any) -> tuple[Tensor, bool]:
        """Inputs ``[B, T, input_dim]``, or tokens ``[B, T]``, on the device, and whether they came as a batch."""
        check_data(op, "the machine", self.bias)
        if self.embedder is not None:
            tokens = token_tensor(op, "x", x).to(self.device)
            return (tokens, True) if tokens.dim() == 2 else (tokens.unsqueeze(0), False)
        series = real_tensor(op, "x", x)
        if series.dim() == 1 and self.input_dim == 1:
            series = series.unsqueeze(-1)
        if series.dim() not in (2, 3) or series.shape[-1] != self.input_dim:
            width = self.input_dim
            raise ValueError(f"{op}: x must have shape [T, {width}] or [B, T, {width}], got {list(series.shape)}")
        series = series.to(self.device, self.dtype)
        return (series, True) if series.dim() == 3 else (series.unsqueeze(0), False)

    def _start(self, op: str, state: Tensor | None, batch: int) -> Tensor:
        """``[B, units]``, a copy."""
        if state is None:
            return self.bias.new_zeros(batch, self.units)
        given = real_tensor(op, "state", state)
        if given.shape not in ((batch, self.units), (self.units,)) or (given.dim() == 1 and batch != 1):
            raise ValueError(f"{op}: state must have shape [{batch}, {self.units}], got {list(given.shape)}")
        # Nothing is rounded or moved unseen.
        if given.dtype != self.dtype:
            raise TypeError(f"{op}: state must be of the machine's dtype, {self.dtype}, got {given.dtype}")
        if isinstance(state, Tensor) and given.device != self.device:
            raise ValueError(f"{op}: state must be on the machine's device, {self.device}, got {given.device}")
        return given.to(self.device, copy=True).reshape(batch, self.units).contiguous()

    def _embed(self, op: str, tokens: Tensor) -> Tensor:
        assert self.embedder is not None
        with named("embed", op):
            embedded = self.embedder(tokens, torch.zeros(1, dtype=torch.int64, device=tokens.device))
        if embedded.shape != (*tokens.shape, self.input_dim):
            raise ValueError(
                f"{op}: embedder must give rows of width {self.input_dim}, got shape {list(embedded.shape)}"
            )
        rows: Tensor = embedded.to(self.device, self.dtype)
        return rows

    @torch.no_grad()
    def _chunks(self, op: str, inputs: Tensor, state: Tensor, length: int | None) -> Iterator[tuple[int, Tensor]]:
        """The first step of each chunk and the states ``[B, n, units]`` there."""
        batch, steps = inputs.shape[:2]
        if not batch:
            return
        # One sequence is a row of vectors, several are matrices [units, B], whose products read W's rows once.
        alone = batch == 1
        add_product = torch.addmv if alone else torch.addmm
        last = state[0] if alone else state.mT.contiguous()
        activation = torch.empty_like(last)
        if self._matrix is None:
            self._matrix = _matrix(self.columns, self.values)
        matrix, leak = self._matrix, self.leak
        length = length or max(1, _CHUNK // (batch * self.units))
        for begin in range(0, steps, length):
            part = inputs[:, begin : begin + length]
            # Not in a half type, whatever the caller's autocast says.
            with torch.autocast(self.device.type, enabled=False):
                if self.embedder is not None:
                    part = self._embed(op, part)
                if alone:
                    chunk = torch.addmm(self.bias, part[0], self.input_weights.mT)
                else:
                    chunk = torch.matmul(self.input_weights, part.permute(1, 2, 0)).add_(self.bias.unsqueeze(-1))
                # A step's drive is replaced by its state; nothing is allocated.
                for current in chunk.unbind(0):
                    add_product(current, matrix, last, out=activation)
                    activation.tanh_()
                    torch.lerp(last, activation, leak, out=current)
                    last = current
                last = last.clone()
            yield begin, chunk.unsqueeze(0) if alone else chunk.permute(2, 0, 1)


def read_out(states: Tensor, weights: Tensor, constant: Tensor) -> Tensor:
    """``states w + c`` in float64."""
    return states.to(torch.float64) @ weights + constant


def spectral_radius(columns: Tensor, values: Tensor) -> float:
    """The largest modulus of the eigenvalues of a matrix with ``values`` ``[n, k]`` in ``columns`` of each row.

    All eigenvalues for small matrices. Else those of its projections on Krylov spaces of growing dimension (Arnoldi),
    until two agree: the extreme ones come first.
    """
    n = len(columns)
    if n <= _ALL_EIGENVALUES:
        return float(torch.linalg.eigvals(_dense(columns, values)).abs().max())
    matrix = _matrix(columns.to(torch.int32), values)
    basis = values.new_zeros(n + 1, n)
    # Neither an eigenvector nor orthogonal to one but by chance.
    basis[0] = torch.arange(1, n + 1, dtype=values.dtype, device=values.device).sqrt().frac() - 0.5
    basis[0] /= basis[0].norm()
    projected = values.new_zeros(n + 1, n)
    previous = math.inf
    for step in range(n):
        vector = torch.mv(matrix, basis[step])
        # Twice, so that the basis stays orthogonal to rounding.
        for _ in range(2):
            components = basis[: step + 1] @ vector
            vector -= basis[: step + 1].mT @ components
            projected[: step + 1, step] += components
        size = vector.norm()
        projected[step + 1, step] = size
        closed = float(size) < 1e-12
        if closed or (step + 1) % 100 == 0 or step + 1 == n:
            radius = float(torch.linalg.eigvals(projected[: step + 1, : step + 1]).abs().max())
            if closed or abs(radius - previous) <= _AGREEMENT * radius:
                return radius
            previous = radius
        basis[step + 1] = vector / size
    return previous


def _connections(units: int, density: float) -> int:
    """How many units a unit hears: at least one, maybe itself, so that W has a cycle and a spectral radius above 0."""
    return max(1, round(density * units))


def _dense(columns: Tensor, values: Tensor) -> Tensor:
    return values.new_zeros(len(values), len(values)).scatter_(1, columns.long(), values)


def _matrix(columns: Tensor, values: Tensor) -> Tensor:
    """The matrix in the form whose products are fastest."""
    units, count = values.shape
    # torch multiplies sparse matrices on the CPU through MKL alone.
    supported = values.is_cuda or (values.device.type == "cpu" and torch.backends.mkl.is_available())
    if not supported or units < _DENSE_UNITS or count > _DENSE_SHARE * units:
        return _dense(columns, values)
    rows = torch.arange(units + 1, dtype=torch.int32, device=values.device) * count
    with warnings.catch_warnings():
        # That the layout is in beta, once per process.
        warnings.simplefilter("ignore", UserWarning)
        # 32-bit indices, which MKL takes as they are: a step then costs three quarters of one with 64-bit ones.
        return torch.sparse_csr_tensor(
            rows, columns.flatten(), values.flatten(), (units, units), check_invariants=False
        )
