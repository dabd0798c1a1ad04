"""Brains from the content of files: everything is checked before a brain exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from torch_hrr._storage import IntegrityError
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._state import (
    EDGES_PER_CHUNK,
    FIXED_ONE,
    LARGEST_BIAS,
    LARGEST_WEIGHT,
    AreaState,
    FiberState,
    State,
    StimulusState,
    largest_weight,
)

if TYPE_CHECKING:
    from torch_hrr.assembly._wiring import Wiring

_Brain = TypeVar("_Brain", bound="Wiring")


def restore(
    cls: type[_Brain], path: str, tensors: Mapping[str, Tensor], config: Mapping[str, Any], device: str | torch.device
) -> _Brain:
    """The brain of a file whose seal is right; without a key, anybody can make one that holds anything."""
    try:
        brain = cls(config["p"], config["seed"], config["mode"], device, config["batch"])
        declare(brain, config)
        if brain.get_extra_state() != config:
            raise ValueError("entries that no brain has")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, MemoryError) as error:
        raise IntegrityError(f"load: {path} must describe a brain, got {error}") from error
    sampled = {name for name in tensors if brain._engines and name.startswith("sampled.")}
    expected = {
        name: value
        for name, value in brain.state_dict().items()
        if isinstance(value, Tensor) and not (brain._engines and name.startswith("sampled."))
    }
    if set(expected) != set(tensors) - sampled:
        raise IntegrityError(f"load: {path} must hold the tensors of its brain, got {len(tensors)} others")
    for name, value in expected.items():
        found = tensors[name]
        if found.dtype != value.dtype or found.dim() != value.dim() or found.shape[0] != value.shape[0]:
            raise IntegrityError(f"load: {path} must hold {name} as {value.dtype} of {value.dim()} dimensions")
    try:
        nn.Module.load_state_dict(brain, {**tensors, "_extra_state": brain.get_extra_state()})
    except (RuntimeError, IndexError, ValueError, KeyError, TypeError) as error:
        raise IntegrityError(f"load: {path} must hold tensors that fit its brain, got {error}") from error
    return brain


def declare(brain: Wiring, config: Mapping[str, Any]) -> None:
    """Areas, stimuli, fibers and flags of a configuration, in its order, in a brain without any."""
    for name, size in config["stimuli"]:
        brain.add_stimulus(name, size)
    waiting: dict[str, list[Any]] = {
        "area": list(config["areas"]), "fiber": list(config["fibers"]), "source": list(config["sources"])
    }  # fmt: skip
    for kind in config["order"]:
        entry = waiting[kind].pop(0)
        if kind == "area":
            name, area = entry
            brain.add_area(
                name, area["n"], area["k"], area["beta"], area["refracted"], area["normalize"], area["w_max"],
                area["refractory_period"], area["inhibition_strength"],
            )  # fmt: skip
        elif kind == "fiber":
            source, target, fiber = entry
            _require(fiber["id"] == brain._fiber_config(source, target)["id"], "a fiber with another name")
            _require(isinstance(fiber["procedural"], bool), "a fiber that is neither drawn nor given")
            checks.probability("fiber", "p", fiber["p"])
            if fiber["w_max"] is not None:
                checks.number("fiber", "w_max", fiber["w_max"], least=1)
            brain._add_fiber(source, target, fiber)
        else:
            stimulus, target, source_config = entry
            _require(brain._source(stimulus, target).config() == source_config, "a stimulus with another name")
    if any(waiting.values()):
        raise ValueError("areas, fibers or sources that are not in its order")
    set_flags(brain, config)


def check_same_brain(brain: Wiring, config: Mapping[str, Any]) -> None:
    """ValueError unless a configuration is that of this graph and, if there are areas, of the same declarations."""
    mine = brain.get_extra_state()
    for part in ("p", "seed", "mode", "batch"):
        if config[part] != mine[part]:
            raise ValueError(f"load_state_dict: {part} must be {mine[part]}, got {config[part]}")
    if not brain._areas and not brain._stimuli:
        return
    changing = ("fixed", "locks", "normalized")
    areas = [
        [[name, {key: value for key, value in area.items() if key not in changing}] for name, area in each["areas"]]
        for each in (mine, config)
    ]
    if areas[0] != areas[1] or mine["stimuli"] != config["stimuli"]:
        raise ValueError("load_state_dict: areas and stimuli must be those of the brain, got others")


def set_flags(brain: Wiring, config: Mapping[str, Any]) -> None:
    """What changes from round to round and is no tensor."""
    brain._plastic = bool(config["plastic"])
    for (_, area), state in zip(config["areas"], brain._areas.values(), strict=True):
        state.fixed, state.locks = bool(area["fixed"]), set(area["locks"])
        # Only now: a fiber that was being added would have drawn its columns again.
        state.normalized = set(map(str, area["normalized"]))
    brain._locks = {(str(source), str(target)): set(locks) for source, target, locks in config["locks"]}
    brain._betas = {
        (str(target), str(source)): checks.number("load", "beta", beta, least=0)
        for target, source, beta in config["betas"]
    }


def check_loaded(brain: Wiring, _: Any = None) -> None:
    """`check_states` after a load. A refused state that is in the brain already leaves it silent and untaught."""
    try:
        check_states(brain)
    except (ValueError, IndexError, RuntimeError):
        for state in brain.states:
            assert isinstance(state, State)
            state.clear()
        raise


def check_states(brain: Wiring) -> None:
    """Indices in the tensors point where they may; ValueError otherwise. What follows from them is made."""
    for engine in brain._engines:
        engine.check_state()
    for name, area in brain._areas.items():
        _check_area(name, area)
        if not brain._engines:
            area.derive()
    areas = list(brain._areas.values())
    for fiber in brain._fibers.values():
        _check_fiber(fiber, areas[fiber.source_index], areas[fiber.target_index])
        fiber.forget_counts()
    for source in brain._sources.values():
        _check_stimulus(source, areas[source.target_index])
    for area in areas:
        brain._reserve_area(area, area.neuron_of.shape[1])


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _all(tensor: Tensor, test: Callable[[Tensor], Tensor]) -> bool:
    return bool(test(tensor).all())


def _check_area(name: str, area: AreaState) -> None:
    count, slots = area.winner_count, area.slots
    brains, capacity = area.neuron_of.shape
    sizes = (
        area.winners.shape == (brains, area.k) and area.won.shape == (brains, capacity) and slots.shape == (brains, 2)
    )
    _require(sizes and count.shape == (brains,) and brains == len(area.slot_of), f"area {name!r} of other sizes")
    histories = ((area.bias, area.refracted), (area.last_win, area.refractory_period))
    _require(
        all(each.shape == (brains, area.n if on else 0) for each, on in histories), f"area {name!r} of other sizes"
    )
    _require(_all(count, lambda c: (c == c[0]) & (c >= 0) & (c <= area.k)), f"winners of area {name!r}")
    fired = area.winners[:, : int(count[0])]
    _require(_all(fired, lambda w: (w >= 0) & (w < area.n)), f"winners of area {name!r}")
    _require(_all(fired.diff(dim=-1), lambda step: step > 0), f"winners of area {name!r}")
    limit = max(capacity, area.n if area.slot_of.shape[1] == 0 else 0)
    _require(_all(slots, lambda s: (s >= 0) & (s <= limit)), f"slots of area {name!r}")
    _require(_all(area.last_win, lambda r: (r >= 0) & (r <= area.refractory_period)), f"last wins of area {name!r}")
    _require(_all(area.bias, lambda b: (b >= 0) & (b <= LARGEST_BIAS)), f"bias of area {name!r}")
    for brain in range(brains):
        _require(int(slots[brain, 0]) <= capacity, f"slots of area {name!r}")
        used = area.neuron_of[brain, : int(slots[brain, 0])]
        _require(_all(used, lambda j: (j >= 0) & (j < area.n)), f"slots of area {name!r}")
        _require(len(torch.unique(used)) == len(used), f"slots of area {name!r}")
        wins = int(area.won[brain, : len(used)].ne(0).sum())
        _require(area.slot_of.shape[1] == 0 or wins == int(slots[brain, 1]), f"support of area {name!r}")


def _check_fiber(fiber: FiberState, source: AreaState, target: AreaState) -> None:
    brains, capacity = fiber.next.shape
    rows = fiber.head.shape[1]
    sizes = fiber.target.shape == fiber.weight.shape == (brains, capacity, fiber.target.shape[-1])
    _require(sizes and fiber.length.shape == fiber.known.shape == (brains, rows), "a fiber of other sizes")
    _require(fiber.head.shape == source.neuron_of.shape and fiber.chunks.shape == (brains,), "a fiber of other sizes")
    _require(fiber.target.shape[-1] == EDGES_PER_CHUNK and len(fiber.scale) == brains, "a fiber of other sizes")
    _require(fiber.scale.shape[1] in (0, target.n), "a fiber of other sizes")
    # The least sum of a column is 2^-24.
    _require(_all(fiber.scale, lambda s: (s >= 0) & (s <= FIXED_ONE)), "the scale of a fiber")
    least, most = float(fiber.procedural), largest_weight(source.k)
    for brain in range(brains):
        slots, used = int(source.slots[brain, 0]), int(fiber.chunks[brain])
        _require(slots <= rows and 0 <= used <= capacity, "a fiber of other sizes")
        head, length, next = fiber.head[brain].long(), fiber.length[brain].long(), fiber.next[brain, :used].long()
        # A chunk's predecessor is older, so that every list ends.
        _require(bool(((next >= -1) & (next < torch.arange(used, device=next.device))).all()), "chunks of a fiber")
        _require(bool(((head >= -1) & (head < used)).all()), "rows of a fiber")
        _require(_all(length, lambda c: c >= 0) and bool(((head < 0) == (length == 0)).all()), "rows of a fiber")
        target_slots = int(target.slots[brain, 0])
        known = fiber.known[brain]
        _require(bool(((known >= 0) & (known <= target_slots)).all()), "rows of a fiber")
        # As many chunks as a row's length asks for: follow all lists at once.
        left, chunk = (length + fiber.target.shape[-1] - 1) // fiber.target.shape[-1], head
        while bool((left > 0).any()):
            live = left > 0
            left, chunk = left[live], chunk[live]
            _require(_all(chunk, lambda c: c >= 0), "chunks of a fiber")
            left, chunk = left - 1, next[chunk]
            _require(bool((chunk[left == 0] == -1).all()), "chunks of a fiber")
        _, columns, weights = fiber.edges(brain)
        _require(bool(((columns >= 0) & (columns < target_slots)).all()), "edges of a fiber")
        _require(_all(weights, lambda w: (w >= least) & (w <= most)), "weights of a fiber")


def _check_stimulus(source: StimulusState, target: AreaState) -> None:
    _require(source.weight.shape == target.neuron_of.shape, "a stimulus without its weights")
    for brain, weight in enumerate(source.weight):
        slots = int(target.slots[brain, 0])
        # 0 before anything has grown; then sums of weights of at least 1.
        least = source.counts[brain, target.neuron_of[brain, :slots].long()].float()
        used = weight[:slots]
        grown = (used >= least) & (used <= least.clamp(min=LARGEST_WEIGHT))
        _require(bool((grown | (used == 0)).all()), "weights of a stimulus")
        _require(_all(weight[slots:], lambda w: w == 0), "weights of a stimulus")
