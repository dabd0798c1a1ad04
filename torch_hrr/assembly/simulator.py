"""The calls of the published simulator of the assembly calculus, on `torch_hrr.assembly.Brain`.

A script changes its import to ``from torch_hrr.assembly.simulator import Brain`` and goes on. What differs:

- The random graph is exact. The published simulator draws a neuron's synapses when it first fires and numbers neurons
  in that order, so that its winners are 0, 1, 2, ... and new ones the next numbers; here winners are the indices of
  real neurons, in 0..n-1 and ascending. Whatever counts or intersects winners sees no difference.
- An area that no stimulus or area reached has no winners, and one that fires into another area must have some.
- The same seed gives other random numbers than NumPy's, and the same ones on every machine.
- ``Area.get_num_ever_fired`` and ``Area.ever_fired`` are not there (`num_ever_fired` is, and the support lies in the
  brain), nor are ``Brain.connectomes``, ``Brain.connectomes_by_stimulus`` and ``Brain.project_into``. There is no
  ``mode=`` of `torch_hrr.assembly.Brain` either: rounds are exact.

Source: Papadimitriou, Vempala, Mitropolsky, Collins, Maass, Brain computation by assemblies of neurons, PNAS 2020, and
Mitropolsky, Collins, Papadimitriou, A biologically plausible parser, TACL 2021, for the model; names as in their code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from torch_hrr import assembly
from torch_hrr.assembly import _checks as checks

Projections = Mapping[str, Iterable[str]]


class Area:
    """An area of a `Brain` of this module, which makes it.

    Attributes:
        name: its name.
        n: how many neurons it has.
        k: how many win.
        beta: plasticity of fibers into it that have none of their own.
        explicit: whether it was made by `Brain.add_explicit_area`.
        beta_by_stimulus: plasticity of stimuli into it, those that `Brain.update_plasticity` and the like set.
        beta_by_area: plasticity of areas into it, likewise.
        saved_w: ``w`` after each projection into it, where the brain's `save_size` is set.
        saved_winners: the winners after each projection into it, where `save_winners` is set.
        num_first_winners: how many of the last winners had never won before.
    """

    def __init__(self, brain: assembly.Brain, name: str, n: int, k: int, beta: float, explicit: bool) -> None:
        """See the class."""
        self._brain = brain
        self.name = name
        self.n = n
        self.k = k
        self.beta = beta
        self.explicit = explicit
        self.beta_by_stimulus: dict[str, float] = {}
        self.beta_by_area: dict[str, float] = {}
        self.saved_w: list[int] = []
        self.saved_winners: list[list[int]] = []
        self.num_first_winners = 0

    @property
    def winners(self) -> list[int]:
        """The neurons that fire, ascending. They can be set: to at most k distinct ones, or to none."""
        return list(map(int, self._brain.winners(self.name).tolist()))

    @winners.setter
    def winners(self, neurons: Sequence[int] | Tensor) -> None:
        if len(neurons) == 0:
            self._brain.clear(self.name)
        else:
            self._brain.activate(self.name, torch.as_tensor(neurons))

    @property
    def w(self) -> int:
        """How many neurons ever won: the support."""
        return int(self._brain.support(self.name))

    @property
    def num_ever_fired(self) -> int:
        """As `w`."""
        return self.w

    @property
    def fixed_assembly(self) -> bool:
        """Whether its winners stay whatever fires into it."""
        return bool(self._brain.areas[self.name].fixed)

    def fix_assembly(self) -> None:
        """Keeps the winners; ValueError where there are none."""
        self._brain.fix_assembly(self.name)

    def unfix_assembly(self) -> None:
        """Lets winners be selected again."""
        self._brain.unfix_assembly(self.name)

    def update_beta_by_stimulus(self, name: str, new_beta: float) -> None:
        """Sets the plasticity of a stimulus into this area."""
        self._brain.set_beta(name, self.name, new_beta)
        self.beta_by_stimulus[name] = new_beta

    def update_area_beta(self, name: str, new_beta: float) -> None:
        """Sets the plasticity of an area into this area."""
        self._brain.set_beta(name, self.name, new_beta)
        self.beta_by_area[name] = new_beta


class Brain:
    """Areas and stimuli under the names of the published simulator.

    Args:
        p: density of every connectome.
        save_size: whether areas keep ``saved_w``.
        save_winners: whether areas keep ``saved_winners``; both grow with every projection. `Monitor` is bounded.
        seed: 64 bits.
        device: where it lives.

    Attributes:
        brain: the `torch_hrr.assembly.Brain` behind it.
        area_by_name: its areas.
        stimulus_size_by_name: its stimuli.
    """

    def __init__(
        self,
        p: float,
        save_size: bool = True,
        save_winners: bool = False,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        """See the class."""
        self.brain = assembly.Brain(p=p, seed=seed, device=device)
        self.p = self.brain.p
        self.save_size = save_size
        self.save_winners = save_winners
        self.area_by_name: dict[str, Area] = {}
        self.stimulus_size_by_name: dict[str, int] = {}

    @property
    def no_plasticity(self) -> bool:
        """Whether synapses keep their weights; a flag to set."""
        return not self.brain.plastic

    @no_plasticity.setter
    def no_plasticity(self, value: bool) -> None:
        if value:
            self.brain.disable_plasticity()
        else:
            self.brain.enable_plasticity()

    disable_plasticity = no_plasticity

    @property
    def areas(self) -> dict[str, Area]:
        """As `area_by_name`, its older name."""
        return self.area_by_name

    def add_stimulus(self, stimulus_name: str, size: int) -> None:
        """Declares a stimulus of that many neurons."""
        self.brain.add_stimulus(stimulus_name, size)
        self.stimulus_size_by_name[stimulus_name] = size

    def add_area(self, area_name: str, n: int, k: int, beta: float = 0.05) -> None:
        """Declares an area of n neurons of which k win."""
        self._add_area(area_name, n, k, beta, explicit=False)

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
        """Declares an area whose winners `activate` sets; every area here has all of its neurons.

        Args:
            area_name: its name.
            n: neurons.
            k: winners.
            beta: plasticity.
            custom_inner_p: density of the area's fiber into itself.
            custom_out_p: of its fibers into the areas that there are.
            custom_in_p: of their fibers into it.
        """
        densities = {"custom_inner_p": custom_inner_p, "custom_out_p": custom_out_p, "custom_in_p": custom_in_p}
        for argument, density in densities.items():
            if density is not None:
                checks.probability("add_explicit_area", argument, density)
        others = list(self.area_by_name)
        self._add_area(area_name, n, k, beta, explicit=True)
        if custom_inner_p is not None:
            self.brain.connect(area_name, area_name, p=custom_inner_p)
        for other in others:
            if custom_out_p is not None:
                self.brain.connect(area_name, other, p=custom_out_p)
            if custom_in_p is not None:
                self.brain.connect(other, area_name, p=custom_in_p)

    def _add_area(self, name: str, n: int, k: int, beta: float, explicit: bool) -> None:
        self.brain.add_area(name, n, k, beta)
        self.area_by_name[name] = Area(self.brain, name, n, k, beta, explicit)

    def update_plasticity(self, from_area: str, to_area: str, new_beta: float) -> None:
        """Sets the plasticity of the fiber from one area to another."""
        self._area("update_plasticity", to_area).update_area_beta(from_area, new_beta)

    def update_plasticities(
        self,
        area_update_map: Mapping[str, Iterable[tuple[str, float]]] | None = None,
        stim_update_map: Mapping[str, Iterable[tuple[str, float]]] | None = None,
    ) -> None:
        """Sets many: ``{to_area: [(from_area, beta)]}`` and ``{to_area: [(stimulus, beta)]}``."""
        for to_area, updates in (area_update_map or {}).items():
            for from_area, new_beta in updates:
                self.update_plasticity(from_area, to_area, new_beta)
        for to_area, updates in (stim_update_map or {}).items():
            for stimulus, new_beta in updates:
                self._area("update_plasticities", to_area).update_beta_by_stimulus(stimulus, new_beta)

    def activate(self, area_name: str, index: int) -> None:
        """Fires the neurons k index .. k (index + 1) - 1 of an area and fixes them, as of a lexicon's words."""
        area = self._area("activate", area_name)
        first = area.k * checks.integer("activate", "index", index, least=0, most=area.n // area.k - 1)
        self.brain.activate(area_name, range(first, first + area.k))
        area.fix_assembly()

    def project(
        self,
        areas_by_stim: Projections | None = None,
        dst_areas_by_src_area: Projections | None = None,
        verbose: int = 0,
    ) -> None:
        """One round in which stimuli and areas fire, all at once.

        Args:
            areas_by_stim: ``{stimulus: [areas]}``; None for nothing.
            dst_areas_by_src_area: ``{area: [areas]}``; None for nothing.
            verbose: with 1 or more, a line for each area that was fired into.

        Raises:
            ValueError: an unknown name, or an area without winners that fires into another; nothing has changed.
        """
        stimuli, sources = checks.listed(areas_by_stim or {}), checks.listed(dst_areas_by_src_area or {})
        before = {name: area.w for name, area in self.area_by_name.items()}
        self.brain.project(stimuli, sources)
        targets = (target for each in (stimuli, sources) for listed in each.values() for target in listed)
        for name in dict.fromkeys(targets):
            area = self.area_by_name[name]
            area.num_first_winners = area.w - before[name]
            if self.save_size:
                area.saved_w.append(area.w)
            if self.save_winners:
                area.saved_winners.append(area.winners)
            if verbose >= 1:
                print(f"{name}: {area.num_first_winners} new winners of {area.k}, {area.w} in all")

    def _area(self, op: str, name: str) -> Area:
        return self.area_by_name[checks.declared(op, "area", name, self.area_by_name)]


def overlap(a: Iterable[int], b: Iterable[int], percentage: bool = False) -> float:
    """How many neurons two assemblies share; with `percentage`, as a share of the second."""
    second = set(b)
    shared = len(set(a) & second)
    return shared / len(second) if percentage else shared
