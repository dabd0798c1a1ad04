"""A liquid state machine: an untrained sparse random recurrent network with a trained ridge read-out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, Self, cast, overload

import torch
from torch import Tensor, nn

from torch_hrr._checks import brief, check_data, check_finite, named, number
from torch_hrr._compile import outside_graphs
from torch_hrr._inputs import TOKENS, check_warmup, integers, padded, real_tensor, token_tensor
from torch_hrr._progress import Progress, ticking
from torch_hrr._random import given_or_drawn_seed
from torch_hrr._spec import Bool, Choice, Device, Instance, Int, Real, Seed, takes
from torch_hrr.encoding import connections
from torch_hrr.encoding.acceleration import choose_device
from torch_hrr.encoding.readout import Moments
from torch_hrr.encoding.reservoir_state import OF_A_SEED, ReservoirState
from torch_hrr.encoding.trajectories import ACTIVATIONS, ReadOut, one_step, run_free, walk

# Elements of states computed at a time: small enough for the cache, large enough that a chunk costs little beside.
_CHUNK = 2**20
_AS_IT_IS = contextlib.nullcontext()


class _Series(NamedTuple):
    """What `fit` learns from, in the shape of one batch."""

    inputs: Tensor  # [B, T, input_dim], or tokens [B, T]
    targets: Tensor  # float64 [B, T, out]
    lengths: Tensor | None  # int64 [B], where not all are T
    flat: bool  # whether targets came without their last dimension


class LiquidStateMachine(ReservoirState):
    """A reservoir of leaky tanh units with a linear read-out.

    ``x[t] = (1 - leak) x[t-1] + leak tanh(W x[t-1] + W_in u[t] + b)`` from ``x = 0``; ``y[t] = w x[t] + c``.

    Every unit receives input from ``max(1, round(density units))`` random units, through weights drawn from U(-1, 1)
    and then scaled so that the largest modulus of W's eigenvalues is ``spectral_radius``. W_in is drawn from U(-1, 1)
    times ``input_scaling``, b from U(-1/2, 1/2). Only w and c are learned, by ridge regression. The reservoir depends
    on the settings alone and is the same on every machine; its states agree among machines and numbers of threads up to
    rounding. `from_weights` takes weights instead, other activations, a leak for every unit, and feedback: units then
    hear ``W_fb y[t-1]`` too, of targets in `fit`, else of what the read-out says.

    A call starts from rest, or from the state in which another ended: ``predict(x, state=..., return_state=True)``. A
    series that comes in parts so gives the values of one call, up to rounding. After `fit` on a single series,
    `final_state` is where it ended. `forecast` goes on without inputs: each prediction is the next.

    Inputs u are tensors or NumPy arrays of any real dtype, ``[T, input_dim]``, ``[T]`` if ``input_dim`` is 1, or
    ``[B, T, input_dim]`` for B independent sequences. With an ``embedder`` they are tokens instead, integers ``[T]`` or
    ``[B, T]``, whose rows enter one chunk at a time. Every token is embedded at position 0: the reservoir itself keeps
    the order, and sinusoids of the position would be a second input that never repeats (measured on text with a ridge
    read-out: 3.42 bits per character with them, 2.83 without). Inputs are moved to the machine's device and dtype. No
    gradients.

    It is a module without parameters of its own, called like `run`. A model moves it to a device, but its dtype never
    changes. A ``state_dict`` holds reservoir, read-out and `final_state`, and not the settings. With ``device="meta"``
    nothing is drawn, for ``to_empty`` and ``load_state_dict``. ``torch.compile`` and ``torch.export`` take `run`,
    `predict`, `step` and `forecast` whole, with a dynamic number of steps; what they give equals the rest to rounding.

    Attributes:
        columns: The units that each unit hears, int32 ``[units, connections]``; buffers like all of these, to be read.
        values: The weights of these connections.
        input_weights: W_in, ``[units, input_dim]``.
        bias: b, ``[units]``.
        feedback_weights: W_fb, ``[units, out]``, or None.
        activation: "tanh", "identity" or "relu".
        leak: A number, or a buffer ``[units]``.
        moments: The sums that `partial_fit` keeps, or None.
        embedder: As given, or None.

    Source: Jaeger, The "echo state" approach to analysing and training recurrent neural networks, GMD report 148, 2001;
    Maass, Natschläger and Markram, Real-time computing without stable states, Neural Computation 14, 2002.
    """

    file_format = "torch_hrr.liquid_state_machine"

    @takes(
        input_dim=Int(1),
        units=Int(1, 2**24),
        spectral_radius=Real(0),
        leak=Real(0, 1, open_left=True),
        input_scaling=Real(0),
        density=Real(0, 1, open_left=True),
        ridge=Real(0),
        seed=Seed().or_none(),
        activation=Choice(ACTIVATIONS),
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
        activation: str = "tanh",
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
            activation: "tanh", "identity" or "relu", of what a unit hears. Without tanh states are not bounded.
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
        self.input_dim, self.units, self.density, self.activation = input_dim, units, density, activation
        self.spectral_radius, self.input_scaling, self.ridge = spectral_radius, input_scaling, ridge
        self.seed = seed = given_or_drawn_seed(op, seed) % 2**64
        if target.type == "meta":
            drawn = self._empty()
        else:
            self._check_memory(op)
            drawn = connections.draw(units, input_dim, density, spectral_radius, input_scaling, seed)
        self._hold(drawn, leak, embedder, target, dtype)
        for name, weights in (("spectral_radius", self.values), ("input_scaling", self.input_weights)):
            if not weights.is_meta and not bool(weights.isfinite().all()):
                raise ValueError(f"{op}: {name} must give finite weights, got {getattr(self, name)}")

    @classmethod
    @takes(
        activation=Choice(ACTIVATIONS), ridge=Real(0), embedder=Instance(nn.Module).or_none(), device=Device()
    )  # fmt: skip
    def from_weights(
        cls,
        recurrent: Any,
        inputs: Any,
        bias: Any = None,
        leak: Any = 1.0,
        activation: str = "tanh",
        feedback: Any = None,
        *,
        ridge: float = 1e-6,
        embedder: nn.Module | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """A machine with the weights of another library, or of one's own.

        ``x[t] = x[t-1] + leak (f(W x[t-1] + W_in u[t] + b + W_fb y[t-1]) - x[t-1])``: row i of a matrix holds the
        weights into unit i. Matrices are tensors, dense or sparse in COO, CSR or CSC, NumPy arrays, or of scipy.sparse.

        Args:
            recurrent: W, ``[units, units]``. Rows are kept as long as the one with the most weights that are not 0.
            inputs: W_in, ``[units, input_dim]``.
            bias: b: a number, or one for every unit, ``[units]``; None means 0.
            leak: Above 0 and at most 1, likewise.
            activation: f: "tanh", "identity" or "relu".
            feedback: W_fb, ``[units, out]``; None means none. Before the first step from rest y is 0; from a state it
                is what the read-out says of it.
            ridge: As for `LiquidStateMachine`, like all that follow.
            embedder: See ``ridge``.
            device: See ``ridge``.
            dtype: float32 or float64; None means that of ``recurrent``, or the default where it has another.

        Returns:
            The machine. Its `spectral_radius`, `input_scaling` and `seed` are None, its `density` is the share of the
            units that the longest row of W hears.

        Raises:
            TypeError: Something that is no matrix or vector of real numbers.
            ValueError: Shapes that do not fit, a number that is not finite in ``dtype``, a leak outside its range.

        Cost: reading the matrices; the units' square in time, and no more memory than the machine's own.
        """
        op = "from_weights"
        square = connections.given_matrix(op, "recurrent", recurrent)
        units = len(square)
        if not units or square.shape[1] != units:
            raise ValueError(f"{op}: recurrent must have shape [units, units], got {list(square.shape)}")

        def rows(name: str, given: Any) -> Tensor:
            matrix = connections.given_matrix(op, name, given)
            if len(matrix) != units or not matrix.shape[1]:
                raise ValueError(f"{op}: {name} must have shape [{units}, at least 1], got {list(matrix.shape)}")
            return torch.cat([*connections.dense_rows(matrix)])

        def of_units(name: str, given: Any, *limits: Any) -> float | Tensor:
            if not getattr(given, "shape", ()):
                return number(op, name, given, *limits)
            held = real_tensor(op, name, given).to("cpu", torch.float64, copy=True)
            if held.shape != (units,):
                raise ValueError(f"{op}: {name} must have shape [{units}], got {list(held.shape)}")
            check_finite(op, name, held)
            return held

        held = {"input_weights": rows("inputs", inputs)}
        held["bias"] = torch.zeros(units, dtype=torch.float64, device="cpu")
        held["bias"] += 0.0 if bias is None else of_units("bias", bias)
        if feedback is not None:
            held["feedback_weights"] = rows("feedback", feedback)
        leaks = of_units("leak", leak, 0, 1, True)
        if isinstance(leaks, Tensor) and len(wrong := leaks[(leaks <= 0) | (leaks > 1)]):
            raise ValueError(f"{op}: leak must be finite numbers > 0 and <= 1, got {float(wrong[0])}")
        held["columns"], held["values"] = connections.as_connections(square)
        if dtype is None and square.dtype in (torch.float32, torch.float64):
            dtype = square.dtype
        input_dim, density = held["input_weights"].shape[1], held["columns"].shape[1] / units
        target = choose_device(True, device, op)
        with named(cls.__name__, op):
            made = cls(
                input_dim, units, density=density, ridge=ridge, activation=activation, device="meta", dtype=dtype
            )
        made._hold(held, leaks, embedder, target, made.dtype)
        for name in OF_A_SEED:
            setattr(made, name, None)
        kept = {"recurrent": made.values, "inputs": made.input_weights, "bias": made.bias}
        for name, tensor in (kept | {"feedback": made.feedback_weights}).items():
            # What was finite may not be so in fewer digits.
            if tensor is not None and not tensor.is_meta:
                check_finite(op, name, tensor)
        return made

    def forward(self, x: Any, state: Tensor | None = None) -> Tensor:
        """As `run`."""
        return self._run("LiquidStateMachine", x, state, None)

    def run(self, x: Any, state: Tensor | None = None, outputs: Any = None) -> Tensor:
        """The states that inputs lead to.

        Args:
            x: Inputs.
            state: The state to start from, ``[units]`` or ``[B, units]`` in the machine's dtype and, unless it is an
                array, on its device: the last of an earlier run, or what `predict` returned; None means rest, 0.
            outputs: Where there is feedback, y of these steps, ``[T, out]`` or ``[B, T, out]``, of which units hear
                each a step later; None means what the read-out says.

        Returns:
            ``[T, units]`` or ``[B, T, units]``.

        Raises:
            TypeError: Not a tensor or an array of real numbers, or of integers if they are tokens; a state of another
                dtype.
            ValueError: Another shape, a state on another device, or outputs where there is no feedback.
            IndexError: A token is outside the embedder's vocabulary.
            RuntimeError: There is feedback, and neither outputs nor a read-out.

        A NaN input makes all later states of its sequence NaN. Cost: 2 units (connections + input_dim) operations per
        step, one step after the other; B sequences at once take much less time than one after the other.
        """
        return self._run("run", x, state, outputs)

    def _run(self, op: str, x: Any, state: Tensor | None, outputs: Any) -> Tensor:
        inputs, batched = self._inputs(op, x)
        start = self._start(op, state, inputs.shape[0])
        heard, said = self._hears(op, state is not None, start, inputs.shape[1], self._outputs(op, outputs, inputs))
        if torch.compiler.is_compiling():
            states, _ = self._traced(op, inputs, start, heard, said)
            return states if batched else states.squeeze(0)
        # After all checks, so that a wrong call allocates nothing.
        states = start.new_empty(*inputs.shape[:2], self.units)
        for begin, chunk in self._chunks(op, inputs, start, None, heard, said):
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
            TypeError, ValueError, IndexError, RuntimeError: As for `run`, before the first chunk.
        """
        return self._chunks_for("chunks", x, state, steps)

    def _chunks_for(
        self, op: str, x: Any, state: Tensor | None = None, steps: int | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        """`chunks` under the name of the user's call."""
        inputs, _ = self._inputs(op, x)
        start = self._start(op, state, inputs.shape[0])
        return self._chunks(op, inputs, start, steps, *self._hears(op, state is not None, start, inputs.shape[1]))

    @takes(warmup=Int(0))
    def fit(self, x: Any, y: Any, warmup: int = 0, progress: Progress = None) -> Self:
        """Learns the read-out from inputs and targets, and keeps `final_state`; the reservoir stays as it is.

        ``w`` and ``c`` minimise ``sum |w x[t] + c - y[t]|^2 + ridge |w|^2`` over all steps from ``warmup`` on. Sums
        over states are kept in float64, states only chunk by chunk, so memory does not grow with T beyond x and y.

        Args:
            x: As for `run`, all of it finite; or a list of single series of any lengths, each from rest. Those of about
                one length run together.
            y: ``[T, out]`` or ``[B, T, out]``, or without the last dimension, which predictions then lack too; finite.
                A list for a list. Units hear them where there is feedback.
            warmup: Steps at the start of every sequence that are ignored, because their states still depend on the
                start; at least 0 and below T. Some 100 where the old inputs fade slowly.
            progress: Called after every chunk, which takes some hundredths of a second, with the number of steps done
                and of all; True shows a bar. What it raises, like KeyboardInterrupt, ends the call and leaves the
                machine as it was.

        Returns:
            The machine itself.

        Raises:
            TypeError: x or y is not a tensor or an array of real numbers.
            ValueError: Another shape, a value that is not finite, too long a warmup, states that grow without bounds.

        Cost: that of `run`, and ``units (units + out)`` multiplications per step in float64.
        """
        return self._learn("fit", x, y, warmup, progress, None)

    @takes(warmup=Int(0), resume=Bool())
    def partial_fit(self, x: Any, y: Any, warmup: int = 0, progress: Progress = None, *, resume: bool = False) -> Self:
        """As `fit`, from all that the calls since the first one saw; it keeps the sums for the next in `moments`.

        The read-out is that of one `fit` on all of it, up to rounding. The sums are in the ``state_dict`` and in files,
        ``8 units (units + out)`` bytes. `fit` drops them and keeps none, so that a call after it is a first one.
        Threads must call it one after the other: of two calls at once only one counts.

        Args:
            x: As for `fit`.
            y: As for `fit`, of as many columns in each call.
            warmup: As for `fit`.
            progress: As for `fit`.
            resume: Whether x goes on where the series of the last call ended, and not from rest.

        Returns:
            The machine itself.

        Raises:
            TypeError, ValueError: As for `fit`; several series to resume with.
            RuntimeError: There is no end to resume from, as for `final_state`.

        Cost: that of `fit`, and ``units^3 / 3`` for the read-out, once a call.
        """
        return self._learn("partial_fit", x, y, warmup, progress, resume)

    @takes(ridge=Real(0))
    def refit(self, ridge: float) -> Self:
        """Another ridge for what `partial_fit` saw, without running again.

        Args:
            ridge: At least 0; it becomes the machine's.

        Returns:
            The machine itself.

        Raises:
            RuntimeError: There are no sums: `partial_fit` was not called, or `fit` after it.

        Cost: ``units^3 / 3`` multiplications.
        """
        if self.moments is None or self.readout_constant is None:
            raise RuntimeError("refit: the machine must hold sums: learn with partial_fit, which keeps them")
        check_data("refit", "the machine", self.bias)
        self._solve("refit", self.moments, ridge, self.readout_constant.dim() == 0)
        self.ridge = ridge
        return self

    @outside_graphs
    def _learn(self, op: str, x: Any, y: Any, warmup: int, progress: Progress, resume: bool | None) -> Self:
        """`fit` where resume is None, else `partial_fit`."""
        tick, keep = ticking(op, progress), resume is not None
        several = isinstance(x, list | tuple)
        batches = self._several(op, x, y, warmup) if several else [self._series(op, x, y, warmup)]
        _, targets, _, flat = batches[0]
        count, total, done = sum(len(each.inputs) for each in batches), sum(each.inputs.shape[1] for each in batches), 0
        if keep and self.moments is not None:
            constant = cast(Tensor, self.readout_constant)
            if flat != (constant.dim() == 0) or targets.shape[-1] != constant.numel():
                got = [] if flat else [targets.shape[-1]]
                raise ValueError(f"{op}: y must have the shape {list(constant.shape)} of before at a step, got {got}")
        # Sums of inference mode could not be added to outside of it.
        with torch.inference_mode(False):
            if keep and self.moments is not None:
                moments = self.moments.copied()
            else:
                moments = Moments(self.units, targets.shape[-1], self.device)
            state, before = self._end(op, count) if resume else (None, None)
            for inputs, targets, lengths, _ in batches:
                start = self._start(op, state, inputs.shape[0])
                heard, _ = self._hears(op, False, start, inputs.shape[1], targets, before)
                final = start[0]
                for begin, chunk in self._chunks(op, inputs, start, None, heard):
                    final, end = chunk[0, -1], begin + chunk.shape[1]
                    skipped = min(max(warmup - begin, 0), chunk.shape[1])
                    kept = chunk[:, skipped:].to(torch.float64, memory_format=torch.contiguous_format).flatten(0, 1)
                    told = targets[:, begin + skipped : end].flatten(0, 1)
                    if lengths is not None:
                        steps = torch.arange(begin + skipped, end, device=lengths.device)
                        counted = (steps < lengths.unsqueeze(1)).flatten()
                        kept, told = kept[counted], told[counted]
                    moments.add(kept, told)
                    tick(done + end, total)
                done += inputs.shape[1]
            self._solve(op, moments, self.ridge, flat)
            self.moments = moments if keep else None
            # Copies, which do not keep the chunk.
            alone = count == 1
            self.end_state = final.clone() if alone else None
            self.end_output = (targets[0, -1, 0] if flat else targets[0, -1]).clone() if alone else None
        return self

    def _solve(self, op: str, moments: Moments, ridge: float, flat: bool) -> None:
        """Takes the read-out of sums, without the last dimension if targets had none."""
        if not bool(moments.gram.diagonal().isfinite().all() & moments.cross.isfinite().all()):
            raise ValueError(
                f"{op}: states must be finite, and so must their squares, got NaN or infinity; tanh bounds them, and a "
                "smaller spectral radius may"
            )
        weights, constant = moments.ridge(ridge)
        # In the order in which files give it, on which the bits of products depend.
        weights = weights.contiguous()
        self.readout_weights, self.readout_constant = (
            (weights.squeeze(1), constant.squeeze(0)) if flat else (weights, constant)
        )

    def _end(self, op: str, batch: int) -> tuple[Tensor, Tensor]:
        """Where the series of the last call ended, as a start: the state ``[units]`` and the target ``[out]``."""
        if self.end_state is None or self.end_output is None:
            self._fitted_readout(op)
            raise RuntimeError(
                f"{op}: the machine must have learned from a single series, and not be from an older file"
            )
        if batch != 1:
            raise ValueError(f"{op}: x must be a single series where resume is True, got {batch}")
        return self.end_state, self.end_output.reshape(-1)

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
        last, read = self._start(op, state, inputs.shape[0]), ReadOut(*readout)
        heard, said = self._hears(op, state is not None, last, inputs.shape[1])
        if torch.compiler.is_compiling():
            states, last = self._traced(op, inputs, last, heard, said)
            result = (read(states) if finish is None else finish(read(states))).to(dtype)
        else:
            result = last.new_empty(*inputs.shape[:2], *readout[1].shape, dtype=dtype)
            for begin, chunk in self._chunks(op, inputs, last, None, heard, said):
                told = read(chunk)
                result[:, begin : begin + chunk.shape[1]] = told if finish is None else finish(told)
                last = chunk[:, -1]
            # A copy, which does not keep the chunk.
            last = last.clone()
        return (result, last) if batched else (result.squeeze(0), last.squeeze(0))

    def step(self, x: Any, state: Any = None) -> tuple[Tensor, Tensor]:
        """One step of `predict`, for inputs that come one at a time.

        Args:
            x: One input ``[input_dim]``, or ``[]`` if that is 1; of several sequences ``[B, input_dim]``. With an
                embedder a token ``[]``, or ``[B]``.
            state: As for `run`; None means rest.

        Returns:
            What the read-out says, ``[out]`` or ``[B, out]``, or without the last dimension as `predict`, and the state
            for the next step, ``[units]`` or ``[B, units]``.

        Raises:
            RuntimeError: There is no read-out yet.
            TypeError, ValueError, IndexError: As for `run`.

        Cost: some 25 us for 300 units on one core, half of it for checks and calls.
        """
        # Not as attributes, of which torch's modules take a microsecond for each.
        held = self._buffers
        bias, into = cast(Tensor, held["bias"]), cast(Tensor, held["input_weights"])
        weights, constant = held["readout_weights"], held["readout_constant"]
        if weights is None or constant is None:
            raise self._not_fitted("step")
        inputs = self._input_now("step", x, bias)
        batched = inputs.dim() == 2
        if state is None:
            last = bias.new_zeros(*inputs.shape[:-1], self.units)
        else:
            last = self._checked_state("step", state, inputs.shape[0] if batched else 1, bias)
            last = last if last.dim() == inputs.dim() else last.reshape(*inputs.shape[:-1], self.units)
        with self._exactly(bias):
            if batched:
                drive = torch.addmm(bias, inputs, into.mT)
            else:
                drive = torch.addmv(bias, into, inputs)
            if state is not None and (feedback := held["feedback_weights"]) is not None:
                drive = drive + self._reading("step")(last).to(last.dtype) @ feedback.mT
            if torch.compiler.is_compiling():
                rows, drives = (last, drive) if batched else (last.unsqueeze(0), drive.unsqueeze(0))
                new = self._graph().stepper()(rows, drives).reshape(last.shape)
            else:
                new = one_step(drive, last, self._step())
            said = ReadOut(weights, constant)(new)
            return said if said.dtype is new.dtype else said.float(), new

    @overload
    def forecast(
        self, steps: int, x: Any = None, state: Any = None, return_state: Literal[False] = False
    ) -> Tensor: ...

    @overload
    def forecast(
        self, steps: int, x: Any = None, state: Any = None, *, return_state: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    @takes(steps=Int(0), return_state=Bool())
    def forecast(
        self, steps: int, x: Any = None, state: Any = None, return_state: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Predictions of a machine that runs free: each is the next input, if `fit` had the next input as target.

        Args:
            steps: How many, at least 0.
            x: The series before, as for `predict`; the first prediction follows its last input.
            state: Where x starts, as for `predict`; without x, the state of which the first prediction is read. With
                neither, the forecast follows the end of the training data: the last target is the next input.
            return_state: Whether to return the state from which another forecast goes on too.

        Returns:
            ``[steps, out]`` or ``[B, steps, out]``, or without the last dimension as `predict`; with ``return_state`` a
            tuple of it and the state. Each prediction is rounded to the machine's dtype before it enters.

        Raises:
            RuntimeError: There is no read-out yet; or nothing to go on from, as for `final_state`.
            TypeError: The machine has an embedder, whose tokens are no predictions; or as for `predict`.
            ValueError: Predictions have another width than inputs; or as for `predict`.

        Where the loop is not stable, predictions grow until they are infinite or NaN. Cost: a step takes about twice as
        long as one of `run`.
        """
        predicted, last = self._forecast("forecast", steps, x, state, None)
        return (predicted, last) if return_state else predicted

    def _forecast(
        self, op: str, steps: int, x: Any, state: Any, scale: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """`forecast`, where inputs are predictions of which ``(y - middle) / half`` enters."""
        read, flat = self._reading(op), self._fitted_readout(op)[1].dim() == 0
        if self.embedder is not None:
            raise TypeError(f"{op}: the machine must hear numbers, got one with an embedder of tokens")
        if len(read.constant) != self.input_dim:
            raise ValueError(f"{op}: predictions must be inputs, {self.input_dim} numbers, got {len(read.constant)}")
        said = None
        if x is None and state is None:
            state, ended = self._end(op, 1)
            said = ended.to(self.dtype).unsqueeze(0) if self.feedback_weights is not None else None
            x = (ended if scale is None else (ended - scale[0]) / scale[1]).unsqueeze(0)
        if x is None:
            batched = real_tensor(op, "state", state).dim() == 2
            last = self._start(op, state, state.shape[0] if batched else 1)
        else:
            inputs, batched = self._inputs(op, x)
            last = self._start(op, state, inputs.shape[0])
            _, first = self._hears(op, state is not None, last, inputs.shape[1])
            last = self._after(op, inputs, last, first if said is None else said)
        if torch.compiler.is_compiling():
            result, last = self._graph().run_free(steps, last, read, self.input_weights, self.bias)
        else:
            with torch.no_grad(), self._exactly(self.bias):
                shape = (steps, self.input_dim, len(last)) if batched else (steps, self.input_dim)
                result = last.new_empty(shape)
                start = last.mT.contiguous() if batched else last[0]
                last = run_free(result, start, self._step(), read, self.input_weights, self.bias, scale)
            result, last = (result.permute(2, 0, 1), last.mT) if batched else (result.unsqueeze(0), last.unsqueeze(0))
        result = result.squeeze(-1) if flat else result
        return (result, last) if batched else (result.squeeze(0), last.squeeze(0))

    def _after(self, op: str, inputs: Tensor, last: Tensor, said: Tensor | None) -> Tensor:
        """The state after checked inputs, ``[B, units]``."""
        if torch.compiler.is_compiling():
            return self._traced(op, inputs, last, None, said)[1]
        for _, chunk in self._chunks(op, inputs, last, None, None, said):
            last = chunk[:, -1]
        return last

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

    def _input_now(self, op: str, x: Any, bias: Tensor) -> Tensor:
        """One input ``[input_dim]``, or one of each sequence ``[B, input_dim]``, embedded and on the device."""
        check_data(op, "the machine", bias)
        if self._modules["embedder"] is not None:
            tokens = integers(op, "x", x, TOKENS).to(bias.device)
            if tokens.dim() > 1:
                raise ValueError(f"{op}: x must have shape [] or [B], got {list(tokens.shape)}")
            return self._embed(op, tokens.reshape(-1, 1)).detach().reshape(*tokens.shape, -1)
        row = x if _is_ready(x, bias) else real_tensor(op, "x", x)
        if row.dim() == 0 and self.input_dim == 1:
            row = row.unsqueeze(0)
        if row.dim() not in (1, 2) or row.shape[-1] != self.input_dim:
            width = self.input_dim
            raise ValueError(f"{op}: x must have shape [{width}] or [B, {width}], got {list(row.shape)}")
        return row if row is x else row.to(bias.device, bias.dtype)

    def _series(self, op: str, x: Any, y: Any, warmup: int) -> _Series:
        """Checked inputs and targets of `fit`."""
        inputs, batched = self._inputs(op, x)
        targets = real_tensor(op, "y", y)
        leading = inputs.shape[not batched : 2]
        flat = targets.shape == leading
        if not flat and (targets.dim() != len(leading) + 1 or targets.shape[:-1] != leading):
            got = f"{list(x.shape)} and {list(y.shape)}"
            raise ValueError(f"{op}: x and y must have the same leading dimensions, got {got}")
        if not flat and not targets.shape[-1]:
            raise ValueError(f"{op}: y must have at least one column, got shape {list(y.shape)}")
        check_warmup(op, warmup, inputs)
        targets = targets.to(self.device, torch.float64).reshape(*inputs.shape[:2], -1)
        if self.feedback_weights is not None and targets.shape[-1] != self.feedback_weights.shape[1]:
            width = self.feedback_weights.shape[1]
            raise ValueError(f"{op}: y must have {width} columns, which units hear, got shape {list(y.shape)}")
        check_finite(op, "x", inputs)
        check_finite(op, "y", targets if self.feedback_weights is None else targets.to(self.dtype))
        return _Series(inputs, targets, None, flat)

    def _several(self, op: str, x: Any, y: Any, warmup: int) -> list[_Series]:
        """The same of a list of single series, in batches as long as their longest: last steps are repeated.

        A batch holds lengths up to one power of two, so that less than half of its steps are repeated ones.
        """
        if not x:
            raise ValueError(f"{op}: x must have at least one series, got none")
        if not isinstance(y, list | tuple) or len(y) != len(x):
            got = len(y) if isinstance(y, list | tuple) else type(y).__name__
            raise ValueError(f"{op}: y must be a list of {len(x)}, as x, got {got}")
        parts = [self._series(op, one, target, warmup) for one, target in zip(x, y, strict=True)]
        kinds = {(part.inputs.dim(), part.targets.shape[-1], part.flat) for part in parts}
        if len(kinds) > 1 or any(len(part.inputs) != 1 for part in parts):
            raise ValueError(f"{op}: x and y must be lists of single series of the same columns, got others among them")
        batches: dict[int, list[_Series]] = {}
        for part in parts:
            batches.setdefault(part.inputs.shape[1].bit_length(), []).append(part)
        made = []
        for batch in batches.values():
            (inputs, lengths), (targets, _) = (
                padded([one.inputs for one in batch]),
                padded([one.targets for one in batch]),
            )
            made.append(_Series(inputs, targets, lengths, batch[0].flat))
        return made

    def _outputs(self, op: str, outputs: Any, inputs: Tensor) -> Tensor | None:
        """Given outputs ``[B, T, out]`` of checked inputs."""
        if outputs is None:
            return None
        given = real_tensor(op, "outputs", outputs)
        if self.feedback_weights is None:
            raise ValueError(f"{op}: outputs must be None where there is no feedback, got shape {list(given.shape)}")
        shape = (*inputs.shape[:2], self.feedback_weights.shape[1])
        if given.shape not in (shape, shape[1:]) or (given.dim() == 2 and inputs.shape[0] != 1):
            raise ValueError(f"{op}: outputs must have shape {list(shape)}, got {list(given.shape)}")
        return given.to(self.device, self.dtype).reshape(shape)

    def _hears(
        self,
        op: str,
        started: bool,
        start: Tensor,
        steps: int,
        outputs: Tensor | None = None,
        before: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """What units hear by feedback: in each step ``[B, T, out]``, or in the first ``[B, out]``; None is the rest.

        Args:
            op: The user's call.
            started: Whether it gave a state; the read-out says of it what units hear first.
            start: The state ``[B, units]``.
            steps: T.
            outputs: Those of these steps ``[B, T, out]``; None means those of the read-out.
            before: The output before, ``[out]``.
        """
        if self.feedback_weights is None:
            return None, None
        first = start.new_zeros(start.shape[0], self.feedback_weights.shape[1])
        if before is not None:
            first = first + before.to(first.dtype)
        elif started and self.fitted:
            first = self._reading(op)(start).to(first.dtype)
        if outputs is None:
            self._fitted_readout(op)
            return None, first
        return torch.cat([first.unsqueeze(1), outputs[:, :-1].to(first.dtype)], 1)[:, :steps], None

    def _checked_state(self, op: str, state: Any, batch: int, bias: Tensor) -> Tensor:
        """On the device of the bias."""
        given = state if _is_ready(state, bias) else real_tensor(op, "state", state)
        if given.shape not in ((batch, self.units), (self.units,)) or (given.dim() == 1 and batch != 1):
            raise ValueError(f"{op}: state must have shape [{batch}, {self.units}], got {list(given.shape)}")
        # Nothing is rounded or moved unseen.
        if given.dtype != bias.dtype:
            raise TypeError(f"{op}: state must be of the machine's dtype, {bias.dtype}, got {given.dtype}")
        if isinstance(state, Tensor) and given.device != bias.device:
            raise ValueError(f"{op}: state must be on the machine's device, {bias.device}, got {given.device}")
        return given if given.device == bias.device else given.to(bias.device)

    def _start(self, op: str, state: Any, batch: int) -> Tensor:
        """``[B, units]``, a copy."""
        if state is None:
            return self.bias.new_zeros(batch, self.units)
        return self._checked_state(op, state, batch, self.bias).clone().reshape(batch, self.units).contiguous()

    def _exactly(self, bias: Tensor) -> contextlib.AbstractContextManager[Any]:
        """Not in a half type, whatever the caller's autocast says."""
        kind = bias.device.type
        return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else _AS_IT_IS

    def _traced(
        self, op: str, inputs: Tensor, start: Tensor, heard: Tensor | None, said: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The states ``[B, T, units]`` and the last of them, in a graph."""
        with self._exactly(self.bias):
            rows = inputs if self.embedder is None else self._embed(op, inputs).detach()
            drive = rows @ self.input_weights.mT + self.bias
            if heard is not None and self.feedback_weights is not None:
                drive = drive + heard @ self.feedback_weights.mT
            read = None if said is None else self._reading(op)
            return self._graph().walk(drive, start, said, read)

    @torch.no_grad()
    def _chunks(
        self,
        op: str,
        inputs: Tensor,
        state: Tensor,
        length: int | None,
        heard: Tensor | None = None,
        said: Tensor | None = None,
    ) -> Iterator[tuple[int, Tensor]]:
        """The first step of each chunk and the states ``[B, n, units]`` there; feedback is as `_hears` gives it."""
        batch, steps = inputs.shape[:2]
        if not batch:
            return
        # One sequence is a row of vectors, several are matrices [units, B].
        alone = batch == 1
        last = state[0] if alone else state.mT.contiguous()
        if said is not None:
            said = said[0] if alone else said.mT.contiguous()
        read = None if said is None else self._reading(op)
        step, feedback = self._step(), self.feedback_weights
        length = length or max(1, _CHUNK // (batch * self.units))
        for begin in range(0, steps, length):
            part = inputs[:, begin : begin + length]
            with self._exactly(self.bias):
                if self.embedder is not None:
                    part = self._embed(op, part)
                if alone:
                    chunk = torch.addmm(self.bias, part[0], self.input_weights.mT)
                else:
                    chunk = torch.matmul(self.input_weights, part.permute(1, 2, 0)).add_(self.bias.unsqueeze(-1))
                if heard is not None and feedback is not None:
                    chunk += torch.matmul(heard[:, begin : begin + length], feedback.mT).permute(1, 2, 0).squeeze(-1)
                said = walk(chunk, last, said, step, read)
                last = chunk[-1].clone()
            yield begin, chunk.unsqueeze(0) if alone else chunk.permute(2, 0, 1)


def _is_ready(given: Any, bias: Tensor) -> bool:
    """Whether a value needs no conversion and no check but of its shape, which takes a tenth of the time of a step."""
    if type(given) is not Tensor or given.dtype is not bias.dtype or given.device != bias.device:
        return False
    return given.layout is torch.strided and not given.requires_grad and not given.is_nested
