"""Rounds of a TorchBrain: synchronous rounds of a brain which external inputs and biases join."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from torch_hrr._repr import DescribedModule
from torch_hrr._shared import lock_public_calls, locked
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._external import LARGEST, choose, chosen_round, lead, open_pairs, received, silent, undoing
from torch_hrr.assembly._network import Projections
from torch_hrr.assembly.brain import Brain
from torch_hrr.runtime.device import resolve_device_or_cpu

_ops = torch.ops.torch_hrr
_PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
Inputs = Mapping[str, Tensor]


class ExternalRounds(DescribedModule):
    """What a round of a `TorchBrain` is. `TorchBrain` says what it means."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Threads may share one, as they may its brain."""
        super().__init_subclass__(**kwargs)
        lock_public_calls(cls)

    def __init__(self, device: str | int | torch.device | None, precision: str, p: float, seed: int) -> None:
        """See `TorchBrain`."""
        super().__init__()
        op = type(self).__name__
        self.precision = checks.choice(op, "precision", precision, _PRECISIONS)
        self._dtype = _PRECISIONS[self.precision]
        place = resolve_device_or_cpu(device, op=op)
        self.brain = Brain(checks.probability(op, "p", p), checks.check_seed(op, seed), device=place)
        self.biases = nn.ParameterList()
        self.learning = False
        # Of the last projection: what an area received without its external input, that input, and who fired where.
        self._received: dict[str, Tensor | None] = {}
        self._given: dict[str, Tensor] = {}
        self._projections: dict[str, list[str]] = {}
        # The external inputs of the last projection.
        self._repeated: Mapping[str, Any] = {}

    @property
    def _lock(self) -> Any:
        """The brain's: threads may share both."""
        return self.brain._lock

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        # Devices change, dtypes do not, as of a brain: biases are float32 whatever the model that holds them becomes.
        def moved(tensor: Tensor) -> Tensor:
            result = fn(tensor)
            return result if result.dtype == tensor.dtype else tensor.to(result.device)

        module: Any = super()
        return module._apply(moved, recurse)

    @locked
    def project(
        self, external_inputs: Inputs | None = None, projections: Projections | None = None, rounds: int = 1
    ) -> None:
        """Runs synchronous rounds; without external inputs and projections, those of the last call of this object.

        Args:
            external_inputs: ``{area: tensor or array [n]}``, real numbers of at most 2^20, the same in every round.
            projections: ``{source: [targets]}``, areas that fire into areas.
            rounds: how many, >= 0.

        Raises:
            TypeError: an external input is neither a real tensor nor an array.
            ValueError: an unknown name, a wrong shape, a number that is not finite or too large, or a source that has
                neither winners nor an external input and fires into another area or, by itself, into its own; the
                brain is unchanged.
            RuntimeError: nothing is given, and there was no call to repeat; or the inputs of an area with an external
                input or bias differ by 2^30 (2^20 where columns are normalised) or more, which only a round can tell:
                earlier rounds stay, of this one nothing does. In the first round the brain is unchanged. Losses are
                those of the last call that returned.
        """
        rounds = checks.rounds("project", rounds)
        if external_inputs is None and projections is None:
            external_inputs, projections = self._repeated, self._projections
            if not (external_inputs or projections):
                raise RuntimeError("project: a call must have come before to be repeated, got nothing to fire either")
        given = self._checked({} if external_inputs is None else external_inputs)
        areas = self.brain.areas
        wanted = {} if projections is None else projections
        wanted = checks.projections("project", "projections", wanted, areas, areas, "area")
        pairs = open_pairs(self.brain, wanted)
        reached = dict.fromkeys(target for _, target in pairs)
        fed = {*given, *(target for source, target in pairs if source != target)}
        fed |= {name for name in reached if name not in fed and (bias := self._bias(name)) is not None and bias.any()}
        firing = dict.fromkeys(source for source, target in pairs if source != target or target not in fed)
        quiet = silent(self.brain, firing)
        shown = [
            name
            for name in given
            if not areas[name].inhibited and not areas[name].fixed and (name not in reached or name in quiet)
        ]
        for source in quiet:
            if source not in shown:
                raise ValueError(f"project: source area must have winners, got none in {source!r}")
        external = {}
        for name in dict.fromkeys((*given, *reached)):
            if (joined := self._external(name, given.get(name))) is not None:
                external[name] = joined
        if rounds == 0 or not (shown or reached):
            return
        known = self._given, self._received, self._projections, self._repeated
        undo = undoing(self.brain, shown)
        self._given = given if self.learning else {}
        self._received = dict.fromkeys(shown) if self.learning else {}
        self._projections, self._repeated = wanted, given
        for name in shown:
            nothing = torch.zeros(areas[name].n, dtype=torch.int64, device=self.brain.device)
            self.brain.activate(name, choose(self.brain, name, nothing, external=external[name]))
        pulled = {name: external[name] for name in reached if name in external and not areas[name].fixed}
        if not reached:
            return
        try:
            own = 0 if pulled else rounds - self.learning
            if own:
                self.brain.project({}, wanted, own)
            for left in range(rounds - own, 0, -1):
                undo = undo if left == rounds else undoing(self.brain)
                self._summed_round(wanted, pairs, reached, pulled, undo, record=self.learning and left == 1)
        except BaseException:
            self._given, self._received, self._projections, self._repeated = known
            raise

    def _summed_round(
        self,
        wanted: Projections,
        pairs: list[tuple[str, str]],
        reached: Iterable[str],
        pulled: Mapping[str, Tensor],
        undo: Callable[[], None],
        record: bool,
    ) -> None:
        """A round in which external inputs take part in the choice of winners, or whose inputs a loss will want."""
        try:
            self._normalize(reached)
            arrived = self._receive(pairs, reached if record else pulled, keep=record)
            chosen, spread = {}, 0.0
            for name, external in pulled.items():
                inputs, bits = arrived[name]
                chosen[name] = choose(self.brain, name, inputs, bits, external)
                spread = max(spread, float(inputs.max() - inputs.min()) / 2.0**bits)
            ahead = lead(self.brain, chosen, spread)
        except BaseException:
            undo()
            raise
        chosen_round(self.brain, wanted, chosen, ahead)

    def _normalize(self, reached: Iterable[str]) -> None:
        """What a round of `Brain` begins with."""
        for name in reached:
            if self.brain.areas[name].options["normalize"]:
                self.brain.normalize(name)

    def _receive(
        self, pairs: list[tuple[str, str]], targets: Iterable[str], keep: bool = True
    ) -> dict[str, tuple[Tensor, int]]:
        """What areas receive in the round to come, normalised already, and what a loss will want to know of it."""
        arrived = {}
        for name in targets:
            sources = [source for source, target in pairs if target == name]
            inputs, bits = arrived[name] = received(self.brain, name, sources)
            if keep:
                self._received[name] = inputs.double() / 2.0**bits
        return arrived

    # Losses are computed after a round without gradients or in inference mode, too.
    @torch.inference_mode(False)
    @torch.enable_grad()
    def _checked(self, external_inputs: Any) -> dict[str, Tensor]:
        """The external inputs, on the device, for losses as copies in their graph; raises before any change."""
        if not isinstance(external_inputs, Mapping):
            raise TypeError(
                f"project: external_inputs must be a mapping of areas to tensors, got {type(external_inputs).__name__}"
            )
        given = {}
        for name, external in external_inputs.items():
            n = self.brain.areas[checks.declared("project", "area", name, self.brain.areas)].n
            external = checks.tensor("project", f"external input of {name!r}", external)
            others = external.is_complex() or external.is_nested or external.is_meta
            if others or external.layout != torch.strided:
                what = {"complex": external.is_complex(), "nested": external.is_nested, "meta": external.is_meta}
                kind = next((name for name, is_so in what.items() if is_so), external.layout)
                raise TypeError(f"project: external input of {name!r} must be a real dense tensor, got {kind}")
            if external.shape != (n,):
                raise ValueError(
                    f"project: external input of {name!r} must have shape [{n}], got {list(external.shape)}"
                )
            # A copy: the next call may repeat what was given, whatever the caller has written there since.
            given[name] = external.to(self.brain.device, copy=True)
        return given

    def _external(self, area: str, given: Tensor | None) -> Tensor | None:
        """The external input with the bias, in the precision of both; None where there is neither."""
        bias = self._bias(area)
        if bias is not None and (given is not None or bool(bias.any())):
            given = bias if given is None else given + bias
        if given is None:
            return None
        external = given.to(self._dtype)
        largest = float(external.detach().abs().max())
        if not largest <= LARGEST:
            raise ValueError(
                f"project: external input and bias of {area!r} must be finite and at most 2^20 in {self.precision}, "
                f"got {largest}"
            )
        return external

    def _bias(self, area: str) -> nn.Parameter | None:
        """Biases stand in the order in which areas were declared; None before there is one."""
        return dict(zip(self.brain.areas, self.biases, strict=False)).get(area)

    @locked
    def _select_winners(self, inputs: Tensor | None = None, k: int | None = None) -> Tensor | dict[str, Tensor]:
        """The indices of the k largest inputs ``[..., n]``; without arguments, of what the next round would bring.

        That is a round with the projections of the last call and without external inputs or biases, as if no area were
        fixed; nothing changes.
        """
        if inputs is not None:
            inputs = checks.tensor("_select_winners", "inputs", inputs)
            count = checks.integer("_select_winners", "k", k, least=0, most=inputs.shape[-1], limit="n")
            winners: Tensor = _ops.k_winners(inputs, count)[1]
            return winners
        pairs = open_pairs(self.brain, self._projections)
        reached = dict.fromkeys(target for _, target in pairs)
        undo = undoing(self.brain)
        try:
            self._normalize(reached)
            arrived = self._receive(pairs, reached, keep=False)
        finally:
            undo()
        return {name: choose(self.brain, name, inputs) for name, (inputs, _) in arrived.items()}

    @locked
    def _update_connectomes(self, projections: Projections | None = None) -> None:
        """One step of plasticity from the present winners to the present winners, which stay.

        Args:
            projections: ``{source: [targets]}``; those of the last `project` by default.
        """
        wanted = self._projections if projections is None else projections
        areas = self.brain.areas
        wanted = checks.projections("_update_connectomes", "projections", wanted, areas, areas, "area")
        pairs = open_pairs(self.brain, wanted)
        for name in silent(self.brain, dict.fromkeys(name for pair in pairs for name in pair)):
            raise ValueError(f"_update_connectomes: area must have winners, got none in {name!r}")
        free = [name for name in dict.fromkeys(target for _, target in pairs) if not areas[name].fixed]
        try:
            for name in free:
                self.brain.fix_assembly(name)
            self.brain.project({}, wanted)
        finally:
            for name in free:
                self.brain.unfix_assembly(name)
