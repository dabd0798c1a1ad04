"""Programs of assemblies, each a module with a brain of its own: what they share, and memories of sequences."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from torch_hrr._checks import brief, integer, listed, named
from torch_hrr._progress import Progress, interrupts_held_back, ticking
from torch_hrr._repr import DescribedModule
from torch_hrr._shared import CopiedWhole, Shared, locked
from torch_hrr._spec import Bool, Device, Instance, Int, Real, Seed, takes
from torch_hrr.assembly._checkpoint import described, unchanged_by_errors
from torch_hrr.assembly._network import inhibited
from torch_hrr.assembly.brain import Brain
from torch_hrr.io import Saveable

Label = str | int
# The share of an assembly by which it is known again.
_KNOWN = 0.5


class Program(CopiedWhole, Shared, Saveable, DescribedModule):
    """A module with a brain, and the assemblies that stand for labels in it.

    Its state and its files hold the brain, so that what was saved goes on where it was. Threads may share one: calls
    run one at a time.

    Attributes:
        brain: The `Brain`, for monitors and to look into.
    """

    _reads_values = True
    _has_modes = False
    _area: ClassVar[str]
    """The area of the assemblies."""

    def __init__(self, brain: Brain) -> None:
        """Around a brain with its areas."""
        super().__init__()
        self.brain = brain
        self._assemblies: dict[Label, Tensor] = {}

    def _settings(self) -> dict[str, Any]:
        raise NotImplementedError

    def _of_brain(self) -> dict[str, Any]:
        """Settings of the brain, the seed as text, since other readers of JSON may not take integers of 64 bits."""
        batch = self.brain.batch
        # Files without a batch are what they always were.
        return {"seed": str(self.brain.seed), **({} if batch is None else {"batch": batch})}

    @classmethod
    def _from_settings(
        cls, settings: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | None, **options: Any
    ) -> Self:
        make: Any = cls
        made: Self = make(**{**settings, "seed": int(settings["seed"])}, device=device)
        return made

    def _summary(self) -> dict[str, Any]:
        return self._settings() | {"seed": self.brain.seed}

    def _learned(self) -> dict[str, Any]:
        """What is known beside brain and assemblies, and changes."""
        return {}

    @classmethod
    def _areas(cls, settings: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        """Neurons and winners of the areas."""
        raise NotImplementedError

    @classmethod
    def _stimuli(cls, settings: Mapping[str, Any], labels: int) -> dict[str, int]:
        """The stimuli and their sizes, where there are so many assemblies."""
        raise NotImplementedError

    @locked
    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, config = self.brain._content()
        held = {f"assembly.{i}": each.cpu() for i, each in enumerate(self._assemblies.values())}
        own = self._settings() | self._learned()
        return {**tensors, **held}, {**own, "labels": list(self._assemblies), "brain": config}

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        settings = dict(metadata)
        config, labels = settings.pop("brain"), settings.pop("labels")
        held = {**metadata, "assemblies": [tensors[f"assembly.{i}"] for i in range(len(labels))]}
        rest = {name: value for name, value in tensors.items() if not name.startswith("assembly.")}
        brain = Brain._from_content(rest, config, device)
        # Before anything is made that the file does not hold.
        cls._check_areas(settings, {name: (area.n, area.k) for name, area in brain.areas.items()})
        if not cls._stimuli(settings, len(labels)).items() <= brain.stimuli.items():
            raise ValueError(f"stimuli of a {cls.__name__}")
        made = cls._from_settings(settings, tensors, brain.device)
        own = made.brain
        if (brain.p, brain.seed, brain.mode, brain.batch) != (own.p, own.seed, own.mode, own.batch):
            raise ValueError(f"a brain of p {own.p} and seed {own.seed}, got {brain.p} and {brain.seed}")
        made.brain, made._assemblies = brain, made._checked("load", held)
        return made

    def _checked(self, op: str, state: Mapping[str, Any]) -> dict[Label, Tensor]:
        """Copies of the assemblies of a state on the brain's device, by label."""
        n, k = self._areas(self._settings())[self._area]
        shape = (k,) if self.brain.batch is None else (self.brain.batch, k)
        known = read_labels(op, "labels", state["labels"]) if state["labels"] else []
        held = listed(op, "assemblies", state["assemblies"], "a list of tensors")
        if len(held) != len(known):
            raise ValueError(f"{op}: assemblies must be one for each of {len(known)} labels, got {len(held)}")
        for each in held:
            fits = isinstance(each, Tensor) and each.dtype == torch.int64 and each.shape == shape
            if not (fits and each.min() >= 0 and each.max() < n and bool((each.diff() > 0).all())):
                raise ValueError(f"{op}: assemblies must be {k} of {n} neurons, ascending, got {brief(each)}")
        return {label: each.to(self.brain.device, copy=True) for label, each in zip(known, held, strict=True)}

    @classmethod
    def _check_areas(cls, settings: Mapping[str, Any], found: Mapping[str, tuple[int, int]]) -> None:
        """ValueError unless the areas of a brain are the program's; a user may have added others."""
        if any(found.get(name) != sizes for name, sizes in cls._areas(settings).items()):
            raise ValueError(f"load_state_dict: areas must be {cls._areas(settings)}, got {brief(found)}")

    @classmethod
    def _resolved(cls, device: torch.device | str | int | None) -> torch.device | None:
        return super()._resolved("cpu" if device is None else device)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        if f"{prefix}_extra_state" in state_dict:
            self._taken(state_dict[f"{prefix}_extra_state"])
        if isinstance(config := state_dict.get(f"{prefix}brain._extra_state"), Mapping):
            with described():
                areas = {name: (area["n"], area["k"]) for name, area in config["areas"]}
                stimuli = [*map(tuple, config["stimuli"])]
            self._check_areas(self._settings(), areas)
            own = self.brain
            if [*own.areas] != [*areas] or [*own.stimuli.items()] != stimuli:
                # What was presented is the state's own affair; a brain without areas takes what it declares.
                self.brain = Brain(own.p, own.seed, device=own.device, batch=own.batch).train(own.training)
        super()._load_from_state_dict(state_dict, prefix, *args)

    @takes(state_dict=Instance(Mapping), strict=Bool(), assign=Bool())
    @locked
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As of any module, but after an error the program is unchanged."""
        module: Any = super()
        with unchanged_by_errors(self, "brain"):
            return module.load_state_dict(state_dict, strict=strict, assign=assign)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        moved: Any = super()
        moved._apply(fn, recurse)
        self._assemblies = {label: each.to(self.brain.device) for label, each in self._assemblies.items()}
        return self

    def get_extra_state(self) -> dict[str, Any]:
        """The settings, which a state must share with its module, and the assemblies by label."""
        held = {"labels": list(self._assemblies), "assemblies": list(self._assemblies.values())}
        return {"settings": self._settings(), **self._learned(), **held}

    def set_extra_state(self, state: Any) -> None:
        """Takes the assemblies of a state."""
        self._assemblies = self._taken(state)

    def _taken(self, state: Any) -> dict[Label, Tensor]:
        """The assemblies of a state; ValueError unless it is one of such a module."""
        op, own = "load_state_dict", self.get_extra_state()
        if not isinstance(state, Mapping) or state.keys() != own.keys():
            raise ValueError(f"{op}: _extra_state must hold {', '.join(own)}, got {brief(state)}")
        settings = state["settings"] if isinstance(state["settings"], Mapping) else {}
        for name in {**own["settings"], **settings}:
            value, found = own["settings"].get(name), settings.get(name)
            if found != value:
                raise ValueError(f"{op}: {name} must be {brief(value)}, got {brief(found)}")
        return self._checked(op, state)

    @contextlib.contextmanager
    def _resting(self) -> Iterator[None]:
        """Nothing is learned inside."""
        plastic = self.brain.plastic
        try:
            self.brain.disable_plasticity()
            yield
        finally:
            if plastic:
                self.brain.enable_plasticity()

    def _check_learning(self, op: str) -> None:
        if not (self.brain.training and self.brain.plastic):
            raise RuntimeError(f"{op}: brain must be in train mode and plastic, got one that does not learn")
        self._check_open(op)

    def _check_open(self, op: str) -> None:
        held = [name for name, area in self.brain._network.areas.items() if inhibited(area.locks)]
        for name in held:
            if name in self._areas(self._settings()):
                raise RuntimeError(f"{op}: areas must be open, got the lock of {name!r}")

    def _batched(self, brains: list[int]) -> list[int] | None:
        """As the brain takes them."""
        return None if self.brain.batch is None else brains

    def _known(self, labels: Sequence[Label], least: float = _KNOWN) -> list[Label | None]:
        """The label whose assembly the winners overlap most, of each brain, None below a share."""
        area = self.brain._network.areas[self._area]
        assemblies = torch.stack([self._assemblies[label] for label in labels]).view(len(labels), -1, area.k)
        fired = torch.zeros(self.brain.batch or 1, area.n, dtype=torch.bool, device=area.winners.device)
        fired.scatter_(1, area.winners, True)
        shares = fired.expand(len(labels), -1, -1).gather(2, assemblies).double().mean(-1)
        best = zip(shares.argmax(0).tolist(), shares.amax(0).tolist(), strict=True)
        return [labels[place] if share >= least else None for place, share in best]


class SequenceMemory(Program):
    """Remembers sequences of items: each item's assembly fires that of the next one.

    An item is a stimulus of k neurons. While a sequence is presented, each item fires for one round into an area that
    also fires into itself, so that its winners are linked with those of the item before. With a scaffold a second area
    fires back and forth with the first, and fewer repetitions do: at n = 2000, k = 50 and p = 0.1, three bring eight
    items back from the first, and four bring back 20, where six and seven are needed without one, in 14 to 16 of 16
    brains. Deterministic as `Brain`.

    Source: Dabagia, Papadimitriou, Vempala, Computation with sequences of assemblies in a model of the brain, Neural
    Computation 37(1), 2025.
    """

    file_format = "torch_hrr.assembly.SequenceMemory"
    _area = "A"

    @takes(
        n=Int(1), k=Int(1), p=Real(0, 1), beta=Real(0), scaffold=Bool(), seed=Seed(), device=Device(),
        batch=Int(1).or_none(),
    )  # fmt: skip
    def __init__(
        self,
        n: int = 10_000,
        k: int = 100,
        p: float = 0.05,
        beta: float = 0.1,
        scaffold: bool = False,
        seed: int = 0,
        *,
        device: torch.device | str | int | None = "cpu",
        batch: int | None = None,
    ) -> None:
        """An empty memory.

        Args:
            n: Neurons of an area.
            k: Winners, at most n; also the size of the items' stimuli.
            p: Density of the connectome.
            beta: Plasticity.
            scaffold: Whether there is a second area.
            seed: Seed of the brain, any int, modulo 2^64.
            device: As for `Brain`.
            batch: Number of independent memories, each with a brain of its own, as for `Brain`.
        """
        self._n, self._k, self._beta, self._scaffold = n, k, beta, scaffold
        with named("Brain", "SequenceMemory"), named("add_area", "SequenceMemory"):
            brain = Brain(p, seed, device=device, batch=batch)
            for area in self._areas({"n": n, "k": k, "scaffold": scaffold}):
                brain.add_area(area, n, k, beta)
        super().__init__(brain)

    @classmethod
    def _areas(cls, settings: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        return dict.fromkeys(("A", "B")[: 1 + settings["scaffold"]], (settings["n"], settings["k"]))

    @classmethod
    def _stimuli(cls, settings: Mapping[str, Any], labels: int) -> dict[str, int]:
        return {f"item {number}": settings["k"] for number in range(labels)}

    def _settings(self) -> dict[str, Any]:
        own = {"n": self._n, "k": self._k, "p": self.brain.p, "beta": self._beta, "scaffold": self._scaffold}
        return own | self._of_brain()

    def _summary(self) -> dict[str, Any]:
        return super()._summary() | {"items": len(self._assemblies)}

    @property
    def items(self) -> list[Label]:
        """All items that were ever presented, in the order in which they came first."""
        return list(self._assemblies)

    @locked
    def present(self, items: Sequence[Label], repetitions: int = 10, progress: Progress = None) -> Self:
        """Presents a sequence several times, each time from rest.

        Items that are known already keep their stimulus: a later sequence through one of them competes with the
        earlier one for what follows it. Ctrl-C ends the call between two rounds, and what came before stays.

        Args:
            items: Strings or ints, all different.
            repetitions: How often.
            progress: As for `Brain.project`, counting repetitions.

        Raises:
            TypeError: ``items`` is no list of strings and ints, or ``repetitions`` no int.
            ValueError: An item is given twice, or ``repetitions`` is less than 1.
            RuntimeError: In eval mode, without plasticity, or with a lock on an area, since nothing would be learned.

        Cost: A round for each item and repetition, which takes longer the more neurons ever won (with the default
        sizes 1.5 times as long for 300 items as for 10, and no longer for 1000); memory for 4 n bytes an item, 4 bytes
        an item for each neuron that ever won, and the synapses that grow.
        """
        op, brain = "present", self.brain
        given, repetitions = read_labels(op, "items", items), integer(op, "repetitions", repetitions, 1)
        tick = ticking(op, progress)
        self._check_learning(op)
        numbers = {item: number for number, item in enumerate(dict.fromkeys([*self._assemblies, *given]))}
        for repetition in range(repetitions):
            self._clear()
            for place, item in enumerate(given):
                stimulus = f"item {numbers[item]}"
                with interrupts_held_back():
                    if stimulus not in brain._network.stimuli:
                        brain.add_stimulus(stimulus, self._k)
                    brain.project({stimulus: "A"}, self._fibers(place))
                    self._assemblies[item] = brain.winners("A")
            tick(repetition + 1, repetitions)
        return self

    @locked
    def recall(self, first: Label) -> list[Any]:
        """The sequence from an item on, which fires once: then the area alone goes on; of a batch a list of them.

        Ends where the winners overlap no item's assembly by half, or where an item comes again. Nothing is learned.

        Raises:
            TypeError: ``first`` is neither a str nor an int.
            ValueError: ``first`` was never presented.
            RuntimeError: With a lock on an area.

        Cost: A round for each item.
        """
        first = read_label("recall", "first", first, "a str or an int")
        if first not in self._assemblies:
            raise ValueError(f"recall: first must be an item that was presented, got {brief(first)}")
        self._check_open("recall")
        brain, items = self.brain, self.items
        found = [[first] for _ in range(brain.batch or 1)]
        going = [*range(len(found))]
        with self._resting():
            self._clear()
            brain.project({f"item {items.index(first)}": "A"})
            for place in range(1, len(items)):
                brain.project(areas=self._fibers(place), brains=self._batched(going))
                known = self._known(items)
                going = [number for number in going if known[number] not in (None, *found[number])]
                if not going:
                    break
                for number in going:
                    found[number] += [known[number]]
        return found[0] if brain.batch is None else found

    def _clear(self) -> None:
        for area in self.brain.areas:
            self.brain.clear(area)

    def _fibers(self, place: int) -> dict[str, list[str]]:
        """What fires into what beside an item: nothing with the first, and the scaffold from the third on."""
        if place == 0:
            return {}
        if not self._scaffold:
            return {"A": ["A"]}
        return {"A": ["A", "B"]} if place == 1 else {"A": ["A", "B"], "B": ["A", "B"]}


def read_label(op: str, argument: str, given: Any, wanted: str = "strings or ints") -> Label:
    """A str or an int of Python's; NumPy's are such, bools and floats are not, though they may equal an int."""
    if isinstance(given, str):
        return str(given)
    try:
        return integer(op, argument, given)
    except TypeError:
        raise TypeError(f"{op}: {argument} must be {wanted}, got {brief(given)}") from None


def read_labels(op: str, argument: str, given: Any) -> list[Label]:
    """Different strings or ints, at least one."""
    labels = [read_label(op, argument, each) for each in listed(op, argument, given, "a list of strings or ints")]
    if not labels or len(set(labels)) < len(labels):
        raise ValueError(f"{op}: {argument} must be different and at least one, got {brief(labels)}")
    return labels
