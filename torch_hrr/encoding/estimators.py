"""Estimators on a liquid state machine: regression and classification, for series and tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr._checks import check_seed, integer, named
from torch_hrr._compile import outside_graphs
from torch_hrr._estimators import Parameters, not_fitted
from torch_hrr._inputs import (
    TOKENS,
    as_array,
    check_target,
    check_warmup,
    integers,
    labels,
    labels_of,
    like,
    numeric_dtype,
    padded,
    real_tensor,
    refuse_shape,
    share_right,
    weights_of_samples,
)
from torch_hrr._progress import Progress, Tick, ticking, unseen
from torch_hrr._random import given_or_drawn_seed, seeded_generator
from torch_hrr._repr import Described, unusual_place
from torch_hrr._spec import Bool, Dtype, Instance, Int, Real, Spec, takes
from torch_hrr.encoding.acceleration import GPUConfig, choose_device
from torch_hrr.encoding.config import PRECISIONS, SinusoidalConfig
from torch_hrr.encoding.embedder import ConfigurableSinusoidalEmbedder
from torch_hrr.encoding.readout import fit_softmax, softmax_ticks
from torch_hrr.encoding.reservoir import LiquidStateMachine
from torch_hrr.encoding.reservoir_state import SETTINGS
from torch_hrr.encoding.trajectories import ReadOut
from torch_hrr.io import Saveable

# Samples in a step of the softmax regression.
BATCH = 2048
# Tokens are renewed faster and forgotten sooner than samples of a series (measured on text: 2.21 bits a character with
# these at 500 units, 2.26 with a radius of 0.9).
_SERIES_RADIUS, _SERIES_LEAK, _TOKEN_RADIUS, _TOKEN_LEAK = 0.9, 0.3, 0.5, 0.8
# Settings that may be None: each `fit` then chooses anew.
_LEFT = ("input_dim", "spectral_radius", "leak", "input_scaling", "seed", "dtype")
_SPECS: dict[str, Spec] = LiquidStateMachine.__init__.__dict__["takes"]
_DTYPE = Dtype((torch.float32, torch.float64))


class _Sequences(NamedTuple):
    """What a classifier is given."""

    given: Tensor  # [B, T, n], or tokens [B, T]
    columns: int | None  # of a table
    lengths: Tensor | None  # [B], where they are not all T


class _Estimator(Parameters, Described, Saveable):
    """A machine, its embedder where inputs are tokens, and a file for both."""

    _reads_values = True
    _later = LiquidStateMachine._later
    # Drawn by `fit`, or for who looks at it before.
    _machine: LiquidStateMachine | None = None
    # Two tensors that are learned beside the machine's read-out, and what a file calls them.
    _held: tuple[Tensor, Tensor] | None = None
    _names: ClassVar[tuple[str, str]]

    def __init__(
        self,
        config: SinusoidalConfig | None = None,
        gpu_config: GPUConfig | None = None,
        *,
        input_dim: int | None = None,
        units: int = 500,
        spectral_radius: float | None = None,
        leak: float | None = None,
        input_scaling: float | None = None,
        density: float = 0.1,
        ridge: float = 1e-6,
        seed: int | None = 0,
        random_state: Any = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Keeps its arguments, which `fit` checks.

        Args:
            config: Settings of the embedder of tokens; None means that inputs are series of numbers.
            gpu_config: Settings of the GPU; None means those of ``config``.
            input_dim: Width of an input; None means that of what `fit` is given. Tokens have the embedder's dimension.
            units: As for `LiquidStateMachine`, like ``density`` and ``ridge``.
            spectral_radius: None means 0.9, or 0.5 for tokens.
            leak: None means 0.3, or 0.8 for tokens.
            input_scaling: None means 1, or ``embedding_dim**-0.5`` for tokens.
            density: See ``units``.
            ridge: See ``units``.
            seed: Draws the reservoir and the embedder's table; None draws one from torch's default generator.
            random_state: scikit-learn's name, an int, a ``numpy.random.RandomState`` or ``numpy.random.Generator``;
                unless it is None it counts in the place of ``seed``, so that tools that draw several estimators get
                different ones.
            device: As for `LiquidStateMachine`; None means the embedder's, or where ``gpu_config`` allows.
            dtype: torch.float32 or torch.float64. None means that of `LiquidStateMachine` for tensors and tokens; for
                arrays and lists of numbers float64, or float32 if they are so.
        """
        self.config = config
        self.gpu_config = gpu_config
        self.input_dim = input_dim
        self.units = units
        self.spectral_radius = spectral_radius
        self.leak = leak
        self.input_scaling = input_scaling
        self.density = density
        self.ridge = ridge
        self.seed = seed
        self.random_state = random_state
        self.device = device
        self.dtype = dtype

    @property
    def machine(self) -> LiquidStateMachine:
        """That of `fit`; before it the one of the settings, for series of width 1 unless they say so."""
        if self._machine is None:
            self._machine = self._draw(1)
        return self._machine

    @property
    def embedder(self) -> ConfigurableSinusoidalEmbedder | None:
        """The machine's embedder of tokens; None for series."""
        embedder = self.machine.embedder
        assert embedder is None or isinstance(embedder, ConfigurableSinusoidalEmbedder)
        return embedder

    def set_params(self, **params: Any) -> Self:
        """As `Parameters.set_params`; a file keeps what was changed after `fit`, but the config that `fit` used."""
        super().set_params(**params)
        if not self._is_fitted():
            self._machine = None
        return self

    def _embedder_config(self) -> SinusoidalConfig | None:
        """The configuration of the embedder; None for series."""
        return self.config

    def _checked_config(self) -> SinusoidalConfig | None:
        spec = Instance(SinusoidalConfig).or_none()
        config: SinusoidalConfig | None = spec(type(self).__name__, "config", self._embedder_config())
        return config

    def _takes_tokens(self) -> bool:
        return self._embedder_config() is not None

    def _reads_tokens(self, fits: bool) -> bool:
        """Whether x is tokens: to a call that ``fits`` anew as the settings say, else to the machine that there is."""
        machine = None if fits else self._machine
        return self._takes_tokens() if machine is None else machine.embedder is not None

    def _keep_inputs(self, width: int | None, names: list[str] | None) -> None:
        """The width of series and the names of their columns; None for tokens, which have neither."""
        if width is None:
            self.__dict__.pop("n_features_in_", None)
        else:
            self.__dict__["n_features_in_"] = width
        self._keep_columns(names)

    def _width(self) -> int | None:
        """What `input_dim` says."""
        return None if self.input_dim is None else integer(type(self).__name__, "input_dim", self.input_dim, 1)

    def _draw(self, width: int, dtype: torch.dtype | None = None) -> LiquidStateMachine:
        """The machine of the settings for inputs of a width, or of the one that they say; raises what they deserve."""
        op, config = type(self).__name__, self._checked_config()
        gpu_config = Instance(GPUConfig).or_none()(op, "gpu_config", self.gpu_config)
        width = self._width() or width
        # Of NumPy's RandomState, and of its Generator.
        draw = getattr(self.random_state, "randint", getattr(self.random_state, "integers", None))
        if self.random_state is None:
            seed = given_or_drawn_seed(op, self.seed)
        else:
            seed = check_seed(op, draw(2**31 - 1) if draw else self.random_state, "random_state")
        embedder, radius, leak, scaling = None, _SERIES_RADIUS, _SERIES_LEAK, 1.0
        if config is not None:
            if gpu_config is not None:
                config = dataclasses.replace(config, gpu_config=gpu_config)
            if self.input_dim is not None and width != config.embedding_dim:
                raise ValueError(f"{op}: input_dim must be embedding_dim, {config.embedding_dim}, got {width}")
            embedder = ConfigurableSinusoidalEmbedder(config, generator=seeded_generator(seed))
            embedder.requires_grad_(False)
            width = config.embedding_dim
            radius, leak, scaling = _TOKEN_RADIUS, _TOKEN_LEAK, width**-0.5
        with named("LiquidStateMachine", op):
            return LiquidStateMachine(
                width,
                self.units,
                radius if self.spectral_radius is None else self.spectral_radius,
                leak if self.leak is None else self.leak,
                scaling if self.input_scaling is None else self.input_scaling,
                self.density,
                self.ridge,
                seed,
                embedder=embedder,
                device=_device(embedder, gpu_config) if self.device is None else self.device,
                dtype=dtype if self.dtype is None else self.dtype,
            )

    def _summary(self) -> dict[str, Any]:
        config, machine = self._embedder_config(), self._machine
        shown: dict[str, Any] = {"vocab_size": config.vocab_size} if isinstance(config, SinusoidalConfig) else {}
        shown |= {name: getattr(machine or self, name) for name in SETTINGS} | {"fitted": self._is_fitted()}
        return shown if machine is None else shown | unusual_place(machine.bias)

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        (tensors, settings), (learned, facts) = self.machine._content(), self._more()
        tensors = {f"machine.{name}": tensor for name, tensor in tensors.items()}
        metadata: dict[str, Any] = {"machine": settings, "config": None} | facts
        # The machine has a value for each. A `random_state` is in no file: the seed that it drew is.
        left = [name for name in _LEFT if getattr(self, name) is None]
        if self.random_state is not None and "seed" in left:
            left.remove("seed")
        if left:
            metadata["left_to_fit"] = left
        if changed := self._changed(left):
            metadata["changed"] = changed
        if self.embedder is not None:
            held, embedder = self.embedder._content()
            metadata |= embedder
            tensors |= {f"embedder.{name}": tensor for name, tensor in held.items()}
        return tensors | {f"learned.{name}": tensor for name, tensor in learned.items()}, metadata

    def _changed(self, left: list[str]) -> dict[str, Any]:
        """Settings that are not those of the machine, for the next `fit`."""
        changed: dict[str, Any] = {}
        for name in SETTINGS:
            if name in left or (name == "seed" and self.random_state is not None):
                continue
            value = _SPECS[name]("save", name, getattr(self, name))
            value = value % 2**64 if name == "seed" else value
            if value != getattr(self.machine, name):
                # As text, since other readers of JSON may not take integers of 64 bits.
                changed[name] = str(value) if name == "seed" else value
        if self.dtype not in (None, self.machine.dtype):
            changed["dtype"] = str(_DTYPE("save", "dtype", self.dtype)).removeprefix("torch.")
        return changed

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        facts = dict(metadata)
        machine, config, left = facts.pop("machine"), facts.pop("config"), facts.pop("left_to_fit", [])
        changed = dict(facts.pop("changed", {}))
        if "seed" in changed:
            changed["seed"] = int(changed["seed"])
        if "dtype" in changed:
            changed["dtype"] = PRECISIONS[changed["dtype"]]
        if left != [name for name in _LEFT if name in left]:
            raise ValueError(f"settings that are left to fit, of {', '.join(_LEFT)}, got {left}")
        parts: dict[str, dict[str, Tensor]] = {"machine": {}, "embedder": {}, "learned": {}}
        for name, tensor in tensors.items():
            part, _, own = name.partition(".")
            parts[part][own] = tensor
        embedder = None
        if config is not None:
            kind = ConfigurableSinusoidalEmbedder
            embedder = kind._from_content(parts["embedder"], {"config": config}, device, table=None)
            embedder.requires_grad_(False)
            config = embedder.config
        elif parts["embedder"]:
            raise ValueError("an embedder without its configuration")
        where = _device(embedder, None) if device is None else device
        made = LiquidStateMachine._from_content(parts["machine"], machine, where, embedder=embedder)
        if config is not None and config.embedding_dim != made.input_dim:
            raise ValueError(f"an embedder of another width than {made.input_dim}")
        settings = {name: getattr(made, name) for name in SETTINGS} | {"dtype": made.dtype}
        estimator = cls(config, **settings | dict.fromkeys(left) | changed, device=device)
        estimator._machine = made
        estimator._restore(parts["learned"], facts)
        return estimator

    def _is_fitted(self) -> bool:
        return self._machine is not None and self._machine.fitted

    def _more(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What was learned beside the machine's read-out, and what a file says where it is not as in older ones."""
        learned = {} if self._held is None else dict(zip(self._names, self._held, strict=True))
        return learned, self._facts_of_columns()

    def _restore(self, learned: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Takes both over; KeyError, TypeError or ValueError unless they are what `_more` gives."""
        if learned:
            first, second = (learned.pop(name).to(self.machine.device) for name in self._names)
            self._held = first, second
        if learned or facts:
            raise ValueError(f"entries {', '.join([*learned, *facts])}")


class LSMRegressor(_Estimator):
    """Targets from a series of numbers, or from tokens, by the ridge read-out of a `LiquidStateMachine`.

    Without ``config`` x is a series ``[T]``, ``[T, n]`` or ``[B, T, n]``: the rows of a table are the steps of one
    series. Columns are scaled so that those of `fit` span -1 to 1. They enter as they are: sinusoids of their values do
    not help (measured on the laser series with settings chosen for it: an error of 0.058 with them and 0.049 without).
    With ``config`` x is tokens ``[T]`` or ``[B, T]``. Tensors give tensors; arrays, lists and data frames give arrays.
    A list of arrays ``[T, n]``, or of tokens ``[T]``, is several series, each from rest and of any length.

    It is an estimator to scikit-learn, which need not be installed.

    Attributes:
        n_features_in_: The width of the series that `fit` saw; not set before, nor for tokens.
        feature_names_in_: The names of its columns, an array ``[n]`` of str, if it was a data frame with such names;
            else not set. Later frames must have the same ones, in the same order.
        expected_failed_checks: What ``sklearn.utils.estimator_checks`` asks that a machine with memory cannot do, by
            check, and why.
    """

    file_format = "torch_hrr.lsm_regressor"
    n_features_in_: int
    feature_names_in_: Any
    expected_failed_checks: ClassVar[dict[str, str]] = {
        "check_fit1d": "x of shape [T] is a series",
        "check_methods_sample_order_invariance": "rows are the steps of one series: a state holds those before it",
        "check_methods_subset_invariance": "a part of a series starts from rest, unless it is given a state",
    }
    _estimator_type = "regressor"
    # Of the columns that `fit` saw; None for tokens.
    _names = ("middle", "half")

    @property
    def final_state(self) -> Tensor:
        """Where the series that `fit` learned from ended, for `predict`; as `LiquidStateMachine.final_state`."""
        self._check_fitted("final_state")
        return self.machine.final_state

    @takes(warmup=Int(0))
    def fit(self, x: Any, y: Any, warmup: int = 0, progress: Progress = None) -> Self:
        """Draws the machine, learns the read-out and keeps `final_state`, as `LiquidStateMachine.fit` does.

        Args:
            x: Series or tokens.
            y: A number for every step, in the shape of x without its last dimension, or ``[..., out]``; a list for a
                list.
            warmup: Steps at the start of each sequence that are ignored.
            progress: As for `LiquidStateMachine.fit`.

        Returns:
            The regressor itself.

        Raises:
            TypeError, ValueError, IndexError: As for `LiquidStateMachine` and its ``fit``; what is fitted stays.
        """
        return self._learn("fit", x, y, warmup, progress, None)

    @takes(warmup=Int(0), resume=Bool())
    def partial_fit(self, x: Any, y: Any, warmup: int = 0, progress: Progress = None, *, resume: bool = False) -> Self:
        """As `fit`, from all that the calls since the first one saw, as `LiquidStateMachine.partial_fit` does.

        The first call, or one after `fit`, draws the machine and sets the scale of columns; settings that change later
        count for `fit`. Threads must call it one after the other: of two calls at once only one counts.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            warmup: As for `fit`.
            progress: As for `fit`.
            resume: Whether x goes on where the series of the last call ended, and not from rest.

        Returns:
            The regressor itself.

        Raises:
            TypeError, ValueError, IndexError: As for `fit`.
            RuntimeError: ``resume`` in a first call, or as for `LiquidStateMachine.partial_fit`.
        """
        return self._learn("partial_fit", x, y, warmup, progress, resume)

    @takes(ridge=Real(0))
    def refit(self, ridge: float) -> Self:
        """Another ridge for what `partial_fit` saw, without running again, as `LiquidStateMachine.refit` does.

        Raises:
            RuntimeError: `partial_fit` was not called, or `fit` after it.
        """
        self._check_fitted("refit")
        self.machine.refit(ridge)
        self.ridge = ridge
        return self

    def _learn(self, op: str, x: Any, y: Any, warmup: int, progress: Progress, resume: bool | None) -> Self:
        """`fit` where resume is None, else `partial_fit`."""
        check_target(op, y)
        before = self._machine
        goes_on = resume is not None and before is not None and before.moments is not None
        tokens = self._reads_tokens(not goes_on)
        several = _is_several(x, tokens)
        names = self._columns_of(op, "x", x, not goes_on)
        given, kind, width = [as_array(op, "x", one) for one in (x if several else [x])], None, 1
        if not tokens:
            first = self._series(op, given[0], self.machine.input_dim if goes_on else self._width())
            width, kind = first.shape[-1], numeric_dtype(x[0] if several else x, first)
            given = [self._series(op, one, width) for one in given]
        if resume and not goes_on:
            raise RuntimeError(f"{op}: resume must be False in a first call, and in one after fit")
        machine, scale = (self.machine, self._held) if goes_on else (self._draw(width, kind), None)
        if machine.embedder is None and not goes_on and all(one.numel() for one in given):
            flat = torch.cat([one.to(machine.device, torch.float64).flatten(0, -2) for one in given])
            low, high = flat.amin(0), flat.amax(0)
            # A constant column stays constant.
            scale = ((low + high) / 2, torch.where(high > low, (high - low) / 2, 1))
        inputs: Any = [_scaled(one, scale) for one in given]
        # As they came, for errors about them.
        targets = [as_array(op, "y", one) for one in y] if several and isinstance(y, list | tuple) else y
        if not several:
            inputs, targets = inputs[0], as_array(op, "y", y)
        machine._learn(op, inputs, targets, warmup, progress, resume)
        self._machine, self._held = machine, scale
        if not goes_on:
            self._keep_inputs(*((None, None) if tokens else (machine.input_dim, names)))
        return self

    def _is_several(self, x: Any) -> bool:
        """Whether x is several series, to the machine that there is."""
        return _is_several(x, self._reads_tokens(False))

    @overload
    def predict(self, x: Tensor, state: Any = None, return_state: Literal[False] = False) -> Tensor: ...

    @overload
    def predict(self, x: Tensor, state: Any = None, *, return_state: Literal[True]) -> tuple[Tensor, Tensor]: ...

    @overload
    def predict(self, x: Any, state: Any = None, return_state: bool = False) -> Any: ...

    @takes(return_state=Bool())
    def predict(self, x: Any, state: Any = None, return_state: bool = False) -> Any:
        """A number for every step of x, or ``[..., out]`` as in `fit`, from rest or from a state.

        As `LiquidStateMachine.predict`, but ValueError if a series is not finite. Lists for a list of series, whose
        ``state`` is a list too.
        """
        if self._is_several(x):
            return self._each("predict", self.predict, x, state, return_state)
        predicted, last = self._predict("predict", x, state)
        return (like(x, predicted), like(x, last)) if return_state else like(x, predicted)

    def _each(self, op: str, call: Callable[[Any, Any, bool], Any], x: Any, state: Any, return_state: bool) -> Any:
        """Lists of what a call gives for each of several series, and of states."""
        parts = [call(one, start, True) for one, start in self._with_states(op, x, state)]
        predictions = [predicted for predicted, _ in parts]
        return (predictions, [last for _, last in parts]) if return_state else predictions

    def _with_states(self, op: str, x: Any, state: Any) -> list[tuple[Any, Any]]:
        """Several series, each with its state."""
        if state is None:
            return [(one, None) for one in x]
        if not isinstance(state, list | tuple) or len(state) != len(x):
            raise ValueError(f"{op}: state must be a list of {len(x)}, as x, or None")
        return list(zip(x, state, strict=True))

    @takes(steps=Int(0), return_state=Bool())
    def forecast(self, steps: int, x: Any = None, state: Any = None, return_state: bool = False) -> Any:
        """Predictions of a machine that runs free, as `LiquidStateMachine.forecast`: each is the next input.

        Args:
            steps: How many, at least 0.
            x: The series before, as for `predict`; None means the end of the training data, or the state.
            state: Where x starts, or without it the state of which the first prediction is read.
            return_state: Whether to return the state from which another forecast goes on too.

        Returns:
            ``[steps, out]``, or as y of `fit`; tensors if x is one, or without x the state, else arrays. A list for a
            list of series.

        Raises:
            RuntimeError: `fit` was not called, or saw several sequences where neither x nor a state is given.
            TypeError, ValueError: As for `LiquidStateMachine.forecast`; x is not finite.
        """
        self._check_fitted("forecast")
        if self._is_several(x):
            return self._each("forecast", partial(self.forecast, steps), x, state, return_state)
        given = None if x is None else self._finite("forecast", x)
        scaled = None if given is None else _scaled(given, self._held)
        predicted, last = self._run_free(steps, scaled, state)
        kind = state if x is None else x
        return (like(kind, predicted), like(kind, last)) if return_state else like(kind, predicted)

    @outside_graphs
    def _run_free(self, steps: int, x: Any, state: Any) -> tuple[Tensor, Tensor]:
        return self.machine._forecast("forecast", steps, x, state, self._held)

    def _finite(self, op: str, x: Any) -> Any:
        """What a fitted machine may be asked of; tokens as they are."""
        self._columns_of(op, "x", x)
        given = as_array(op, "x", x)
        if self.machine.embedder is not None:
            return given
        given = self._series(op, given, self.machine.input_dim)
        if not bool(given.isfinite().all()):
            raise ValueError(f"{op}: x must be finite, got NaN or infinity")
        return given

    def _predict(self, op: str, x: Any, state: Any) -> tuple[Tensor, Tensor]:
        self._check_fitted(op)
        machine = self.machine
        inputs, batched = machine._inputs(op, _scaled(self._finite(op, x), self._held))
        return machine._read_series(op, machine._fitted_readout(op), inputs, batched, state, machine.dtype)

    def score(self, x: Any, y: Any, state: Any = None, sample_weight: Any = None) -> float:
        """R^2: 1 minus the squared errors of `predict` over those of the mean, the mean of columns; at most 1.

        Args:
            x: As for `predict`.
            y: As for `fit`.
            state: As for `predict`; `final_state` where x goes on from the series of `fit`.
            sample_weight: How much the squares of each step count, ``[T]`` or ``[B, T]``, at least 0 and not all 0;
                a list for a list. None means all the same.

        A column that is constant counts 1 if it is predicted exactly, else 0. Errors as for `predict` and `fit`.
        """
        if self._is_several(x):
            parts = [self._predict("score", *one)[0] for one in self._with_states("score", x, state)]
            given = [None] * len(x) if sample_weight is None else sample_weight
            for name, each in (("y", y), ("sample_weight", given)):
                if not isinstance(each, list | tuple) or len(each) != len(x):
                    raise ValueError(f"score: {name} must be a list of {len(x)}, as x, got {type(each).__name__}")
            compared = [self._compared(*each) for each in zip(parts, y, given, strict=True)]
            predicted, truth, weight = (torch.cat(each) for each in zip(*compared, strict=True))
        else:
            predicted, truth, weight = self._compared(self._predict("score", x, state)[0], y, sample_weight)
        # From the first one, so that the mean of a constant is that constant.
        mean = truth[0] + (weight * (truth - truth[0])).sum(0) / weight.sum()
        missed, spread = ((weight * (truth - other).square()).sum(0) for other in (predicted, mean))
        return float(torch.where(spread > 0, 1 - missed / spread, (missed == 0).double()).mean())

    def _compared(self, predicted: Tensor, y: Any, sample_weight: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Predictions and finite targets ``[steps, out]``, and the weights of the steps ``[steps, 1]``."""
        truth = real_tensor("score", "y", as_array("score", "y", y)).cpu().double()
        if truth.shape != predicted.shape:
            raise ValueError(f"score: y must have shape {list(predicted.shape)}, got {list(truth.shape)}")
        if not truth.numel() or not bool(truth.isfinite().all()):
            raise ValueError(f"score: y must be finite numbers, one at least, got shape {list(truth.shape)}")
        truth = truth if self.machine.readout[1].dim() else truth.unsqueeze(-1)
        weight = weights_of_samples("score", sample_weight, truth.shape[:-1]).unsqueeze(-1)
        predicted = predicted.cpu().double().reshape(truth.shape)
        return predicted.flatten(0, -2), truth.flatten(0, -2), weight.flatten(0, -2)

    def _check_fitted(self, op: str) -> None:
        if not self._is_fitted():
            raise not_fitted(f"{op}: the regressor must have a read-out: call fit first")

    def _series(self, op: str, given: Any, width: Any) -> Tensor:
        """``[..., T, n]`` of the width, if it is known."""
        series = real_tensor(op, "x", given)
        if series.dim() == 1 and width in (None, 1):
            return series.unsqueeze(-1)
        fits = series.dim() in (2, 3) and (width is None or series.shape[-1] == width)
        if not (fits and series.shape[-1]):
            refuse_shape(self, op, "x", series, "[T, {0}] or [B, T, {0}]", width)
        return series

    def _restore(self, learned: dict[str, Tensor], facts: dict[str, Any]) -> None:
        if self._is_fitted() and self.embedder is None:
            self.n_features_in_ = self.machine.input_dim
        self._restore_columns(facts.pop("feature_names", ()))
        super()._restore(learned, facts)
        for tensor in self._held or ():
            if tensor.shape != (self.machine.input_dim,) or tensor.dtype != torch.float64:
                raise ValueError("a scale of another shape")


class SoftmaxEstimator(_Estimator):
    """A softmax read-out of states."""

    _names = ("weights", "constant")

    def _fitted(self, op: str) -> tuple[Tensor, Tensor]:
        if self._held is None:
            raise not_fitted(f"{op}: the read-out must be learned: call fit first")
        return self._held

    def _is_fitted(self) -> bool:
        return self._held is not None

    def _log_probabilities(self, op: str, features: Tensor) -> Tensor:
        return F.log_softmax(ReadOut(*self._fitted(op))(features), -1)

    def _restore(self, learned: dict[str, Tensor], facts: dict[str, Any]) -> None:
        super()._restore(learned, facts)
        if self._held is not None:
            weights, constant = self._held
            if weights.dim() != 2 or constant.shape != weights.shape[1:] or weights.dtype != constant.dtype:
                raise ValueError("a read-out of another shape")


class LSMClassifier(SoftmaxEstimator):
    """Labels of whole sequences, of numbers or tokens: softmax regression on the states of the reservoir.

    The features of a sequence are the mean of its states and the last of them. Steps of padding do not count;
    ``config`` says which token that is. Without ``config`` x is ``[B, T, n]``, or ``[B, T]`` for one number a step: the
    rows of a table are series. With it x is tokens ``[B, T]``. Arrays ``[T, n]``, or of tokens ``[T]``, in a list may
    be of any lengths. Tensors give tensors; arrays, lists and data frames give arrays.

    It is an estimator to scikit-learn, which need not be installed; it passes every check there.

    Attributes:
        classes_: The labels, ascending, a NumPy array ``[C]``, numbers as int64 or float64; not set before `fit`.
        n_features_in_: The columns of the table that `fit` saw, or the width of a step; not set before, nor for tokens.
        feature_names_in_: Their names, an array of str, if `fit` saw data frames with such names; else not set. Later
            frames must have the same ones, in the same order.
    """

    file_format = "torch_hrr.lsm_classifier"
    classes_: Any
    n_features_in_: int
    feature_names_in_: Any
    expected_failed_checks: ClassVar[dict[str, str]] = {}
    _estimator_type = "classifier"
    # The columns of a table, which later tables must have too; None where x had three dimensions.
    _columns: int | None = None
    # Features ``[N, 2 units]`` and labels ``[N]`` that `partial_fit` saw.
    _seen: tuple[Tensor, Tensor] | None = None

    @property
    def classes(self) -> Any:
        """`classes_` as an int64 tensor, if they are integers; a copy, and empty before `fit`."""
        if not self._is_fitted():
            return torch.empty(0, dtype=torch.int64, device="cpu")
        return self._integers() if self.classes_.dtype.kind in "iu" else self.classes_.copy()

    def _integers(self) -> Tensor:
        return torch.from_numpy(self.classes_.astype("int64"))

    def fit(self, x: Any, y: Any, progress: Progress = None) -> Self:
        """Draws the machine and learns the read-out.

        Args:
            x: Sequences.
            y: Their labels ``[B]``: integers, strings, bools, or floats that are whole numbers; of a tensor integers
                or bools.
            progress: Called again and again with how much is done and how much there is in all. What it raises, like
                KeyboardInterrupt, ends the call and leaves the classifier as it was.

        Returns:
            The classifier itself.

        Raises:
            TypeError: An argument, or the labels, of another type.
            ValueError: Another shape, no sequence or no step, a number that is not finite or outside its range.
            IndexError: A token is outside the vocabulary.

        Deterministic. Cost: the states of every step, and some hundred passes over features ``[B, 2 units]``.
        """
        return self._learn("fit", x, y, None, progress, False)

    def partial_fit(self, x: Any, y: Any, classes: Any = None, progress: Progress = None) -> Self:
        """As `fit`, from all sequences that the calls since the first one saw: it keeps their features.

        The first call, or one after `fit`, draws the machine; settings that change later count for `fit`. Up to
        rounding the read-out is that of one `fit` on all of them, with all classes. A file holds the features too.
        Threads must call it one after the other: of two calls at once only one counts.

        Args:
            x: Sequences, as for `fit`.
            y: Their labels.
            classes: All labels that any call will bring, for the first one; None means those of its y.
            progress: As for `fit`.

        Returns:
            The classifier itself.

        Raises:
            TypeError, ValueError, IndexError: As for `fit`; a label that is not among the classes.

        Cost: the states of the new sequences, and the read-out from all of them: ``16 units`` bytes are kept for each.
        """
        return self._learn("partial_fit", x, y, classes, progress, True)

    def _learn(self, op: str, x: Any, y: Any, classes: Any, progress: Progress, keep: bool) -> Self:
        """`fit`, or `partial_fit` if features are kept."""
        check_target(op, y)
        tick, before = ticking(op, progress), self._seen if keep else None
        if before is None:
            # Before x, which would be tokens to whatever config is.
            self._checked_config()
        names = self._columns_of(op, "x", x, before is None)
        width = self._width() if before is None else self.machine.input_dim
        batch = self._batch(op, x, self._reads_tokens(before is None), width, None if before is None else self._columns)
        given, tokens = batch.given, batch.given.dim() == 2
        known, label = labels(op, "y", y, len(given))
        if classes is not None and not hasattr(classes, "__len__"):
            raise TypeError(f"{op}: classes must be labels in an array or a list, got {type(classes).__name__}")
        if before is not None or classes is not None:
            held = labels(op, "classes", classes, len(classes))[0] if before is None else self.classes_
            label, known = self._among(op, held, known)[label], held
        check_warmup(op, 0, given)
        kind = None if tokens else numeric_dtype(_first(x), given)
        machine = self._draw(given.shape[-1], kind) if before is None else self.machine
        # States may be finite where an infinite input drives them.
        if not tokens and not bool(given.to(machine.dtype).isfinite().all()):
            raise ValueError(f"{op}: x must be finite, got NaN or infinity")
        features, steps, label = _features(machine, op, batch, tick), given.shape[1], label.to(machine.device)
        if not bool(features.isfinite().all()):
            raise ValueError(f"{op}: x must be finite, got NaN or infinity")
        if before is not None:
            features, label = torch.cat([before[0], features]), torch.cat([before[1], label])
        parts = list(zip(torch.split(features, BATCH), torch.split(label, BATCH), strict=True))
        later: Tick = lambda done, total: tick(steps + done, steps + total)  # noqa: E731
        self._held = fit_softmax(lambda: parts, len(parts), features.shape[1], len(known), features.device, later)
        self._machine, self.classes_, self._seen = machine, known, (features, label) if keep else None
        if before is None:
            self._columns = batch.columns
            seen = machine.input_dim if batch.columns is None else batch.columns
            self._keep_inputs(*((None, None) if tokens else (seen, names)))
        return self

    def _among(self, op: str, classes: Any, found: Any) -> Tensor:
        """The index in the classes of each of the labels that were found."""
        places = {label: place for place, label in enumerate(classes.tolist())}
        for label in found.tolist():
            if label not in places:
                raise ValueError(f"{op}: y must be of the classes of the first call, got {label!r}")
        return torch.tensor([places[label] for label in found.tolist()], dtype=torch.int64, device="cpu")

    def predict_proba(self, x: Any) -> Any:
        """Probabilities ``[B, C]`` of the labels in `classes_`, float64; RuntimeError before `fit`, else as `fit`.

        Probabilities of a sequence with NaN are NaN.
        """
        return like(_first(x), self._logs("predict_proba", x).exp())

    def predict(self, x: Any) -> Any:
        """The most probable labels ``[B]``; errors as for `predict_proba`, and ValueError if x is not finite.

        An array of the dtype of `classes_`; for a tensor an int64 or bool one, if labels are integers or bools.
        """
        chosen = self._logs("predict", x, finite=True).argmax(-1).cpu()
        return labels_of(_first(x), self.classes_, chosen)

    def score(self, x: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of labels that `predict` gets right; each counts as its weight ``[B]``, or for None all the same.

        Errors as for `predict` and `fit`; ValueError for weights of another shape, below 0 or all 0.
        """
        chosen = self._logs("score", x, finite=True).argmax(-1).cpu()
        return share_right(labels("score", "y", y, len(chosen)), self.classes_, chosen, sample_weight)

    def _logs(self, op: str, x: Any, finite: bool = False) -> Tensor:
        self._fitted(op)
        self._columns_of(op, "x", x)
        machine = self.machine
        batch = self._batch(op, x, machine.embedder is not None, machine.input_dim, self._columns)
        logs = self._log_probabilities(op, _features(machine, op, batch))
        if finite and not bool(batch.given.isfinite().all() & logs.isfinite().all()):
            raise ValueError(f"{op}: x must be finite, got NaN or infinity")
        return logs

    def _batch(self, op: str, x: Any, tokens: bool, width: Any, columns: int | None) -> _Sequences:
        """Sequences of a width and columns, if these are known."""
        if _is_several(x, tokens):
            # As arrays: data frames take [None] for the name of a column.
            arrays = [as_array(op, "x", one, TOKENS) if tokens else as_array(op, "x", one) for one in x]
            parts = [self._batch(op, one[None], tokens, width, None).given for one in arrays]
            for part in parts:
                check_warmup(op, 0, part)
            if len({part.shape[2:] for part in parts}) > 1:
                raise ValueError(
                    f"{op}: x must be sequences of one width, got {sorted({*(p.shape[-1] for p in parts)})}"
                )
            given, lengths = padded(parts)
            return _Sequences(given, None, lengths)
        if tokens:
            given = integers(op, "x", as_array(op, "x", x, TOKENS), TOKENS)
            if given.dim() != 2:
                raise ValueError(f"{op}: x must have shape [B, T], got {list(given.shape)}")
            return _Sequences(given, None, None)
        given = real_tensor(op, "x", as_array(op, "x", x))
        if given.dim() == 2 and width in (None, 1) and given.shape[1] and columns in (None, given.shape[1]):
            return _Sequences(given.unsqueeze(-1), given.shape[1], None)
        fits = given.dim() == 3 and (width is None or given.shape[-1] == width) and given.shape[-1]
        table = given.dim() == 2 and width in (None, 1)
        shape = f"[B, {columns or 'T'}]" if table else "[B, T, {0}]"
        if not fits:
            refuse_shape(self, op, "x", given, shape, columns if table else width)
        return _Sequences(given, None, None)

    def _more(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        learned, facts = super()._more()
        if self._columns is not None:
            facts["columns"] = self._columns
        if self._is_fitted():
            whole = self.classes_.dtype.kind in "iu"
            (learned if whole else facts)["classes"] = self._integers() if whole else self.classes_.tolist()
        if self._seen is not None:
            learned["features"], learned["labels"] = self._seen
        return learned, facts

    def _restore(self, learned: dict[str, Tensor], facts: dict[str, Any]) -> None:
        columns, classes = facts.pop("columns", None), facts.pop("classes", None)
        names = facts.pop("feature_names", ())
        if seen := [learned.pop(name).to(self.machine.device) for name in ("features", "labels") if name in learned]:
            self._seen = seen[0], seen[1]
        if "classes" in learned:
            whole = learned.pop("classes")
            if classes is not None or whole.dtype != torch.int64:
                raise ValueError("labels of two kinds")
            classes = whole.cpu().numpy()
        super()._restore(learned, facts)
        if self._held is None:
            if classes is not None or columns is not None or names != ():
                raise ValueError("labels without a read-out")
            return
        self.classes_, index = labels("load", "classes", classes, self._held[0].shape[1])
        if self._held[0].shape[0] != 2 * self.machine.units or not len(self.classes_) == len(index) > 0:
            raise ValueError("a read-out of another shape")
        if self.classes_.tolist() != list(classes):
            # In another order they would be those of other columns.
            raise ValueError("labels that do not ascend")
        if self._seen is not None:
            features, label = self._seen
            fits = (
                features.dim() == 2
                and features.shape[1] == 2 * self.machine.units
                and label.shape == features.shape[:1]
            )
            if not fits or features.dtype != torch.float64 or label.dtype != torch.int64:
                raise ValueError("features and labels of other shapes")
            if not bool(((label >= 0) & (label < len(self.classes_))).all()):
                raise ValueError("labels beyond the classes")
        if columns is not None:
            self._columns = integer("load", "columns", columns, 1)
        if self.embedder is None:
            self.n_features_in_ = self.machine.input_dim if columns is None else columns
        self._restore_columns(names)


def _device(embedder: ConfigurableSinusoidalEmbedder | None, gpu_config: GPUConfig | None) -> torch.device:
    """Where the reservoir is: with its embedder, else where the configuration allows."""
    if embedder is not None:
        return embedder.accelerator.device
    return choose_device(gpu_config is None or gpu_config.enable_gpu, None, "")


def _scaled(given: Any, scale: tuple[Tensor, Tensor] | None) -> Any:
    return given if scale is None else (given.to(scale[0].device, torch.float64) - scale[0]) / scale[1]


def _is_several(x: Any, tokens: bool) -> bool:
    """Whether x is a list of series ``[T, n]``, or of tokens ``[T]``, which may be of several lengths."""
    dims = 1 if tokens else 2
    return isinstance(x, list | tuple) and bool(x) and all(getattr(one, "ndim", None) == dims for one in x)


def _first(x: Any) -> Any:
    """What says of a list of sequences whether they are tensors."""
    return x[0] if isinstance(x, list | tuple) and len(x) else x


def _features(machine: LiquidStateMachine, op: str, batch: _Sequences, tick: Tick = unseen) -> Tensor:
    """Mean and last state of the steps that are not padding, ``[B, 2 units]``; zeros where all are."""
    embedder, given = machine.embedder, batch.given
    padding = embedder.config.padding_id if isinstance(embedder, ConfigurableSinusoidalEmbedder) else None
    counted = torch.ones(given.shape[:2], dtype=torch.bool, device=machine.device)
    if padding is not None:
        counted = given.to(counted.device) != padding
    steps = torch.arange(given.shape[1], device=counted.device)
    if batch.lengths is not None:
        counted = counted & (steps < batch.lengths.to(counted.device).unsqueeze(1))
    # The last counted step, -1 where there is none.
    last = torch.where(counted, steps, -1).amax(1) if len(steps) else steps.new_full((len(given),), -1)
    total = torch.zeros(len(given), machine.units, dtype=torch.float64, device=counted.device)
    final = torch.zeros_like(total)
    for begin, states in machine._chunks_for(op, given):
        end = begin + states.shape[1]
        total += torch.einsum("btn,bt->bn", states.double(), counted[:, begin:end].double())
        here = ((last >= begin) & (last < end)).nonzero().squeeze(-1)
        final[here] = states[here, last[here] - begin].double()
        tick(end, given.shape[1] + softmax_ticks(-(-len(given) // BATCH)))
    return torch.cat([total / counted.sum(1, keepdim=True).clamp_min(1), final], 1)
