"""Rounds of a brain as a module of torch that can be scripted, for programs without Python."""

import itertools
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch._jit_internal import is_scripting

from torch_hrr._checks import integer
from torch_hrr._compile import outside_graphs
from torch_hrr._repr import DescribedModule
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._checkpoint import check_area, check_fiber
from torch_hrr.assembly._engines import Parts
from torch_hrr.assembly._network import Network, Plan, fiber_id
from torch_hrr.assembly._state import AreaState, FiberState, State


class Table(State):
    """One tensor of a brain's state, which grows and keeps its dtype."""

    table: Tensor

    def __init__(self, table: Tensor) -> None:
        """Holds the tensor itself."""
        super().__init__()
        self.hold("table", table)


class Projection(DescribedModule):
    """Rounds in which given stimuli and areas of a brain fire into given areas; made by `Brain.projection`.

    It holds a copy of what takes part and goes on with that: the winners are those of ``brain.project`` with the same
    rounds, to the last bit. It learns in train mode. ``torch.jit.script(projection).save("projection.pt")`` makes a
    file that a program in C++ loads by ``torch::jit::load``, moves to its device and runs, without Python; what it
    learned there is in the file that the module saves. Its methods work there, too. Freezing would make constants of
    its state: do not. Threads must not call one at the same time, and Ctrl-C waits for the end of a call. Graphs of
    ``torch.compile`` end at its rounds.

    A state_dict is for a projection of the same areas, stimuli, fibers and seeds, which may learn at other rates. A
    scripted module, whose tables cannot grow while they are loaded, has its state in its file instead: load one as you
    would a program, since nobody checks what is in it.

    The rounds are those of the operator ``torch.ops.torch_hrr.project_``, whose state
    ``csrc/include/torch_hrr/torch_hrr.h`` describes. The module lets the tables of synapses grow as needed, so its
    loop depends on data: for ``torch.export`` call the operator itself, with tables that are long enough.

    Attributes:
        names: The areas.
        targets: Those of them that something fires into.
    """

    names: list[str]
    targets: list[str]
    _needed: list[str]
    _sizes: list[tuple[int, int]]
    # Which table is which, by the names of a `State`: of areas, of fibers; those with slots of an area, filled with a
    # number; those with chunks of a fiber.
    _areas: list[dict[str, int]]
    _fibers: list[dict[str, int]]
    _ends: list[tuple[int, int]]
    _by_slots: list[tuple[int, int, int]]
    _by_chunks: list[list[int]]
    _learning: list[int]
    _resting: list[int]
    _rates: list[float]

    def __init__(self, network: Network, plan: Plan) -> None:
        """Of a network that nothing else uses, and one plan for all its brains."""
        super().__init__()
        parts = Parts(network, plan)
        self.names = parts.names
        self.targets = [name for name in parts.names if name in plan.targets]
        self._needed = sorted({source for source, target in plan.areas if source != target or _alone(target, plan)})
        self._sizes = [(area.n, area.k) for area in parts.areas]
        self._number_tables(parts)
        learning, rates = parts.described(network.plastic)
        resting, _ = parts.described(False)
        self._learning, self._resting = [int(each) for each in learning], [int(each) for each in resting]
        self._rates = [float(each) for each in rates]
        for fiber in parts.fibers:
            # Memory that no round has written to does not belong in a file.
            fiber.counts[fiber.delivered_count < 0] = 0
        self._seed, self._brains, self._batched = network.seed, network.brains, network.batch is not None
        self.tables = torch.nn.ModuleList(Table(each) for each in (network.numbers(), *parts.tensors()))
        self._number = _number_of(network, plan)
        # For states: those of other plans are refused.
        self.plan = Table(torch.tensor([self._number], dtype=torch.int64, device=network.device))
        module: Any = self
        module.register_load_state_dict_post_hook(_check_loaded)

    def _number_tables(self, parts: Parts) -> None:
        table = itertools.count(1)
        self._areas, self._fibers, sources = (
            [dict(zip(part.order, table, strict=False)) for part in kind]
            for kind in (parts.areas, parts.fibers, parts.sources)
        )
        place = {area.index: i for i, area in enumerate(parts.areas)}
        self._ends = [(place[fiber.source_index], place[fiber.target_index]) for fiber in parts.fibers]
        owners = [*range(len(parts.areas)), *(source for source, _ in self._ends)]
        owners += [place[stimulus.target_index] for stimulus in parts.sources]
        numbered = zip(parts, (*self._areas, *self._fibers, *sources), owners, strict=True)
        self._by_slots = [
            (tables[name], owner, fill) for part, tables, owner in numbered for name, fill in part.by_slots.items()
        ]
        self._by_chunks = [[tables[name] for name in FiberState.by_chunks] for tables in self._fibers]

    def _summary(self) -> dict[str, Any]:
        batch = {"batch": self._brains} if self._batched else {}
        return {"areas": self.names, "targets": self.targets, **batch, "device": self.tables[0].table.device}

    def forward(self, rounds: int = 1) -> dict[str, Tensor]:
        """Runs rounds, 0 to 2^31 - 2; gives the winners of every target, as `winners`.

        Raises:
            TypeError: ``rounds`` is no int.
            ValueError: ``rounds`` out of range, or an area that must fire has no winners; nothing is changed.
            RuntimeError: after `to_empty`, before a state is loaded.
        """
        if not is_scripting():
            return _run(self, integer("Projection", "rounds", rounds))
        return self._run(rounds)

    def _run(self, rounds: int) -> dict[str, Tensor]:
        if rounds < 0 or rounds > 2147483646:
            raise ValueError(f"Projection: rounds must be in 0..2^31 - 2, got {rounds}")
        # After `to_empty` the tables hold anything, until a state is loaded.
        if int(self.plan.table) != self._number:
            raise RuntimeError("Projection: state must be loaded before rounds, got tables without one")
        state = self._state()
        for name in self._needed:
            if int(state[self._areas[self._place(name)]["winner_count"]].min()) == 0:
                raise ValueError(f"Projection: source area must have winners, got none in '{name}'")
        layout = self._learning if self.training else self._resting
        fibers = len(self._by_chunks)
        state.append(torch.zeros([self._brains, 1 + fibers], dtype=torch.int64, device=state[0].device))
        state[-1][:, 0] = rounds
        left = rounds
        while left > 0:
            self._reserve(state, left)
            # TorchScript sees that the list is written to, not the tensors: what they are then is read from the list.
            torch.ops.torch_hrr.project_(state, [self._brains, left] + layout, self._rates, self._seed)  # noqa: RUF005
            before, left = left, int(state[-1][:, 0].max())
            grew = False
            for fiber in range(fibers if left else 0):
                tables = self._by_chunks[fiber]
                needed, chunks = int(state[-1][:, 1 + fiber].max()), state[tables[0]].size(1)
                if needed > chunks:
                    grew = True
                    for i in tables:
                        state[i] = _grown(state[i], max(needed, 2 * chunks), 0)
            self._keep(state)
            if left == before and not grew:
                raise RuntimeError(f"Projection: tables of synapses could not grow; {left} rounds were not run")
        found: dict[str, Tensor] = {}
        for name in self.targets:
            found[name] = self.winners(name)
        return found

    @torch.jit.export
    def winners(self, area: str) -> Tensor:
        """The winners of an area: int64 ``[k]`` ascending, ``[batch, k]`` with a batch, as `Brain.winners`."""
        tables, state = self._areas[self._place(area)], self._state()
        winners, count = state[tables["winners"]], state[tables["winner_count"]]
        found = winners[:, : int(count.max())].clone()
        found.masked_fill_(torch.arange(found.size(1), device=found.device) >= count.unsqueeze(1), -1)
        return found if self._batched else found[0]

    @torch.jit.export
    def support(self, area: str) -> Tensor:
        """How many neurons of an area ever won: int64 ``[]``, ``[batch]`` with a batch."""
        count = self._state()[self._areas[self._place(area)]["slots"]][:, 1].clone()
        return count if self._batched else count[0]

    @torch.jit.export
    def activate(self, area: str, indices: Tensor) -> None:
        """Sets the winners of an area: 1 to k distinct indices, int64 ``[m]``, with a batch also ``[batch, m]``.

        Indices are as for `Brain.activate`; in TorchScript a tensor.

        Raises:
            TypeError: Another type, in TorchScript another dtype, too.
            ValueError: An unknown area, another shape, too many indices or the same one twice.
            IndexError: An index outside 0..n - 1.
        """
        place = self._place(area)
        n, k = self._sizes[place]
        if not is_scripting():
            indices = checks.neurons("activate", indices, n, k, self._brains if self._batched else None)
        if indices.dtype != torch.int64:
            raise TypeError(f"activate: indices must be int64, got {indices.dtype}")
        fits = indices.dim() == 1 or (self._batched and indices.dim() == 2 and indices.size(0) == self._brains)
        if not fits or indices.size(-1) < 1 or indices.size(-1) > k:
            raise ValueError(f"activate: indices must be 1 to {k} for each brain, got shape {list(indices.shape)}")
        ascending = torch.sort(indices, dim=-1)[0]
        if int(ascending.min()) < 0 or int(ascending.max()) >= n:
            raise IndexError(
                f"activate: indices must be in 0..{n - 1}, got {int(ascending.min())}..{int(ascending.max())}"
            )
        if bool((ascending[..., 1:] == ascending[..., :-1]).any()):
            raise ValueError("activate: indices must be distinct, got one twice")
        tables, state = self._areas[place], self._state()
        state[tables["winners"]].zero_()
        state[tables["winners"]][:, : indices.size(-1)] = ascending
        state[tables["winner_count"]].fill_(indices.size(-1))

    def _place(self, area: str) -> int:
        if not is_scripting() and not isinstance(area, str):
            raise TypeError(f"Projection: area must be a name, got {checks.brief(area)}")
        if area not in self.names:
            raise ValueError(f"Projection: area must be one of {self.names}, got '{area}'")
        return self.names.index(area)

    def _state(self) -> list[Tensor]:
        state: list[Tensor] = []
        for held in self.tables:
            state.append(torch.jit.annotate(Tensor, held.table))
        # TorchScript cannot ask for the mode. What it left, rounds outside may not change; `hold` leaves none.
        if is_scripting() and not torch.empty(0, device="cpu").is_inference():
            state = [table.clone() if table.is_inference() else table for table in state]
            self._keep(state)
        return state

    def _keep(self, state: list[Tensor]) -> None:
        for i, held in enumerate(self.tables):
            if is_scripting():
                held.table = state[i]
            else:
                _hold(held, state[i])

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        found = state_dict.get(f"{prefix}plan.table")
        if isinstance(found, Tensor) and found.tolist() != [self._number]:
            raise ValueError("Projection: state must be of the same areas, stimuli, fibers and seeds, got another's")
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _reserve(self, state: list[Tensor], rounds: int) -> None:
        """Memory for the slots that rounds may add to the areas, in all that is numbered by them."""
        capacity: list[int] = []
        for tables, (n, k) in zip(self._areas, self._sizes):  # noqa: B905
            slots = int(state[tables["slots"]][:, 0].max()) + (rounds + 1) * k
            capacity.append(max(min(n, slots), state[tables["neuron_of"]].size(1)))
        for i, area, fill in self._by_slots:
            state[i] = _grown(state[i], capacity[area], fill)


def _check_loaded(module: Projection, _: Any = None) -> None:
    """Every number of a state that is used as an index is one; ValueError otherwise, and rounds are refused."""
    if module.plan.table.is_meta:
        return
    state = module._state()
    areas, fibers = (
        [SimpleNamespace(**{name: state[i] for name, i in tables.items()}) for tables in kind]
        for kind in (module._areas, module._fibers)
    )
    held: list[Any] = areas
    try:
        for name, area, (n, k) in zip(module.names, held, module._sizes, strict=True):
            area.n, area.k, area.refractory_period = n, k, len(area.penalties)
            check_area(f"of area {name!r}", area)
            AreaState.derive(area)
        fiber: Any
        for fiber, (source, target) in zip(fibers, module._ends, strict=True):
            fiber.procedural = fiber.counts.shape[1] > 0
            fiber.edges = partial(FiberState.edges, fiber)
            what = f"of the fiber from {module.names[source]!r} to {module.names[target]!r}"
            check_fiber(what, fiber, held[source], held[target])
            FiberState.forget_counts(fiber)
    except (ValueError, RuntimeError, IndexError) as error:
        module.plan.table.zero_()
        raise ValueError(f"load_state_dict: {error}") from error


@outside_graphs
def _run(module: Projection, rounds: int) -> dict[str, Tensor]:
    return module._run(rounds)


def _number_of(network: Network, plan: Plan) -> int:
    """Of all that a state depends on, which is not rates, what is fixed, and what is learned."""
    names = dict.fromkeys(name for pair in (*plan.areas, *plan.stimuli) for name in pair if name in network.areas)
    areas = {name: network.areas[name] for name in names}
    own = [
        (name, each.n, each.k, each.refracted, each.refractory_period, each.inhibition_strength, each.ties)
        for name, each in areas.items()
    ]
    fibers = [(*pair, network.fibers[pair].p, network.fibers[pair].procedural) for pair in plan.areas]
    stimuli = [(*pair, network.stimuli[pair[0]], network.p) for pair in plan.stimuli]
    brains = network.seed, network.seeds, network.batch
    return fiber_id("projection", repr((own, fibers, stimuli, brains)), "")


def _hold(held: Any, table: Tensor) -> None:
    held.hold("table", table)


def _alone(area: str, plan: Plan) -> bool:
    """Whether nothing but the area itself fires into it."""
    return all(source == area for source, target in (*plan.areas, *plan.stimuli) if target == area)


def _grown(table: Tensor, size: int, fill: int) -> Tensor:
    if table.size(1) >= size:
        return table
    shape = list(table.size())
    shape[1] = size - shape[1]
    return torch.cat([table, torch.full(shape, fill, dtype=table.dtype, device=table.device)], 1)
