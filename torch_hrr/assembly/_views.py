"""The public, read-only view of a brain's areas and fibers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from torch_hrr._repr import Described
from torch_hrr._shared import lock_public_calls
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._network import inhibited
from torch_hrr.assembly._rounds import RoundsModule

_Key = TypeVar("_Key")
_View = TypeVar("_View")


class Views(Mapping[_Key, _View]):
    """What is shown of each name that there is."""

    def __init__(self, wanted: str, names: Callable[[], Collection[_Key]], view: Callable[[_Key], _View]) -> None:
        """Of these names, each by `view`; an error says what is `wanted`."""
        self._wanted, self._names, self._view = wanted, names, view

    def __getitem__(self, name: _Key) -> _View:
        """What is shown of a name; KeyError for another one."""
        if name not in self._names():
            raise KeyError(f"{self._wanted}, got {checks.brief(name)}")
        return self._view(name)

    def __iter__(self) -> Iterator[_Key]:
        """The names."""
        return iter(tuple(self._names()))

    def __len__(self) -> int:
        """How many there are."""
        return len(self._names())

    def __repr__(self) -> str:
        """Like that of a dict."""
        return repr(dict(self))


class _ReadOnly(Described):
    """What shows a part of a brain, and says how that is set."""

    _brain: RoundsModule
    _names: ClassVar[tuple[str, ...]]

    def __init__(self, brain: RoundsModule, *names: str) -> None:
        """See `Brain.areas` and `Brain.fibers`."""
        self.__dict__.update({"_brain": brain, **dict(zip(self._names, names, strict=True))})

    @property
    def _lock(self) -> Any:
        return self._brain._lock

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            how = ", brain.set_beta(source, target, beta) sets that of a fiber" if name == "beta" else ""
            raise AttributeError(f"{name}: a view must not be written{how}")
        super().__setattr__(name, value)


@lock_public_calls
class AreaView(_ReadOnly):
    """One area of a `Brain`, to read. With a batch, what differs from brain to brain has a leading dimension.

    Attributes:
        name: Its name.
    """

    name: str
    _names = ("name",)

    @property
    def n(self) -> int:
        """How many neurons it has."""
        return self._brain._network.areas[self.name].n

    @property
    def k(self) -> int:
        """How many win in a round."""
        return self._brain._network.areas[self.name].k

    @property
    def beta(self) -> float:
        """The default plasticity of fibers into it."""
        return self._brain._network.areas[self.name].beta

    @property
    def w_max(self) -> float | None:
        """Largest weight of a synapse onto its neurons; None for the general limit."""
        return self._brain._network.areas[self.name].w_max

    @property
    def options(self) -> dict[str, Any]:
        """The other options of `Brain.add_area`, by name."""
        area = self._brain._network.areas[self.name]
        known = ("n", "k", "beta", "w_max", "fixed", "locks", "normalized")
        return {option: value for option, value in area.config().items() if option not in known} | {"ties": area.ties}

    @property
    def winners(self) -> Tensor:
        """`Brain.winners`."""
        return self._brain.winners(self.name)

    @property
    def support(self) -> int | Tensor:
        """`Brain.support`."""
        return self._brain.support(self.name)

    @property
    def fixed(self) -> bool | Tensor:
        """Whether its winners stay: a bool, or bool ``[batch]``."""
        return self._of_brains(self._brain._network.areas[self.name].fixed)

    @property
    def inhibited(self) -> bool | Tensor:
        """Whether it is locked: a bool, or bool ``[batch]``."""
        return self._of_brains(inhibited(self._brain._network.areas[self.name].locks))

    def _of_brains(self, brains: set[int]) -> bool | Tensor:
        network = self._brain._network
        if network.batch is None:
            return 0 in brains
        return torch.tensor([brain in brains for brain in range(network.brains)], device=network.device)

    def _summary(self) -> dict[str, Any]:
        area = self._brain._network.areas[self.name]
        return {"name": self.name, "n": area.n, "k": area.k, "beta": area.beta}


@lock_public_calls
class FiberView(_ReadOnly):
    """The synapses from one area to another, to read.

    Attributes:
        source: The area that fires.
        target: The area that is fired into.
    """

    source: str
    target: str
    _names = ("source", "target")

    @property
    def p(self) -> float:
        """Density of its random graph."""
        return self._brain._network.fibers[self.source, self.target].p

    @property
    def beta(self) -> float:
        """Its plasticity."""
        return self._brain._network.beta(self.source, self.target)

    @property
    def w_max(self) -> float | None:
        """Largest weight of a synapse; None for the general limit."""
        largest = self._brain._network.largest_weight(self.source, self.target)
        return None if largest == float("inf") else largest

    @property
    def random(self) -> bool:
        """Whether its graph is the random one, not one given to `Brain.connect`."""
        return self._brain._network.fibers[self.source, self.target].procedural

    def _summary(self) -> dict[str, Any]:
        network, ends = self._brain._network, (self.source, self.target)
        own = {"source": self.source, "target": self.target}
        return own | {"p": network.fibers[ends].p, "beta": network.beta(*ends)}


def area_views(brain: RoundsModule) -> Views[str, AreaView]:
    """All areas by name, in the order of declaration."""
    return Views("areas: area must be declared", lambda: brain._network.areas, lambda name: AreaView(brain, name))


def fiber_views(brain: RoundsModule) -> Views[tuple[str, str], FiberView]:
    """All fibers in use, by source and target."""
    wanted = "fibers: fiber must be in use"
    return Views(wanted, lambda: brain._network.fibers, lambda pair: FiberView(brain, *pair))
