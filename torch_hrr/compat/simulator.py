"""The calls of the published simulator of the assembly calculus, on `torch_hrr.assembly.Brain`.

A script only has to change its import, to ``from torch_hrr.assembly.simulator import Brain``. What differs:

- The random graph is exact. The published simulator draws a neuron's synapses when it first fires and numbers neurons
  in that order, so that its winners are 0, 1, 2, ... and new ones the next numbers; here winners are the indices of
  real neurons, in 0..n-1 and ascending. Code that counts or intersects winners sees no difference.
- An area that no stimulus or area has fired into has no winners, and only an area with winners can fire into another.
- The same seed gives other random numbers than NumPy's, and the same ones on every machine.
- ``connectomes`` and ``connectomes_by_stimulus`` are read-only views of the exact graph, of n by n neurons, generated
  as they are read: ``b.connectomes["A"]["B"][i, j]``, ``[i][j]``, ``[rows][:, columns]``.
- `Brain.project_into` runs a round and keeps its winners at once, and ``w`` of an explicit area is its support, not n.
- ``mode="sampled"`` draws synapses as the published simulator does, without views of the connectomes.

Source: Papadimitriou, Vempala, Mitropolsky, Collins, Maass, Brain computation by assemblies of neurons, PNAS 2020, and
Mitropolsky, Collins, Papadimitriou, A biologically plausible parser, TACL 2021, for the model; names as in their code.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import torch
from torch import Tensor

from torch_hrr import assembly
from torch_hrr._repr import Described
from torch_hrr._shared import CopiedWhole
from torch_hrr._spec import Bool, takes
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._views import AreaView, Views
from torch_hrr.compat._connectomes import Connectome, Weights, stimulus_views
from torch_hrr.runtime.device import resolve_device_or_cpu

__all__ = ["Area", "Brain", "overlap"]

Projections = Mapping[str, Iterable[str]]


class Winners(list[int]):
    """The winners of an area, ascending: a list that cannot be edited, as the area would not see the edit."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("winners: a list of winners must not be edited; assign a new one to area.winners")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = remove = pop = clear = sort = reverse = _refuse

    def __reduce__(self) -> Any:
        """Copies are plain lists."""
        return list, (list(self),)


class Betas(Views[str, float], MutableMapping[str, float]):
    """The plasticity of areas, or of stimuli, into one area; the area's own where none was set."""

    def __init__(self, brain: assembly.Brain, area: str, kind: str) -> None:
        """Makes those of the areas or the stimuli of a brain."""
        # Copies hold the copied brain: methods stand for the functions of other views.
        self._brain, self._area, self._kind = brain, area, kind
        self._wanted = f"beta_by_{kind}: {kind} must be declared"

    def _names(self) -> Mapping[str, Any]:
        return self._brain.areas if self._kind == "area" else self._brain.stimuli

    def _view(self, name: str) -> float:
        return self._brain.beta(name, self._area)

    def __setitem__(self, name: str, beta: float) -> None:
        """Sets the plasticity for later rounds."""
        self._set(f"beta_by_{self._kind}", self._kind, name, "beta", beta)

    def _set(self, op: str, argument: str, name: str, number: str, beta: float) -> None:
        """For a call of this name, with these names of its arguments."""
        checks.declared(op, argument, name, self._names())
        self._brain.set_beta(name, self._area, checks.number(op, number, beta, least=0))

    def __delitem__(self, name: str) -> NoReturn:
        """Refused: every area and stimulus has one."""
        raise TypeError(f"beta_by_{self._kind}: an entry must not be deleted; assign the area's beta")


def _shown(path: str) -> Any:
    """A property that cannot be assigned: what stands under this path."""

    def read(self: Any) -> Any:
        return operator.attrgetter(path)(self)

    return property(read)


def _flag(name: str) -> Any:
    """A property that is a bool."""

    def write(self: Any, value: bool) -> None:
        self._flags[name] = checks.check_bool(name, name, value)

    return property(lambda self: self._flags[name], write)


class Area(Described):
    """An area of a `Brain` of this module; the brain makes it.

    Attributes:
        name: its name.
        explicit: whether it was made by `Brain.add_explicit_area`.
        n: how many neurons it has.
        k: how many win.
        beta: the default plasticity of fibers into it.
        num_ever_fired: how many neurons ever won.
        beta_by_stimulus: plasticity of stimuli into it, by name; assignments take effect from the next round.
        beta_by_area: plasticity of areas into it, likewise.
        saved_w: ``w`` after each projection into it, where the brain's `save_size` is set.
        saved_winners: the winners after each projection into it, where `save_winners` is set.
        num_first_winners: how many of the last winners had never won before; -1 before the first projection.
    """

    name, explicit = _shown("_name"), _shown("_explicit")
    beta_by_stimulus, beta_by_area = _shown("_beta_by_stimulus"), _shown("_beta_by_area")
    n, k, beta, num_ever_fired = _shown("_view.n"), _shown("_view.k"), _shown("_view.beta"), _shown("_view.support")

    def __init__(self, brain: assembly.Brain, name: str, explicit: bool) -> None:
        """See the class."""
        self._brain = brain
        self._unseen = 0
        self._name = name
        self._explicit = explicit
        self._view = AreaView(brain, name)
        self._beta_by_stimulus, self._beta_by_area = Betas(brain, name, "stimulus"), Betas(brain, name, "area")
        self.saved_w: list[int] = []
        self.saved_winners: list[list[int]] = []
        self.num_first_winners = -1

    def _summary(self) -> dict[str, Any]:
        own = {"explicit": self._explicit, "num_first_winners": self.num_first_winners}
        return self._view._summary() | own

    @property
    def winners(self) -> list[int]:
        """The neurons that fire, ascending.

        They can be assigned: a sequence, array or tensor of at most k distinct neurons; an empty one is allowed. The
        list itself cannot be edited.
        """
        return Winners(map(int, self._brain.winners(self.name).tolist()))

    @winners.setter
    def winners(self, neurons: Sequence[int] | Tensor) -> None:
        others = (set, frozenset, dict)
        if isinstance(neurons, others) or not checks.is_several(neurons) or not hasattr(neurons, "__len__"):
            kind = type(neurons).__name__
            raise TypeError(f"winners: winners of {self.name!r} must be a sequence of ints, got {kind}")
        if len(neurons) == 0:
            self._brain.clear(self.name)
        else:
            self._brain.activate(self.name, checks.neurons("winners", neurons, self.n, self.k, None, "winners"))

    @property
    def w(self) -> int:
        """How many neurons ever won: the support.

        It can be assigned, as scripts do to forget test rounds: it then continues from there.
        """
        return int(self.num_ever_fired) - self._unseen

    @w.setter
    def w(self, support: int) -> None:
        self._unseen = int(self.num_ever_fired) - checks.integer("w", "w", support, 0, self.n, "n")

    def get_num_ever_fired(self) -> int:
        """As `num_ever_fired`."""
        return int(self.num_ever_fired)

    @property
    def ever_fired(self) -> Tensor:
        """Whether each neuron ever won: bool ``[n]``."""
        fired = torch.zeros(self.n, dtype=torch.bool, device="cpu")
        fired[self._brain.ever_won(self.name).cpu()] = True
        return fired

    @property
    def fixed_assembly(self) -> bool:
        """Whether its winners stay, whatever fires into it; can be assigned."""
        return bool(self._view.fixed)

    @fixed_assembly.setter
    def fixed_assembly(self, value: bool) -> None:
        if checks.check_bool("fixed_assembly", "fixed_assembly", value):
            self.fix_assembly()
        else:
            self.unfix_assembly()

    def fix_assembly(self) -> None:
        """Keeps the winners; ValueError if there are none."""
        self._brain.fix_assembly(self.name)

    def unfix_assembly(self) -> None:
        """Lets winners be selected again."""
        self._brain.unfix_assembly(self.name)

    def update_beta_by_stimulus(self, name: str, new_beta: float) -> None:
        """Sets the plasticity of a stimulus into this area."""
        self.beta_by_stimulus._set("update_beta_by_stimulus", "name", name, "new_beta", new_beta)

    def update_area_beta(self, name: str, new_beta: float) -> None:
        """Sets the plasticity of an area into this area."""
        self.beta_by_area._set("update_area_beta", "name", name, "new_beta", new_beta)


class Brain(Described, CopiedWhole):
    """Areas and stimuli under the names of the published simulator.

    Args:
        p: density of every connectome.
        save_size: whether areas keep ``saved_w``.
        save_winners: whether areas keep ``saved_winners``; both grow with every projection. `Monitor` is bounded. Both
            flags can be assigned.
        seed: 64 bits.
        device: where it lives, as for `torch_hrr.assembly.TorchBrain`.
        mode: "exact" or "sampled", as for `torch_hrr.assembly.Brain`.

    Attributes:
        brain: the `torch_hrr.assembly.Brain` behind it.
        p: density of every connectome.
        area_by_name, areas: its areas.
        stimulus_size_by_name: its stimuli.
        connectomes: ``{area: {area: Connectome}}``, read-only.
        connectomes_by_stimulus, stimuli_connectomes: ``{stimulus: {area: array [n]}}``, the sums of a stimulus's
            weights, read-only.
    """

    p, save_size, save_winners = _shown("brain.p"), _flag("save_size"), _flag("save_winners")

    @takes(save_size=Bool(), save_winners=Bool())
    def __init__(
        self,
        p: float,
        save_size: bool = True,
        save_winners: bool = False,
        seed: int = 0,
        device: str | int | torch.device | None = "cpu",
        mode: str = "exact",
    ) -> None:
        """See the class."""
        place = resolve_device_or_cpu(device, op="Brain")
        self.brain = assembly.Brain(p=p, seed=seed, device=place, mode=mode)
        self._flags = {"save_size": save_size, "save_winners": save_winners}
        self._areas: dict[str, Area] = {}
        self._views: dict[tuple[str, str], Connectome] = {}

    def _summary(self) -> dict[str, Any]:
        return {**self.brain._summary(), **self._flags}

    @property
    def _lock(self) -> Any:
        """The brain's: threads may share both."""
        return self.brain._lock

    @property
    def area_by_name(self) -> Mapping[str, Area]:
        """See the class."""
        return MappingProxyType(self._areas)

    areas = area_by_name

    @property
    def stimulus_size_by_name(self) -> Mapping[str, int]:
        """See the class."""
        return MappingProxyType(self.brain.stimuli)

    @property
    def connectomes(self) -> Mapping[str, Mapping[str, Connectome]]:
        """See the class."""
        wanted = "connectomes: area must be declared"

        def of_areas(source: str) -> Mapping[str, Connectome]:
            return Weights(wanted, lambda: self._areas, lambda target: self._view(source, target))

        return Weights(wanted, lambda: self._areas, of_areas)

    @property
    def connectomes_by_stimulus(self) -> Mapping[str, Mapping[str, Any]]:
        """See the class."""
        return stimulus_views(self.brain)

    stimuli_connectomes = connectomes_by_stimulus

    def _view(self, source: str, target: str) -> Connectome:
        return self._views.setdefault((source, target), Connectome(self.brain, source, target))

    @property
    def no_plasticity(self) -> bool:
        """Whether synapses keep their weights; can be assigned."""
        return not self.brain.plastic

    @no_plasticity.setter
    def no_plasticity(self, value: bool) -> None:
        if checks.check_bool("no_plasticity", "no_plasticity", value):
            self.brain.disable_plasticity()
        else:
            self.brain.enable_plasticity()

    disable_plasticity = no_plasticity

    def add_stimulus(self, stimulus_name: str, size: int) -> None:
        """Declares a stimulus of that many neurons."""
        op = "add_stimulus"
        with self._lock:
            checks.new(op, stimulus_name, (self._areas, self.brain.stimuli), "stimulus_name")
            self.brain.add_stimulus(stimulus_name, size)

    def add_area(self, area_name: str, n: int, k: int, beta: float = 0.05) -> None:
        """Declares an area of n neurons of which k win."""
        self._add_area("add_area", area_name, n, k, beta, explicit=False)

    def add_explicit_area(
        self,
        area_name: str,
        n: int,
        k: int,
        beta: float = 0.05,
        *,
        custom_inner_p: float | None = None,
        custom_out_p: float | None = None,
        custom_in_p: float | None = None,
    ) -> None:
        """Declares an area of n neurons of which k win, whose winners `activate` sets.

        Densities are those of its fiber into itself, of its fibers into the areas declared before, and of theirs into
        it; None is the brain's.
        """
        densities = {"custom_inner_p": custom_inner_p, "custom_out_p": custom_out_p, "custom_in_p": custom_in_p}
        for argument, density in densities.items():
            if density is not None:
                checks.probability("add_explicit_area", argument, density)
        others = list(self._areas)
        self._add_area("add_explicit_area", area_name, n, k, beta, explicit=True)
        if custom_inner_p is not None:
            self.brain.connect(area_name, area_name, p=custom_inner_p)
        for other in others:
            if custom_out_p is not None:
                self.brain.connect(area_name, other, p=custom_out_p)
            if custom_in_p is not None:
                self.brain.connect(other, area_name, p=custom_in_p)

    def _add_area(self, op: str, name: str, n: int, k: int, beta: float, explicit: bool) -> None:
        with self._lock:
            self.brain._declare_area(name, n, k, beta, op=op, argument="area_name")
            self._areas[name] = Area(self.brain, name, explicit)

    def update_plasticity(self, from_area: str, to_area: str, new_beta: float) -> None:
        """Sets the plasticity of the fiber from one area to another."""
        op = "update_plasticity"
        self._area(op, "to_area", to_area).beta_by_area._set(op, "from_area", from_area, "new_beta", new_beta)

    def update_plasticities(
        self,
        area_update_map: Mapping[str, Iterable[tuple[str, float]]] | None = None,
        stim_update_map: Mapping[str, Iterable[tuple[str, float]]] | None = None,
    ) -> None:
        """Sets many: ``{to_area: [(from_area, beta)]}`` and ``{to_area: [(stimulus, beta)]}``; all of them or none."""
        op = "update_plasticities"
        given = {
            "area": checks.updates(op, "area_update_map", area_update_map, self.areas, self.areas),
            "stimulus": checks.updates(op, "stim_update_map", stim_update_map, self.areas, self.brain.stimuli),
        }
        for kind, updates in given.items():
            for to_area, source, new_beta in updates:
                getattr(self._areas[to_area], f"beta_by_{kind}")[source] = new_beta

    def activate(self, area_name: str, index: int) -> None:
        """Makes neurons k index .. k (index + 1) - 1 of an area its winners and fixes them, as for a lexicon's word."""
        area = self._area("activate", "area_name", area_name)
        place = checks.integer("activate", "index", index)
        if not 0 <= place < area.n // area.k:
            raise IndexError(f"activate: index must be in 0..{area.n // area.k - 1}, got {checks.shown(place)}")
        first = area.k * place
        with self._lock:
            self.brain.activate(area_name, range(first, first + area.k))
            area.fix_assembly()

    def project(
        self,
        areas_by_stim: Projections | None = None,
        dst_areas_by_src_area: Projections | None = None,
        verbose: int = 0,
    ) -> None:
        """One round in which stimuli and areas fire, all at once; ValueError or TypeError leave the brain unchanged.

        The arguments are ``{stimulus: [areas]}`` and ``{area: [areas]}``, None for nothing; ``verbose`` above 0 prints
        a line for each area that was fired into.
        """
        op = "project"
        given = checks.or_nothing(areas_by_stim), checks.or_nothing(dst_areas_by_src_area)
        stimuli = checks.projections(op, "areas_by_stim", given[0], self.brain.stimuli, self._areas, "stimulus")
        sources = checks.projections(op, "dst_areas_by_src_area", given[1], self._areas, self._areas, "area")
        self._round(op, stimuli, sources, verbose)

    def _round(self, op: str, stimuli: Projections, sources: Projections, verbose: int) -> None:
        """One round for the call of this name, with what areas keep of it."""
        level = checks.signed(op, "verbose", int(verbose) if checks.is_bool(verbose) else verbose)
        with self._lock:
            before = {name: area.w for name, area in self._areas.items()}
            self.brain._run(op, stimuli, sources, 1, None)
            targets = (target for each in (stimuli, sources) for listed in each.values() for target in listed)
            for name in dict.fromkeys(targets):
                area = self._areas[name]
                area.num_first_winners = area.w - before[name]
                if self.save_size:
                    area.saved_w.append(area.w)
                if self.save_winners:
                    area.saved_winners.append(area.winners)
                if level >= 1:
                    print(f"{name}: {area.num_first_winners} new winners of {area.k}, {area.w} in all")

    def project_into(
        self,
        target_area: Area | str,
        from_stimuli: Iterable[str] = (),
        from_areas: Iterable[str] = (),
        verbose: int = 0,
    ) -> int:
        """One round in which stimuli and areas, by name, fire into one area; how many winners had never won before."""
        op = "project_into"
        name = target_area.name if isinstance(target_area, Area) else target_area
        area = self._area(op, "target_area", name)
        stimuli, sources = (
            {checks.declared(op, argument, each, known): [name] for each in checks.several(op, argument, given)}
            for argument, given, known in (
                ("from_stimuli", from_stimuli, self.brain.stimuli), ("from_areas", from_areas, self._areas),
            )
        )  # fmt: skip
        self._round(op, stimuli, sources, verbose)
        return area.num_first_winners

    def _area(self, op: str, argument: str, name: str) -> Area:
        return self._areas[checks.declared(op, argument, name, self._areas)]


def overlap(a: Iterable[int], b: Iterable[int], percentage: bool = False) -> float:
    """How many neurons two assemblies share; with `percentage`, as a share of the second, NaN where it has none."""
    first, second = _neurons("a", a), _neurons("b", b)
    shared = len(first & second)
    if not checks.check_bool("overlap", "percentage", percentage):
        return shared
    return shared / len(second) if second else float("nan")


def _neurons(argument: str, given: Any) -> set[int]:
    """Those of an assembly: of a set, too."""
    neurons = list(given) if isinstance(given, (set, frozenset)) else given
    found = checks.assembly("overlap", argument, neurons)
    if found.dim() != 1:
        raise ValueError(f"overlap: {argument} must have shape [m], got {list(found.shape)}")
    return set(found.tolist())
