"""Machines of assemblies: finite state machines and probabilistic ones, whose transitions are assemblies."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from torch_hrr._checks import brief, check_bool, integer, is_bool, listed, named, number
from torch_hrr._plain.assembly_connectome import connectome_key
from torch_hrr._plain.random import philox4x32
from torch_hrr._progress import Progress, ticking
from torch_hrr._shared import locked
from torch_hrr._spec import Device, Int, Real, Seed, takes
from torch_hrr.assembly._checkpoint import unchanged_by_errors
from torch_hrr.assembly._network import fiber_id, inhibited
from torch_hrr.assembly.brain import Brain
from torch_hrr.assembly.programs import Label, Program, read_label, read_labels

# The share of two states' assemblies from which on they are one and the same.
_ALIKE = 0.9
# Rounds in which a state forms, and plasticities: of states, of arcs, and of what leads from arcs to states.
_FORMING, _OF_STATES, _OF_ARCS, _TO_STATES = 10, 0.1, 3.0, 2.0
# Limits the synapses from arcs to states, so that a neuron of two arcs counts no more than others.
_LARGEST = 27.0
# By how much of its first input an arc's neuron is refracted. It wins again with all of its sources while this is less
# than the plasticity of arcs. It does not with one of two sources, which may have given it three quarters, while this
# is more than 3/4 (1 + plasticity) - 5/8, nor with two of three.
_REFRACTION = 2.7
# Of a coin: the most faces, and neurons of a face. While several faces tie for most of the winners, those with more of
# the noise win more next, unless all have the same number; of a prime number of winners they never do, unless each
# has one, which 47 neurons of 100 faces have in one of 10^5 flips.
_FACES, _FACE = 100, 47
# Rounds in which one face wins all; four are too few in about one of 10^4 flips.
_SETTLING = 8
_NOISE_BITS = 24


class FiniteStateMachine(Program):
    """A finite state machine whose transitions are assemblies.

    A state is an assembly of the area "state", a symbol a stimulus of k neurons. A state and a symbol that fire
    together into the area "arc" give the assembly of their transition, which fires into the next state. Arcs form in
    one round of strong plasticity, and their neurons are refracted, so that no two arcs share more than a few of them:
    a neuron that won wins again with both its state and its symbol, but not with one of them and another one.
    Deterministic as `Brain`.

    ::

        parity = FiniteStateMachine(["even", "odd"], [0, 1], {("even", 1): "odd", ("odd", 1): "even",
                                                              ("even", 0): "even", ("odd", 0): "odd"})
        parity.train(3).run([1, 0, 1, 1])  # "odd"

    Source: Dabagia, Papadimitriou, Vempala, Computation with sequences of assemblies in a model of the brain, Neural
    Computation 37(1), 2025.
    """

    file_format = "torch_hrr.assembly.FiniteStateMachine"
    _area = "state"
    _sources: ClassVar[int] = 2
    """What fires into an arc: a state, a symbol."""

    @takes(seed=Seed(), n=Int(1), k=Int(1), p=Real(0, 1, open_left=True), device=Device(), batch=Int(1).or_none())
    def __init__(
        self,
        states: Sequence[Label],
        symbols: Sequence[Label],
        transitions: Mapping[tuple[Label, Label], Label],
        seed: int = 0,
        *,
        n: int = 10_000,
        k: int = 100,
        p: float = 0.1,
        device: torch.device | str | int | None = "cpu",
        batch: int | None = None,
    ) -> None:
        """An untrained machine.

        Args:
            states: Strings or ints; the first is the one that it starts in.
            symbols: Strings or ints.
            transitions: ``{(state, symbol): next state}``; need not be complete.
            seed: Seed of the brain, any int, modulo 2^64.
            n: Neurons of the states: with 40 k, or 3 k for each state if that is more, they keep apart, tried up to 60.
                The area of arcs has at least 4 k for each of them.
            k: Winners, at most n; also the size of the symbols' stimuli.
            p: Density of the connectome; k p should be 5 or more.
            device: As for `Brain`.
            batch: Number of independent machines, each with a brain of its own, as for `Brain`: a word for each.

        Raises:
            TypeError: Labels are neither strings nor ints, or ``transitions`` is no such mapping.
            ValueError: A label is given twice, or a transition names an unknown one, or there is none.
        """
        op = type(self).__name__
        self._states, self._symbols = read_labels(op, "states", states), read_labels(op, "symbols", symbols)
        self._transitions = self._checked_table(op, transitions)
        self._n, self._k, self._presentations = n, k, 0
        sizes = {"n": n, "k": k, "states": self._states, "symbols": self._symbols, "transitions": self._rows()}
        with named("Brain", op), named("add_area", op):
            brain = Brain(p, seed, device=device, batch=batch)
            brain.add_area("state", n, k, _OF_STATES)
            arcs, _ = self._areas(sizes)["arc"]
            # The least input of a winner when all sources fire into fresh neurons.
            firing = self._sources * k
            mean, spread = firing * p, math.sqrt(firing * p * (1 - p))
            least = mean + statistics.NormalDist().inv_cdf(1 - k / arcs) * spread
            brain.add_area("arc", arcs, k, _OF_ARCS, refracted=_REFRACTION * least, w_max=1 + _OF_ARCS)
        brain.connect("arc", "state", beta=_TO_STATES, w_max=_LARGEST)
        for stimulus, size in self._stimuli(sizes, 0).items():
            brain.add_stimulus(stimulus, size)
        super().__init__(brain)
        self._arcs = self._made_arcs()

    @classmethod
    def _areas(cls, settings: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        n, k = settings["n"], settings["k"]
        return {"state": (n, k), "arc": (max(n, 4 * k * len(settings["transitions"])), k)}

    @classmethod
    def _stimuli(cls, settings: Mapping[str, Any], labels: int) -> dict[str, int]:
        kinds = ("state", "symbol")
        return {f"{kind} {place}": settings["k"] for kind in kinds for place in range(len(settings[f"{kind}s"]))}

    def _checked_table(self, op: str, transitions: Any) -> dict[tuple[Label, Label], dict[Label, float]]:
        """The next states of a state and a symbol, with their probabilities."""
        if not isinstance(transitions, Mapping):
            raise TypeError(f"{op}: transitions must be a mapping, got {type(transitions).__name__}")
        if not transitions:
            raise ValueError(f"{op}: transitions must not be empty")
        table = {}
        known = {"state": {*self._states}, "symbol": {*self._symbols}}
        for pair, given in transitions.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"{op}: transitions must be from pairs of a state and a symbol, got {brief(pair)}")
            state, symbol = (read_label(op, "transitions", each) for each in pair)
            following = self._following(op, given)
            for kind, label in (("state", state), ("symbol", symbol), *(("state", each) for each in following)):
                if label not in known[kind]:
                    raise ValueError(f"{op}: transitions must be of known labels, got the {kind} {brief(label)}")
            table[state, symbol] = following
        return table

    def _following(self, op: str, given: Any) -> dict[Label, float]:
        return {read_label(op, "transitions", given): 1.0}

    def _made_arcs(self) -> dict[tuple[Label, Label, int], Label]:
        """The next state of every arc: by its state, its symbol and the coin's side."""
        return {(*pair, 0): state for pair, following in self._transitions.items() for state in following}

    def _rows(self) -> list[list[Any]]:
        """The transitions as files hold them, and back."""
        return [[*pair, *following] for pair, following in self._transitions.items()]

    @classmethod
    def _of_rows(cls, rows: Iterable[Any]) -> dict[tuple[Label, Label], Any]:
        return {(state, symbol): following for state, symbol, following in rows}

    def _settings(self) -> dict[str, Any]:
        own = {"states": self._states, "symbols": self._symbols, "transitions": self._rows(), "n": self._n}
        return own | {"k": self._k, "p": self.brain.p, **self._of_brain()}

    def _learned(self) -> dict[str, Any]:
        return {"presentations": self._presentations}

    def _take(self, learned: Mapping[str, Any]) -> None:
        self._presentations = learned["presentations"]

    @classmethod
    def _from_settings(
        cls, settings: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | None, **options: Any
    ) -> Self:
        given = {name: value for name, value in settings.items() if name not in ("presentations", "flips")}
        given["transitions"] = cls._of_rows(given["transitions"])
        made = super()._from_settings(given, tensors, device)
        made._take(made._learned() | settings)
        return made

    def _checked(self, op: str, state: Mapping[str, Any]) -> dict[Label, Tensor]:
        found = super()._checked(op, state)
        presentations = integer(op, "presentations", state["presentations"], 0)
        if [*found] != (self._states if presentations else []):
            raise ValueError(f"{op}: labels must be those of the states, got {brief(state['labels'])}")
        return found

    def set_extra_state(self, state: Any) -> None:
        """Takes the assemblies of a state, and how often its transitions were presented."""
        super().set_extra_state(state)
        self._take(state)

    def _summary(self) -> dict[str, Any]:
        return super()._summary() | {"transitions": len(self._transitions), "presentations": self._presentations}

    @locked
    def train(  # type: ignore[override]
        self, presentations: Any = 3, progress: Progress = None, *, mode: bool | None = None
    ) -> Self:
        """Presents every transition ``presentations`` times; of a bool, train mode as of any module.

        The first presentation forms the arcs. Each makes the synapses from arcs to next states three times as strong,
        up to 27 times. What an error or Ctrl-C ends in the middle of a presentation counts as not begun.

        Args:
            presentations: How often, at least 1; after two the machine works.
            progress: As for `Brain.project`, counting presentations.
            mode: A bool sets train mode, as the first argument does, and nothing is presented.

        Raises:
            TypeError, ValueError: ``presentations`` is no such int, or ``mode`` no bool.
            ValueError: Two states get the same assembly, where n or k p is too small.
            RuntimeError: In eval mode, without plasticity, or with a lock on an area or fiber, since nothing, or other
                things, would be learned.

        Cost: Two rounds for each arc and presentation, and ten for each state.
        """
        op = "train"
        if mode is not None or is_bool(presentations):
            module: Any = super()
            module.train(check_bool(op, "mode", presentations if mode is None else mode))
            return self
        count = integer(op, "presentations", presentations, 1)
        tick = ticking(op, progress)
        self._check_learning(op)
        brain = self.brain
        for done in range(count):
            with unchanged_by_errors(self, "brain"):
                self._present(brain)
            tick(done + 1, count)
        return self

    def _present(self, brain: Brain) -> None:
        if not self._presentations:
            for place, state in enumerate(self._states):
                brain.clear("state")
                brain.project({f"state {place}": "state"}, {"state": "state"}, rounds=_FORMING)
                for other in self._known([*self._assemblies], _ALIKE) if place else []:
                    if other is not None:
                        got = f"one for {other!r} and {state!r} with n {self._n}, k {self._k} and p {brain.p}"
                        raise ValueError(f"train: states must have different assemblies, got {got}")
                self._assemblies[state] = brain.winners("state")
            for arc in self._arcs:
                self._fire(*arc)
        for arc, following in self._arcs.items():
            with self._resting():
                self._fire(*arc)
            self._set(following)
            brain.project(areas={"arc": "state"})
            brain.unfix_assembly("state")
        self._presentations += 1

    def run(self, symbols: Sequence[Any]) -> Any:
        """The state after some symbols, from ``states[0]``, a list of them with a batch; errors as for `trace`."""
        found = self._traced("run", symbols)
        return found[-1] if self.brain.batch is None else [states[-1] for states in found]

    def trace(self, symbols: Sequence[Any]) -> list[Any]:
        """The states that symbols lead through, the first one too.

        Every state is read as the assembly that the winners overlap most, but goes on as these winners. Nothing is
        learned.

        Args:
            symbols: A word, a list of symbols; with a batch a list of words, one for each machine, of any lengths.

        Returns:
            Their states; with a batch a list of them for each word.

        Raises:
            TypeError: ``symbols`` is no list of strings and ints, or of as many such lists as there are machines.
            ValueError: A symbol is unknown, or there is no transition for a state and a symbol; before anything fires,
                unless a coin decides whether there is one.
            RuntimeError: Before `train`, with a lock on an area or fiber, or where winners overlap no state by half.

        Cost: Two rounds a symbol; of a batch in one call for all machines that read the same symbol.
        """
        return self._traced("trace", symbols)

    @locked
    def _traced(self, op: str, symbols: Sequence[Any]) -> list[Any]:
        brain = self.brain
        words = self._words(op, symbols)
        if not self._presentations:
            raise RuntimeError(f"{op}: machine must be trained, got one that is not")
        self._check_open(op)
        for word in words:
            self._check_path(op, word)
        found: list[list[Label]] = [[self._states[0]] for _ in words]
        with self._resting():
            # What a user fixed is not.
            brain.clear("state")
            brain.activate("state", self._assemblies[self._states[0]])
            for place in range(max(map(len, words))):
                reading = {number: word[place] for number, word in enumerate(words) if place < len(word)}
                for number, symbol in reading.items():
                    if (found[number][-1], symbol) not in self._transitions:
                        state = found[number][-1]
                        raise ValueError(f"{op}: transitions must lead from {state!r} with {symbol!r}, got none")
                self._flip([*reading])
                for symbol in dict.fromkeys(reading.values()):
                    self._arc(symbol, [number for number, own in reading.items() if own == symbol])
                brain.project(areas={"arc": "state"}, brains=self._batched([*reading]))
                states = self._known(self._states)
                for number in reading:
                    state_now = states[number]
                    if state_now is None:
                        got = f"others after {brief(found[number])}"
                        raise RuntimeError(f"{op}: winners must be those of a state, got {got}")
                    found[number].append(state_now)
        return found[0] if brain.batch is None else found

    def _check_path(self, op: str, word: list[Label]) -> None:
        """ValueError, before winners change, for a word that leads through no states; with a coin some may do."""
        reached = [self._states[0]]
        for symbol in word:
            following = [self._transitions.get((state, symbol), {}) for state in reached]
            if not any(following):
                states = " or ".join(map(repr, reached))
                raise ValueError(f"{op}: transitions must lead from {states} with {symbol!r}, got none")
            reached = [*dict.fromkeys(state for each in following for state in each)]

    def _words(self, op: str, symbols: Any) -> list[list[Label]]:
        """The word of every machine."""
        words, batch = [symbols], self.brain.batch
        if batch is not None:
            words = listed(op, "symbols", symbols, f"a list of {batch} words")
            if len(words) != batch:
                raise ValueError(f"{op}: symbols must be {batch} words, got {len(words)}")
        read = []
        for word in words:
            own = [read_label(op, "symbols", each) for each in listed(op, "symbols", word, "a list of symbols")]
            for symbol in own:
                if symbol not in self._symbols:
                    raise ValueError(f"{op}: symbols must be known, got {brief(symbol)}")
            read.append(own)
        return read

    def _flip(self, brains: list[int]) -> None:
        """Flips the coin of some machines, if there is one."""

    def _fire(self, state: Label, symbol: Label, side: int = 0) -> None:
        self._set(state)
        self._arc(symbol)

    def _set(self, state: Label) -> None:
        self.brain.activate("state", self._assemblies[state])
        self.brain.fix_assembly("state")

    def _arc(self, symbol: Label, brains: list[int] | None = None) -> None:
        which = None if brains is None else self._batched(brains)
        self.brain.clear("arc", which)
        sources = ("state", "side")[: self._sources - 1]
        stimulus = f"symbol {self._symbols.index(symbol)}"
        self.brain.project({stimulus: "arc"}, dict.fromkeys(sources, "arc"), brains=which)

    def _check_open(self, op: str) -> None:
        # Without a fiber other states would follow, and look right.
        super()._check_open(op)
        for pair, locks in self.brain._network.locks.items():
            if inhibited(locks) and {*pair} <= {*self._areas(self._settings())}:
                raise RuntimeError(f"{op}: fibers must be open, got the lock of {pair}")


class ProbabilisticMachine(FiniteStateMachine):
    """A probabilistic finite state machine, whose noisy neurons decide between next states; one symbol: a Markov chain.

    The area "coin" has up to 100 faces of 47 neurons each, those of a face excite one another, and 47 win. For every
    symbol that is read, noise into each of its neurons, numbers that are independent and alike in distribution, sets
    its first winners, and the face that has most of them soon has all: each face as often as any other, exactly, since
    nothing but the noise tells them apart. Faces are wired to the sides of the coin in shares that the probabilities
    give: a side is k neurons of the area "side". A state, a symbol and a side fire together into the area "arc", as in
    a `FiniteStateMachine`, which gives the assembly that fires into the next state.

    So a next state has the share of the faces that lead to it as its probability. That is the given one where all
    probabilities of a machine are multiples of 1 / faces for some number of faces up to 100, as .5, .25 or .1, .3, .6
    are, or 1 / 3 and 1 / 2; else cumulative ones are rounded to hundredths. The arc of a side failed in 2 of 1440 steps
    at k p = 5, of machines of 4 to 48 arcs, and in none of 1800 at 6 and 10.

    The noise is Philox4x32-10 by the seed, the number of the brain in its batch and the number of symbols that the
    machine ever read, its flips, which its state and files hold: another run gives other states, what is saved goes on
    with the same ones, copies too, and machines of other seeds differ. Deterministic as `Brain` in all else.

    ::

        weather = ProbabilisticMachine(["sun", "rain"], ["day"], {("sun", "day"): {"sun": 0.8, "rain": 0.2},
                                                                  ("rain", "day"): {"sun": 0.5, "rain": 0.5}})
        weather.train(3).trace(["day"] * 7)

    Source: Dabagia, Mitropolsky, Papadimitriou, Vempala, Coin-flipping in the brain: statistical learning with neuronal
    assemblies, 2024, for noise that recurrent synapses amplify; there synapses that learn set the probabilities.
    """

    file_format = "torch_hrr.assembly.ProbabilisticMachine"
    _sources = 3

    def __init__(
        self,
        states: Sequence[Label],
        symbols: Sequence[Label],
        transitions: Mapping[tuple[Label, Label], Mapping[Label, float]],
        seed: int = 0,
        *,
        n: int = 10_000,
        k: int = 100,
        p: float = 0.1,
        device: torch.device | str | int | None = "cpu",
        batch: int | None = None,
    ) -> None:
        """An untrained machine.

        Args:
            states: Strings or ints; the first is the one that it starts in.
            symbols: Strings or ints.
            transitions: ``{(state, symbol): {next state: probability}}``; need not be complete. Those of a state and a
                symbol sum to 1.
            seed: Seed of the brain, any int, modulo 2^64.
            n: Neurons of the states, 40 k, or 3 k for each state if that is more. The area of arcs has at least 4 k for
                each of them. There is one for each transition and side: sides are as many as there are different
                cumulative probabilities.
            k: Winners, at most n; also of a side, and the size of the symbols' stimuli.
            p: Density of the connectome; k p should be 5 or more.
            device: As for `Brain`.
            batch: Number of independent machines, each with a brain and noise of its own: a word for each.

        Raises:
            TypeError: Labels are neither strings nor ints, or ``transitions`` is no such mapping.
            ValueError: A label is given twice, or a transition names an unknown one, or there is none; probabilities do
                not sum to 1, or one above 0 is rounded to 0.
        """
        super().__init__(states, symbols, transitions, seed, n=n, k=k, p=p, device=device, batch=batch)  # type: ignore[arg-type]
        brain, self._flips = self.brain, [0] * (self.brain.batch or 1)
        faces, sides = self._faces(self._rows())
        neurons = torch.arange(faces * _FACE, device="cpu").view(faces, _FACE)
        for area, sizes in self._areas(self._settings()).items():
            if area in ("coin", "side"):
                brain.add_area(area, *sizes, beta=0)
        within = torch.stack([neurons.repeat_interleave(_FACE, 1), neurons.repeat(1, _FACE)]).flatten(1)
        # Noise is less than one synapse.
        brain.connect("coin", "coin", edges=_graph(within, 2.0**_NOISE_BITS, (faces * _FACE, faces * _FACE)))
        places = torch.arange(k, device="cpu")
        side = torch.bucketize(torch.arange(1, faces + 1, device="cpu"), torch.tensor(sides, device="cpu"))
        wired = torch.stack([neurons[:, places % _FACE], side.unsqueeze(1) * k + places]).flatten(1)
        brain.connect("coin", "side", edges=_graph(wired, 1.0, (faces * _FACE, len(sides) * k)))

    @classmethod
    def _faces(cls, rows: Sequence[Any]) -> tuple[int, list[int]]:
        """The least number of faces that gives the probabilities, at most 100, and how many each side ends with."""
        sums = [total for *_, following in rows for total in itertools.accumulate(share for _, share in following)]
        fits = (n for n in range(1, _FACES) if all(abs(n * total - round(n * total)) < 1e-6 for total in sums))
        faces = next(fits, _FACES)
        return faces, sorted({round(faces * total) for total in sums} - {0})

    @classmethod
    def _areas(cls, settings: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        n, k, rows = settings["n"], settings["k"], settings["transitions"]
        faces, sides = cls._faces(rows)
        own = {"coin": (faces * _FACE, _FACE), "side": (len(sides) * k, k)}
        return {"state": (n, k), "arc": (max(n, 4 * k * len(rows) * len(sides)), k), **own}

    @classmethod
    def _stimuli(cls, settings: Mapping[str, Any], labels: int) -> dict[str, int]:
        return {**super()._stimuli(settings, labels), "noise": 1}

    def _following(self, op: str, given: Any) -> dict[Label, float]:
        if not isinstance(given, Mapping):
            raise TypeError(f"{op}: transitions must be to mappings of states to probabilities, got {brief(given)}")
        read = {
            read_label(op, "transitions", state): number(op, "probability", share, 0, 1)
            for state, share in given.items()
        }
        if not math.isclose(sum(read.values()), 1, abs_tol=1e-6):
            raise ValueError(f"{op}: probabilities must sum to 1, got {brief(dict(given))}")
        return read

    def _made_arcs(self) -> dict[tuple[Label, Label, int], Label]:
        arcs = {}
        faces, sides = self._faces(self._rows())
        for pair, following in self._transitions.items():
            ends = [round(faces * total) for total in itertools.accumulate(following.values())]
            for (state, share), begin, end in zip(following.items(), [0, *ends], ends, strict=False):
                if share and begin == end:
                    raise ValueError(f"{type(self).__name__}: probabilities must not be rounded to 0, got {share}")
                arcs.update({(*pair, side): state for side, last in enumerate(sides) if begin < last <= end})
        return arcs

    def _rows(self) -> list[list[Any]]:
        return [[*pair, [[*each] for each in following.items()]] for pair, following in self._transitions.items()]

    @classmethod
    def _of_rows(cls, rows: Iterable[Any]) -> dict[tuple[Label, Label], Any]:
        return {(state, symbol): dict(following) for state, symbol, following in rows}

    def _learned(self) -> dict[str, Any]:
        return {**super()._learned(), "flips": list(self._flips)}

    def _take(self, learned: Mapping[str, Any]) -> None:
        super()._take(learned)
        self._flips = list(learned["flips"])

    def _checked(self, op: str, state: Mapping[str, Any]) -> dict[Label, Tensor]:
        flips = [integer(op, "flips", each, 0) for each in listed(op, "flips", state["flips"], "a list of ints")]
        if len(flips) != (self.brain.batch or 1):
            raise ValueError(f"{op}: flips must be {self.brain.batch or 1}, got {len(flips)}")
        return super()._checked(op, state)

    def _fire(self, state: Label, symbol: Label, side: int = 0) -> None:
        self.brain.activate("side", range(side * self._k, (side + 1) * self._k))
        super()._fire(state, symbol, side)

    def _flip(self, brains: list[int]) -> None:
        brain, which = self.brain, self._batched(brains)
        network = brain._network
        n = network.areas["coin"].n
        block = torch.arange(-(-n // 4), device="cpu")
        flip, own = (torch.tensor(of, device="cpu").unsqueeze(1) for of in ([self._flips[b] for b in brains], brains))
        words = philox4x32((block, flip & 2**32 - 1, flip >> 32, own), connectome_key(brain.seed, _NOISE))
        noise = torch.stack(words, -1).flatten(1)[:, :n] >> 32 - _NOISE_BITS
        for each in brains:
            self._flips[each] += 1
        counts = network.source("noise", "coin").counts
        counts[network.rows(brains)] = noise.to(counts)
        for area in ("coin", "side"):
            brain.clear(area, which)
        brain.project({"noise": "coin"}, {"coin": "coin"}, rounds=_SETTLING, brains=which)
        brain.project("coin", "side", brains=which)


# The fiber whose name the noise has.
_NOISE = fiber_id("stimulus", "noise", "coin")


def _graph(edges: Tensor, weight: float, shape: tuple[int, int]) -> Tensor:
    """Synapses of one weight, with their sources and targets."""
    weights = torch.full(edges.shape[1:], weight, dtype=torch.float32, device="cpu")
    return torch.sparse_coo_tensor(edges, weights, shape, device="cpu", check_invariants=True)
