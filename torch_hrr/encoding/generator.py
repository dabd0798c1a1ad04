"""Generation of tokens by a liquid state machine: softmax regression on the states after the earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Literal, Self, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr._checks import check_data
from torch_hrr._inputs import TOKENS, as_array, check_warmup, like, token_tensor
from torch_hrr._progress import Progress, ticking
from torch_hrr._random import seeded_generator
from torch_hrr._spec import Bool, Int, Real, Seed, takes
from torch_hrr.encoding.config import SinusoidalConfig
from torch_hrr.encoding.embedder import ConfigurableSinusoidalEmbedder
from torch_hrr.encoding.estimators import BATCH, SoftmaxEstimator
from torch_hrr.encoding.readout import fit_softmax
from torch_hrr.encoding.reservoir import LiquidStateMachine

# Bytes of states that are kept between passes of the softmax regression; of more they are computed anew in each.
_KEPT = 2**30


class LSMGenerator(SoftmaxEstimator):
    """Predicts the next token, and so generates text: softmax regression on the states after the earlier tokens.

    Tokens are integers ``[T]`` or ``[B, T]``, 0 to ``config.vocab_size - 1``; tensors give tensors, others
    arrays. ``config=None`` means `SinusoidalConfig()`. scikit-learn can clone it and search its settings.
    """

    file_format = "torch_hrr.lsm_generator"

    def _embedder_config(self) -> SinusoidalConfig:
        return SinusoidalConfig() if self.config is None else self.config

    @takes(warmup=Int(0), streams=Int(1))
    def fit(self, tokens: Any, warmup: int = 0, streams: int = 64, progress: Progress = None) -> Self:
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
        machine = self._draw(1)
        given, batched = _tokens(machine, "fit", tokens)
        tick = ticking("fit", progress)
        if not batched:
            length = given.shape[1] // streams
            if length < 2:
                raise ValueError(
                    f"fit: tokens must be at least two for each of {streams} streams, got {given.shape[1]}"
                )
            given = given[:, : length * streams].view(streams, length)
        _check_warmup("fit", warmup, given)
        inputs, following = given[:, :-1], given[:, 1:]
        steps = max(1, BATCH // len(given))
        units = machine.units

        def compute() -> Iterator[tuple[Tensor, Tensor]]:
            for begin, states in machine.chunks(inputs, steps=steps):
                skipped = min(max(warmup - begin, 0), states.shape[1])
                label = following[:, begin + skipped : begin + states.shape[1]]
                yield states[:, skipped:].reshape(-1, units), label.reshape(-1)

        kept: list[tuple[Tensor, Tensor]] = []

        def chunks() -> Iterable[tuple[Tensor, Tensor]]:
            if inputs.numel() * units * machine.dtype.itemsize > _KEPT:
                return compute()
            if not kept:
                kept.extend(compute())
            return kept

        count = -(-inputs.shape[1] // steps)
        self._held = fit_softmax(chunks, count, units, _vocabulary(machine), machine.device, tick)
        self._machine = machine
        return self

    @overload
    def predict_proba(self, tokens: Tensor, state: Any = None, return_state: Literal[False] = False) -> Tensor: ...

    @overload
    def predict_proba(
        self, tokens: Tensor, state: Any = None, *, return_state: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def predict_proba(self, tokens: Any, state: Any = None, return_state: bool = False) -> Any: ...

    @takes(return_state=Bool())
    def predict_proba(self, tokens: Any, state: Any = None, return_state: bool = False) -> Any:
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
        readout = self._fitted(op)
        given, batched = _tokens(self.machine, op, tokens)
        finish = partial(F.softmax, dim=-1)
        chances, last = self.machine._read_series(op, readout, given, batched, state, torch.float64, finish)
        return (like(tokens, chances), like(tokens, last)) if return_state else like(tokens, chances)

    def score(self, tokens: Any, y: None = None) -> float:
        """``-bits(tokens)``, of which more is better; ``y`` is there for scikit-learn."""
        return -self._bits("score", tokens, 0)

    @takes(warmup=Int(0))
    def bits(self, tokens: Any, warmup: int = 0) -> float:
        """Mean of ``-log2 p(token | tokens before it)``, over all but the first ``warmup + 1`` tokens of a sequence.

        Raises:
            RuntimeError: `fit` was not called.
            TypeError, ValueError, IndexError: As for `fit`.
        """
        return self._bits("bits", tokens, warmup)

    def _bits(self, op: str, tokens: Any, warmup: int) -> float:
        self._fitted(op)
        given, _ = _tokens(self.machine, op, tokens)
        _check_warmup(op, warmup, given)
        following, total = given[:, 1:].unsqueeze(-1), 0.0
        for begin, states in self.machine.chunks(given[:, :-1]):
            skipped = min(max(warmup - begin, 0), states.shape[1])
            logs = self._log_probabilities(op, states[:, skipped:])
            total -= float(logs.gather(-1, following[:, begin + skipped : begin + states.shape[1]]).sum())
        count = following[:, warmup:].numel()
        return total / count / float(torch.log(torch.tensor(2.0, dtype=torch.float64, device="cpu")))

    @takes(n=Int(0), temperature=Real(0), seed=Seed())
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
            ValueError: The prompt has another shape.
            IndexError: A token of the prompt is outside the vocabulary.
        """
        self._fitted("generate")
        generator = seeded_generator(seed)
        state = torch.zeros(self.machine.units, dtype=self.machine.dtype, device=self.machine.device)
        if prompt is not None:
            before, batched = _tokens(self.machine, "generate", prompt, "prompt")
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

    def _restore(self, learned: dict[str, Tensor], facts: dict[str, Any]) -> None:
        super()._restore(learned, facts)
        if self.embedder is None:
            raise ValueError("no embedder")
        if self._held is not None and self._held[0].shape != (self.machine.units, _vocabulary(self.machine)):
            raise ValueError("a read-out of another shape")


def _check_warmup(op: str, warmup: int, given: Tensor) -> None:
    """Of streams ``[B, T]``, whose last token is followed by none."""
    if not len(given) or given.shape[1] < 2:
        raise ValueError(f"{op}: tokens must be at least two, got shape {list(given.shape)}")
    check_warmup(op, warmup, given[:, 1:])


def _vocabulary(machine: LiquidStateMachine) -> int:
    assert isinstance(machine.embedder, ConfigurableSinusoidalEmbedder)
    return machine.embedder.config.vocab_size


def _tokens(machine: LiquidStateMachine, op: str, tokens: Any, name: str = "tokens") -> tuple[Tensor, bool]:
    """Tokens ``[B, T]`` on the machine's device, and whether they came as a batch."""
    check_data(op, "the machine", machine.bias)
    given, most = token_tensor(op, name, as_array(op, name, tokens, TOKENS)), _vocabulary(machine) - 1
    low, high = (int(given.min()), int(given.max())) if given.numel() else (0, 0)
    if low < 0 or high > most:
        raise IndexError(f"{op}: {name} must be 0 to {most}, got {low if low < 0 else high}")
    given = given.to(machine.device)
    return (given, True) if given.dim() == 2 else (given.unsqueeze(0), False)
