"""Estimators on a liquid state machine: regression, classification and generation, for series and tokens."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Literal, Self, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr._checks import check_bool, check_seed, integer, number, renamed
from torch_hrr._random import seeded_generator
from torch_hrr._repr import Described
from torch_hrr.encoding.acceleration import GPUConfig, choose_device
from torch_hrr.encoding.config import SinusoidalConfig
from torch_hrr.encoding.embedder import ConfigurableSinusoidalEmbedder
from torch_hrr.encoding.inputs import TOKENS, check_warmup, integers, real_tensor, token_tensor
from torch_hrr.encoding.readout import Progress, fit_softmax
from torch_hrr.encoding.reservoir import LiquidStateMachine, read_out
from torch_hrr.io import Saveable

# Samples in a step of the softmax regression.
_BATCH = 2048
# Bytes of states that are kept between its passes; of more they are computed anew in each.
_KEPT = 2**30
# Tokens are renewed faster and forgotten sooner than samples of a series (measured on text: 2.21 bits a character with
# these at 500 units, 2.26 with a radius of 0.9).
_TOKEN_SETTINGS = {"spectral_radius": 0.5, "leak": 0.8}


class _Estimator(Described, Saveable):
    """A machine, its embedder where inputs are tokens, and a file for both."""

    def __init__(
        self,
        config: SinusoidalConfig | None = None,
        gpu_config: GPUConfig | None = None,
        *,
        input_dim: int = 1,
        **settings: Any,
    ) -> None:
        """Draws embedder and reservoir.

        Args:
            config: Settings of the embedder of tokens; None means that inputs are series of numbers.
            gpu_config: Settings of the GPU; None means those of ``config``.
            input_dim: Width of a series; tokens have the embedder's dimension.
            settings: As for `LiquidStateMachine`. Tokens have other defaults: ``spectral_radius=0.5``, ``leak=0.8`` and
                ``input_scaling=embedding_dim**-0.5``. ``seed`` draws the embedder's table too.

        Raises:
            TypeError: An argument of another type.
            ValueError: An argument outside its range.
        """
        op = type(self).__name__
        known = inspect.signature(LiquidStateMachine).parameters.keys() - {"input_dim", "embedder"}
        for name in settings:
            if name not in known:
                raise TypeError(f"{op}: settings must be those of LiquidStateMachine, got {name}")
        if config is not None and not isinstance(config, SinusoidalConfig):
            raise TypeError(f"{op}: config must be a SinusoidalConfig or None, got {type(config).__name__}")
        if gpu_config is not None and not isinstance(gpu_config, GPUConfig):
            raise TypeError(f"{op}: gpu_config must be a GPUConfig or None, got {type(gpu_config).__name__}")
        self.embedder: ConfigurableSinusoidalEmbedder | None = None
        if config is not None:
            if gpu_config is not None:
                config = dataclasses.replace(config, gpu_config=gpu_config)
            generator = seeded_generator(check_seed(op, settings.get("seed", 0)))
            self.embedder = ConfigurableSinusoidalEmbedder(config, generator=generator)
            self.embedder.requires_grad_(False)
            input_dim = config.embedding_dim
            settings = {**_TOKEN_SETTINGS, "input_scaling": input_dim**-0.5, **settings}
        settings.setdefault("device", _device(self.embedder, gpu_config))
        try:
            self.machine = LiquidStateMachine(input_dim, embedder=self.embedder, **settings)
        except (TypeError, ValueError, RuntimeError) as error:
            raise renamed(error, "LiquidStateMachine", op) from None

    def _summary(self) -> dict[str, Any]:
        tokens = {} if self.embedder is None else {"vocab_size": self.embedder.config.vocab_size}
        return tokens | self.machine._summary() | {"fitted": self._is_fitted()}

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, settings = self.machine.content()
        tensors = {f"machine.{name}": tensor for name, tensor in tensors.items()}
        metadata: dict[str, Any] = {"machine": settings, "config": None}
        if self.embedder is not None:
            metadata["config"] = self.embedder.config.to_metadata()
            tensors |= {f"embedder.{name}": tensor for name, tensor in self.embedder.state_dict().items()}
        return tensors | {f"learned.{name}": tensor for name, tensor in self._learned().items()}, metadata

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        if set(metadata) != {"machine", "config"}:
            raise ValueError("other entries than a machine and a configuration")
        parts: dict[str, dict[str, Tensor]] = {"machine": {}, "embedder": {}, "learned": {}}
        estimator = cls.__new__(cls)
        for name, tensor in tensors.items():
            part, _, own = name.partition(".")
            parts[part][own] = tensor
        estimator.embedder = None
        if metadata["config"] is not None:
            config = SinusoidalConfig.from_metadata(metadata["config"])
            estimator.embedder = ConfigurableSinusoidalEmbedder(config, device=device)
            dtypes = {name: tensor.dtype for name, tensor in estimator.embedder.state_dict().items()}
            if dtypes != {name: tensor.dtype for name, tensor in parts["embedder"].items()}:
                raise ValueError("other tensors than those of its embedder")
            estimator.embedder.load_state_dict(parts["embedder"])
            estimator.embedder.requires_grad_(False)
        where = _device(estimator.embedder, None) if device is None else device
        estimator.machine = LiquidStateMachine.from_content(
            parts["machine"], metadata["machine"], estimator.embedder, where
        )
        width = estimator.machine.input_dim
        if estimator.embedder is not None and estimator.embedder.config.embedding_dim != width:
            raise ValueError(f"an embedder of another width than {width}")
        estimator._restore(parts["learned"])
        return estimator

    def _is_fitted(self) -> bool:
        return self.machine.fitted

    def _learned(self) -> dict[str, Tensor]:
        """What was learned beside the machine's read-out."""
        return {}

    def _restore(self, learned: dict[str, Tensor]) -> None:
        """Takes it over; KeyError, TypeError or ValueError unless it is what `_learned` gives."""
        if learned:
            raise ValueError(f"entries {', '.join(learned)}")


class LSMRegressor(_Estimator):
    """Targets from a series of numbers, or from tokens, by the ridge read-out of a `LiquidStateMachine`.

    Without ``config`` x is a series ``[T]`` (with ``input_dim=1``), ``[T, input_dim]`` or ``[B, T, input_dim]``; its
    columns are scaled so that those of `fit` span -1 to 1. They enter as they are: sinusoids of their values do not
    help (measured on the laser series with settings chosen for it: an error of 0.058 with them and 0.049 without). With
    ``config`` x is tokens ``[T]`` or ``[B, T]``.
    """

    file_format = "torch_hrr.lsm_regressor"
    _scale: tuple[Tensor, Tensor] | None = None

    @property
    def final_state(self) -> Tensor:
        """Where the series that `fit` learned from ended, for `predict`; as `LiquidStateMachine.final_state`."""
        self._check_fitted("final_state")
        return self.machine.final_state

    def fit(self, x: Any, y: Any, warmup: int = 0) -> Self:
        """Learns the read-out and keeps `final_state`, as `LiquidStateMachine.fit` does.

        Args:
            x: Series or tokens.
            y: A number for every step, in the shape of x without its last dimension, or ``[..., out]``.
            warmup: Steps at the start of each sequence that are ignored.

        Returns:
            The regressor itself.

        Raises:
            TypeError, ValueError, IndexError: As for `LiquidStateMachine.fit`.
        """
        given = self._columns("fit", x)
        scale = None
        # What has no such columns is the machine's to refuse.
        columned = given.dim() > 1 and given.shape[-1] == self.machine.input_dim
        if self.embedder is None and given.numel() and columned:
            flat = given.to(self.machine.device, torch.float64).flatten(0, -2)
            low, high = flat.amin(0), flat.amax(0)
            # A constant column stays constant.
            half = torch.where(high > low, (high - low) / 2, 1)
            scale = ((low + high) / 2, half)
        targets = real_tensor("fit", "y", y)
        if targets.dim() == given.dim() - (self.embedder is None):
            targets = targets.unsqueeze(-1)
        self.machine.fit(self._scaled(given, scale), targets, warmup)
        self._scale = scale
        return self

    @overload
    def predict(self, x: Any, state: Tensor | None = None, return_state: Literal[False] = False) -> Tensor: ...

    @overload
    def predict(self, x: Any, state: Tensor | None = None, *, return_state: Literal[True]) -> tuple[Tensor, Tensor]: ...

    def predict(
        self, x: Any, state: Tensor | None = None, return_state: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """``[..., out]`` for every step of x, from rest or from a state; as `LiquidStateMachine.predict`."""
        check_bool("predict", "return_state", return_state)
        self._check_fitted("predict")
        given = self._scaled(self._columns("predict", x), self._scale)
        predicted, last = self.machine.predict(given, state, return_state=True)
        return (predicted, last) if return_state else predicted

    def _check_fitted(self, op: str) -> None:
        if not self.machine.fitted:
            raise RuntimeError(f"{op}: the regressor must have a read-out: call fit first")

    def _columns(self, op: str, x: Any) -> Tensor:
        given = real_tensor(op, "x", x)
        single = self.embedder is None and given.dim() == 1 and self.machine.input_dim == 1
        return given.unsqueeze(-1) if single else given

    def _scaled(self, given: Tensor, scale: tuple[Tensor, Tensor] | None) -> Tensor:
        if scale is None or given.shape[-1:] != scale[0].shape:
            return given
        middle, half = scale
        return (given.to(middle.device, torch.float64) - middle) / half

    def _learned(self) -> dict[str, Tensor]:
        return {} if self._scale is None else {"middle": self._scale[0], "half": self._scale[1]}

    def _restore(self, learned: dict[str, Tensor]) -> None:
        if not learned:
            return
        scale = learned.pop("middle").to(self.machine.device), learned.pop("half").to(self.machine.device)
        super()._restore(learned)
        for tensor in scale:
            if tensor.shape != (self.machine.input_dim,) or tensor.dtype != torch.float64:
                raise ValueError("a scale of another shape")
        self._scale = scale


class _Softmax(_Estimator):
    """A softmax read-out of states."""

    _softmax: tuple[Tensor, Tensor] | None = None

    def _fitted(self, op: str) -> tuple[Tensor, Tensor]:
        if self._softmax is None:
            raise RuntimeError(f"{op}: the read-out must be learned: call fit first")
        return self._softmax

    def _is_fitted(self) -> bool:
        return self._softmax is not None

    def _log_probabilities(self, op: str, features: Tensor) -> Tensor:
        return F.log_softmax(read_out(features, *self._fitted(op)), -1)

    def _learned(self) -> dict[str, Tensor]:
        return {} if self._softmax is None else {"weights": self._softmax[0], "constant": self._softmax[1]}

    def _restore(self, learned: dict[str, Tensor]) -> None:
        if learned:
            device = self.machine.device
            self._softmax = learned.pop("weights").to(device), learned.pop("constant").to(device)
            super()._restore(learned)
            weights, constant = self._softmax
            if weights.dim() != 2 or constant.shape != weights.shape[1:] or weights.dtype != constant.dtype:
                raise ValueError("a read-out of another shape")


class LSMClassifier(_Softmax):
    """Labels of whole sequences, of numbers or tokens: softmax regression on the states of the reservoir.

    The features of a sequence are the mean of its states and the last of them. Steps of padding do not count;
    ``config`` says which token that is. Without ``config`` x is ``[B, T, input_dim]``, with it tokens ``[B, T]``.

    Attributes:
        classes: The labels, ascending, int64 ``[C]``, a copy; empty before `fit`.
    """

    file_format = "torch_hrr.lsm_classifier"

    def __init__(
        self,
        config: SinusoidalConfig | None = None,
        gpu_config: GPUConfig | None = None,
        *,
        input_dim: int = 1,
        **settings: Any,
    ) -> None:
        """As `LSMRegressor`."""
        super().__init__(config, gpu_config, input_dim=input_dim, **settings)
        self._classes = torch.empty(0, dtype=torch.int64, device="cpu")

    @property
    def classes(self) -> Tensor:
        """See the class."""
        return self._classes.clone()

    def fit(self, x: Any, y: Any) -> Self:
        """Learns the read-out.

        Args:
            x: Sequences.
            y: Their labels, integers ``[B]``.

        Returns:
            The classifier itself.

        Raises:
            TypeError: Not tensors or arrays, or labels that are not integers.
            ValueError: Another shape, no sequence or no step.
            IndexError: A token is outside the vocabulary.

        Deterministic. Cost: the states of every step, and some hundred passes over features ``[B, 2 units]``.
        """
        given, labels = self._batch("fit", x), integers("fit", "y", y)
        if labels.shape != given.shape[:1]:
            raise ValueError(f"fit: y must have shape [{len(given)}], got {list(labels.shape)}")
        check_warmup("fit", 0, given)
        classes, label = torch.unique(labels.to(self.machine.device), return_inverse=True)
        features = self._features("fit", given)
        # States may be finite where an infinite input drives them.
        numbers = [features] if self.embedder is not None else [given.to(self.machine.dtype), features]
        if not all(bool(each.isfinite().all()) for each in numbers):
            raise ValueError("fit: x must be finite, got NaN or infinity")
        parts = list(zip(torch.split(features, _BATCH), torch.split(label, _BATCH), strict=True))
        self._softmax = fit_softmax(lambda: parts, len(parts), features.shape[1], len(classes), features.device)
        self._classes = classes.cpu()
        return self

    def predict_proba(self, x: Any) -> Tensor:
        """Probabilities ``[B, C]`` of the labels in `classes`, float64; RuntimeError before `fit`, else as `fit`.

        Probabilities of a sequence with NaN are NaN.
        """
        self._fitted("predict_proba")
        given = self._batch("predict_proba", x)
        return self._log_probabilities("predict_proba", self._features("predict_proba", given)).exp()

    def predict(self, x: Any) -> Tensor:
        """The most probable labels, int64 ``[B]``; errors as for `predict_proba`, and ValueError if x holds NaN."""
        self._fitted("predict")
        logs = self._log_probabilities("predict", self._features("predict", self._batch("predict", x)))
        if bool(logs.isnan().any()):
            raise ValueError("predict: x must be finite, got NaN or infinity")
        return self._classes[logs.argmax(-1).cpu()]

    def _batch(self, op: str, x: Any) -> Tensor:
        given = real_tensor(op, "x", x) if self.embedder is None else integers(op, "x", x, TOKENS)
        if given.dim() != (3 if self.embedder is None else 2):
            wanted = f"[B, T, {self.machine.input_dim}]" if self.embedder is None else "[B, T]"
            raise ValueError(f"{op}: x must have shape {wanted}, got {list(given.shape)}")
        return given

    def _features(self, op: str, given: Tensor) -> Tensor:
        """Mean and last state of the steps that are not padding, ``[B, 2 units]``; zeros where all are."""
        padding = None if self.embedder is None else self.embedder.config.padding_id
        counted = torch.ones(given.shape[:2], dtype=torch.bool, device=self.machine.device)
        if padding is not None:
            counted = given.to(counted.device) != padding
        # The last counted step, -1 where there is none.
        steps = torch.arange(given.shape[1], device=counted.device)
        last = torch.where(counted, steps, -1).amax(1) if len(steps) else steps.new_full((len(given),), -1)
        total = torch.zeros(len(given), self.machine.units, dtype=torch.float64, device=counted.device)
        final = torch.zeros_like(total)
        for begin, states in self.machine._chunks_for(op, given):
            end = begin + states.shape[1]
            total += torch.einsum("btn,bt->bn", states.double(), counted[:, begin:end].double())
            here = ((last >= begin) & (last < end)).nonzero().squeeze(-1)
            final[here] = states[here, last[here] - begin].double()
        return torch.cat([total / counted.sum(1, keepdim=True).clamp_min(1), final], 1)

    def _learned(self) -> dict[str, Tensor]:
        learned = super()._learned()
        return {**learned, "classes": self._classes} if learned else {}

    def _restore(self, learned: dict[str, Tensor]) -> None:
        self._classes = learned.pop("classes") if learned else torch.empty(0, dtype=torch.int64, device="cpu")
        super()._restore(learned)
        if self._softmax is not None:
            shape = (2 * self.machine.units, len(self._classes))
            if self._softmax[0].shape != shape or self._classes.dtype != torch.int64:
                raise ValueError("a read-out of another shape")


class LSMGenerator(_Softmax):
    """Predicts the next token, and so generates text: softmax regression on the states after the earlier tokens.

    Tokens are integers ``[T]`` or ``[B, T]``, 0 to ``config.vocab_size - 1``.
    """

    file_format = "torch_hrr.lsm_generator"

    def __init__(
        self, config: SinusoidalConfig | None = None, gpu_config: GPUConfig | None = None, **settings: Any
    ) -> None:
        """As `LSMRegressor`, for tokens alone: ``config=None`` means `SinusoidalConfig()`."""
        super().__init__(SinusoidalConfig() if config is None else config, gpu_config, **settings)

    def fit(self, tokens: Any, warmup: int = 0, streams: int = 64, progress: Progress | None = None) -> Self:
        """Learns which token follows.

        Args:
            tokens: ``[T]`` or ``[B, T]``.
            warmup: Steps at the start of each stream that are ignored.
            streams: Number of equal parts into which tokens ``[T]`` are cut, and which run at once, at least 1; up to
                ``streams - 1`` tokens at the end are left out. Tokens ``[B, T]`` are B streams as they are.
            progress: Called after every chunk with the number of those done and of all.

        Returns:
            The generator itself.

        Raises:
            TypeError: Not a tensor or an array of integers.
            ValueError: Another shape, or streams that are not longer than warmup + 1.
            IndexError: A token is outside the vocabulary.

        Deterministic. Cost: one pass over the tokens, then at least four, and enough for 400 steps of about two
        thousand tokens each. States are kept from pass to pass up to 1 GiB, beyond that they are computed again.
        """
        given, batched = self._tokens("fit", tokens)
        streams = integer("fit", "streams", streams, 1)
        if progress is not None and not callable(progress):
            raise TypeError(f"fit: progress must be a function or None, got {type(progress).__name__}")
        if not batched:
            length = given.shape[1] // streams
            if length < 2:
                raise ValueError(
                    f"fit: tokens must be at least two for each of {streams} streams, got {given.shape[1]}"
                )
            given = given[:, : length * streams].view(streams, length)
        warmup = self._check_warmup("fit", warmup, given)
        inputs, following = given[:, :-1], given[:, 1:]
        steps = max(1, _BATCH // len(given))
        units = self.machine.units

        def compute() -> Iterator[tuple[Tensor, Tensor]]:
            for begin, states in self.machine.chunks(inputs, steps=steps):
                skipped = min(max(warmup - begin, 0), states.shape[1])
                label = following[:, begin + skipped : begin + states.shape[1]]
                yield states[:, skipped:].reshape(-1, units), label.reshape(-1)

        kept: list[tuple[Tensor, Tensor]] = []

        def chunks() -> Iterable[tuple[Tensor, Tensor]]:
            if inputs.numel() * units * self.machine.dtype.itemsize > _KEPT:
                return compute()
            if not kept:
                kept.extend(compute())
            return kept

        count = -(-inputs.shape[1] // steps)
        self._softmax = fit_softmax(chunks, count, units, self._vocabulary, self.machine.device, progress)
        return self

    @overload
    def predict_proba(
        self, tokens: Any, state: Tensor | None = None, return_state: Literal[False] = False
    ) -> Tensor: ...

    @overload
    def predict_proba(
        self, tokens: Any, state: Tensor | None = None, *, return_state: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    def predict_proba(
        self, tokens: Any, state: Tensor | None = None, return_state: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Probabilities of the token that follows each, float64 ``[..., T, vocab_size]``, from rest or from a state.

        Args:
            tokens: ``[T]`` or ``[B, T]``.
            state: What an earlier call returned, as for `LiquidStateMachine.predict`; None means rest.
            return_state: Whether to return the state after the last token too, in a tuple.

        Raises:
            RuntimeError: `fit` was not called.
            TypeError, ValueError, IndexError: As for `fit`, and `LiquidStateMachine.predict` for the state.
        """
        op = "predict_proba"
        check_bool(op, "return_state", return_state)
        readout = self._fitted(op)
        given, batched = self._tokens(op, tokens)
        finish = partial(F.softmax, dim=-1)
        chances, last = self.machine._read_series(op, readout, given, batched, state, torch.float64, finish)
        return (chances, last) if return_state else chances

    def bits(self, tokens: Any, warmup: int = 0) -> float:
        """Mean of ``-log2 p(token | tokens before it)``, over all but the first ``warmup + 1`` tokens of a sequence.

        Raises:
            RuntimeError: `fit` was not called.
            TypeError, ValueError, IndexError: As for `fit`.
        """
        self._fitted("bits")
        given, _ = self._tokens("bits", tokens)
        warmup = self._check_warmup("bits", warmup, given)
        following, total = given[:, 1:].unsqueeze(-1), 0.0
        for begin, states in self.machine.chunks(given[:, :-1]):
            skipped = min(max(warmup - begin, 0), states.shape[1])
            logs = self._log_probabilities("bits", states[:, skipped:])
            total -= float(logs.gather(-1, following[:, begin + skipped : begin + states.shape[1]]).sum())
        count = following[:, warmup:].numel()
        return total / count / float(torch.log(torch.tensor(2.0, dtype=torch.float64, device="cpu")))

    def generate(self, n: int, temperature: float = 1.0, seed: int = 0, prompt: Any = None) -> Tensor:
        """Writes n tokens, each drawn from its normalised ``p^(1/temperature)`` given the tokens before it.

        Args:
            n: How many, at least 0.
            temperature: At least 0; 0 takes the most probable token, 1 the probabilities as they are.
            seed: Any int; the same seed gives the same tokens.
            prompt: Tokens ``[T]`` that come before and are not returned; None starts from rest.

        Returns:
            int64 ``[n]`` on the CPU.

        Raises:
            RuntimeError: `fit` was not called.
            TypeError: An argument of another type.
            ValueError: A number outside its range, or a prompt of another shape.
            IndexError: A token of the prompt is outside the vocabulary.
        """
        n = integer("generate", "n", n, 0)
        temperature = number("generate", "temperature", temperature, 0)
        seed = check_seed("generate", seed)
        self._fitted("generate")
        generator = seeded_generator(seed)
        state = torch.zeros(self.machine.units, dtype=self.machine.dtype, device=self.machine.device)
        if prompt is not None:
            before, batched = self._tokens("generate", prompt, "prompt")
            if batched:
                raise ValueError(f"generate: prompt must have shape [T], got {list(before.shape)}")
            for _, states in self.machine.chunks(before):
                state = states[0, -1]
        written = torch.empty(n, dtype=torch.int64, device="cpu")
        for index in range(n):
            logs = self._log_probabilities("generate", state).cpu()
            if temperature == 0:
                written[index] = logs.argmax()
            else:
                chances = torch.softmax((logs - logs.max()) / temperature, -1)
                # By the inverse of the distribution function: one uniform number a token.
                drawn = torch.rand((), generator=generator, dtype=torch.float64, device="cpu")
                written[index] = int((chances.cumsum(-1) < drawn).sum().clamp_max(len(chances) - 1))
            state = self.machine.run(written[index : index + 1], state=state)[-1]
        return written

    @property
    def _vocabulary(self) -> int:
        assert self.embedder is not None
        return self.embedder.config.vocab_size

    def _check_warmup(self, op: str, warmup: Any, given: Tensor) -> int:
        """Of streams ``[B, T]``, whose last token is followed by none."""
        if not len(given) or given.shape[1] < 2:
            raise ValueError(f"{op}: tokens must be at least two, got shape {list(given.shape)}")
        return check_warmup(op, warmup, given[:, 1:])

    def _tokens(self, op: str, tokens: Any, name: str = "tokens") -> tuple[Tensor, bool]:
        """Tokens ``[B, T]`` on the device, and whether they came as a batch."""
        given = token_tensor(op, name, tokens)
        low, high = (int(given.min()), int(given.max())) if given.numel() else (0, 0)
        if low < 0 or high >= self._vocabulary:
            outside = low if low < 0 else high
            raise IndexError(f"{op}: {name} must be 0 to {self._vocabulary - 1}, got {outside}")
        given = given.to(self.machine.device)
        return (given, True) if given.dim() == 2 else (given.unsqueeze(0), False)

    def _restore(self, learned: dict[str, Tensor]) -> None:
        super()._restore(learned)
        if self.embedder is None:
            raise ValueError("no embedder")
        if self._softmax is not None and self._softmax[0].shape != (self.machine.units, self._vocabulary):
            raise ValueError("a read-out of another shape")


def _device(embedder: ConfigurableSinusoidalEmbedder | None, gpu_config: GPUConfig | None) -> torch.device:
    """Where the reservoir is: with its embedder, else where the configuration allows."""
    if embedder is not None:
        return embedder.accelerator.device
    return choose_device(gpu_config is None or gpu_config.enable_gpu, None, "")
