"""What files and state_dicts hold of a brain beside its tensors, and checks of the tensors that they hold."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from torch_hrr._checks import check_bool
from torch_hrr._progress import interrupts_held_back
from torch_hrr._shared import is_out_of_memory
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._engines import Engine, ExactEngine, SampledEngines
from torch_hrr.assembly._network import Network
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
    packed_locks,
    unpacked_brains,
    unpacked_locks,
)

# Of an area: what rounds and calls change after its declaration.
_CHANGING = ("fixed", "locks", "normalized")


def config_of(network: Network) -> dict[str, Any]:
    """Everything but tensors, as plain values: the extra state of a brain."""
    seeds = {} if network.seeds is None else {"seeds": list(network.seeds)}
    return {
        "p": network.p, "seed": network.seed, "mode": network.mode, "batch": network.batch, **seeds,
        "plastic": network.plastic,
        "stimuli": [[name, size] for name, size in network.stimuli.items()],
        "areas": [[name, area.config()] for name, area in network.areas.items()],
        "fibers": [[*pair, fiber.config()] for pair, fiber in network.fibers.items()],
        "sources": [[*pair, source.config()] for pair, source in network.sources.items()],
        "locks": [
            [*pair, packed_locks(locks, network.brains)] for pair, locks in network.locks.items() if any(locks.values())
        ],
        "betas": [[*pair, beta] for pair, beta in network.betas.items()],
        "order": [_kind(state) for state in network.states],
    }  # fmt: skip


def declare(network: Network, engine: Engine, config: Mapping[str, Any]) -> None:
    """Areas, stimuli, fibers and flags of a configuration, in its order, in a brain without any."""
    for name, size in config["stimuli"]:
        network.declare_stimulus(name, size)
        engine.add_stimulus(name)
    waiting: dict[str, list[Any]] = {
        "area": list(config["areas"]), "fiber": list(config["fibers"]), "source": list(config["sources"])
    }  # fmt: skip
    for kind in config["order"]:
        entry = waiting[kind].pop(0)
        if kind == "area":
            name, area = entry
            network.declare_area(name, **{option: value for option, value in area.items() if option not in _CHANGING})
            engine.add_area(name)
        elif kind == "fiber":
            source, target, fiber = entry
            id = network.fiber_config(source, target)["id"]
            _require(fiber["id"] == id, "id of a fiber", f"that of its name, {id}", fiber["id"])
            check_bool("fiber", "procedural", fiber["procedural"])
            checks.probability("fiber", "p", fiber["p"])
            if fiber["w_max"] is not None:
                checks.number("fiber", "w_max", fiber["w_max"], least=1)
            network.add_fiber(source, target, fiber)
        else:
            stimulus, target, source_config = entry
            expected = network.source(stimulus, target).config()
            _require(source_config == expected, "a stimulus", f"that of its name, {expected}", source_config)
    if any(waiting.values()):
        raise ValueError("areas, fibers or sources that are not in its order")
    set_flags(network, config)


def check_sizes(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """ValueError unless tensors of a file have the dtypes and sizes of what it describes, of which nothing is made."""
    batch, seeds = config["batch"], config.get("seeds")
    brains = {len(tensor) for name, tensor in tensors.items() if name.startswith("states.")} or {
        sum(name.endswith(".generator") for name in tensors) if config["mode"] == "sampled" else batch or 1
    }
    _require(brains == {batch or 1}, "batch", f"that of the tensors, {sorted(brains)}", batch)
    network = Network(config["p"], config["seed"], config["mode"], torch.device("meta"), batch, seeds)
    declare(network, ExactEngine(network), config)
    if config_of(network) != config:
        raise ValueError("entries that no brain has")
    expected = {f"states.{name}": tensor for name, tensor in network.states.state_dict().items()}
    found = {name: tensor for name, tensor in tensors.items() if not name.startswith("sampled.")}
    _require(found.keys() == expected.keys(), "tensors", f"the {len(expected)} of its parts", len(found))
    for name, tensor in expected.items():
        is_one = (found[name].dtype, found[name].dim()) == (tensor.dtype, tensor.dim())
        _require(is_one, name, f"{tensor.dtype} of {tensor.dim()} dimensions")
    network.states.load_state_dict({name.removeprefix("states."): each.to("meta") for name, each in found.items()})
    _check_shapes(network)


def check_same_brain(network: Network, config: Mapping[str, Any]) -> None:
    """ValueError unless a configuration is that of this graph and, if there are areas, of the same declarations."""
    mine = config_of(network)
    if missing := [part for part in mine if part not in (*config, "seeds")]:
        raise ValueError(f"load_state_dict: _extra_state must hold {', '.join(mine)}, got none of {missing}")
    for part in ("p", "seeds", "seed", "mode", "batch"):
        if config.get(part) != mine.get(part):
            raise ValueError(f"load_state_dict: {part} must be {mine.get(part)}, got {config.get(part)}")
    if not network.areas and not network.stimuli:
        return
    areas = [
        [[name, {key: value for key, value in area.items() if key not in _CHANGING}] for name, area in each["areas"]]
        for each in (mine, config)
    ]
    if areas[0] != areas[1] or mine["stimuli"] != config["stimuli"]:
        raise ValueError("load_state_dict: areas and stimuli must be those of the brain, got others")


@contextlib.contextmanager
def described() -> Iterator[None]:
    """A block that reads the configuration in a state: what it stumbles over there is a ValueError that says so."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if is_out_of_memory(error) or str(error).startswith("load_state_dict: "):
            raise
        got = f"{type(error).__name__}: {error}"
        raise ValueError(f"load_state_dict: _extra_state must be that of a brain, got {got}") from error


@contextlib.contextmanager
def unchanged_by_errors(module: nn.Module, *parts: str) -> Iterator[None]:
    """A block after whose errors a module has the parts and the state of before."""
    held, before = {name: getattr(module, name) for name in parts}, copy.deepcopy(module.state_dict())
    try:
        yield
    except BaseException:
        with interrupts_held_back():
            for name, part in held.items():
                setattr(module, name, part)
            nn.Module.load_state_dict(module, before)
        raise


def set_flags(network: Network, config: Mapping[str, Any]) -> None:
    """What changes from round to round and is no tensor."""
    network.plastic = bool(config["plastic"])
    for (_, area), state in zip(config["areas"], network.areas.values(), strict=True):
        state.fixed = unpacked_brains(area["fixed"], network.brains)
        state.locks = unpacked_locks(area["locks"], network.brains)
        # Only now: a fiber that was being added would have drawn its columns again.
        state.normalized = set(map(str, area["normalized"]))
    network.locks = {
        (str(source), str(target)): unpacked_locks(locks, network.brains) for source, target, locks in config["locks"]
    }
    network.betas = {
        (str(target), str(source)): checks.number("load", "beta", beta, least=0)
        for target, source, beta in config["betas"]
    }


def load_engines(
    engine: Engine, state_dict: Mapping[str, Any], prefix: str, missing: list[str], unexpected: list[str]
) -> None:
    """The state of sampled brains; ValueError where it is that of none."""
    if not isinstance(engine, SampledEngines):
        return
    if not any(key.startswith((f"{prefix}sampled.", f"{prefix}_extra_state")) for key in state_dict):
        # That of a model without its brain.
        missing += [f"{prefix}sampled.{number}" for number in range(len(engine.brains))]
        return
    for number, brain in enumerate(engine.brains):
        start = f"{prefix}sampled.{number}."
        try:
            brain.load_state({key.removeprefix(start): t for key, t in state_dict.items() if key.startswith(start)})
        except (KeyError, ValueError, IndexError, RuntimeError, TypeError, AttributeError) as error:
            raise ValueError(f"load_state_dict: state must hold the tensors of a sampled brain, got {error}") from error
        unexpected[:] = [key for key in unexpected if not key.startswith(start)]


def save_engines(engine: Engine, destination: dict[str, Any], prefix: str) -> None:
    """Adds the state of sampled brains to a state_dict."""
    if isinstance(engine, SampledEngines):
        for number, brain in enumerate(engine.brains):
            for name, tensor in brain.state().items():
                destination[f"{prefix}sampled.{number}.{name}"] = tensor


def _kind(state: nn.Module) -> str:
    return "area" if isinstance(state, AreaState) else "fiber" if isinstance(state, FiberState) else "source"


def check_loaded(network: Network, engine: Engine) -> None:
    """`check_states` after a load; where it is refused, the brain is reset: no winners, no learned weights."""
    network.version += 1
    try:
        check_states(network, engine)
    except (ValueError, IndexError, RuntimeError) as error:
        for state in network.states:
            assert isinstance(state, State)
            state.clear()
        network.reserve()
        raise ValueError(f"load_state_dict: {error}") from error


def check_states(network: Network, engine: Engine) -> None:
    """Numbers in the tensors are such as rounds make; ValueError otherwise. What follows from them is made."""
    if isinstance(engine, SampledEngines):
        for number, brain in enumerate(engine.brains):
            brain.check_state()
            for name, area in network.areas.items():
                own = area.winners[number, : int(area.winner_count[number])], int(area.slots[number, 1])
                same = torch.equal(own[0], brain.winners(name)) and own[1] == brain.support(name)
                _require(same, f"winners of area {name!r}", "those of its sampled brain")
    _check_shapes(network)
    for name, area in network.areas.items():
        check_area(f"of area {name!r}", area)
        if network.mode == "exact":
            area.derive()
    areas = list(network.areas.values())
    for (name, into), fiber in network.fibers.items():
        what = f"of the fiber from {name!r} to {into!r}"
        check_fiber(what, fiber, areas[fiber.source_index], areas[fiber.target_index])
        fiber.forget_counts()
        fiber.forget_sums()
    for (name, into), source in network.sources.items():
        _check_stimulus(f"of stimulus {name!r} into {into!r}", source, areas[source.target_index])
    network.reserve()


def _require(condition: bool | Tensor, what: str, wanted: str, got: Any = "others") -> None:
    if not condition:
        raise ValueError(f"{what} must be {wanted}, got {got}")


def _within(what: str, values: Tensor, least: float | Tensor, most: float | Tensor) -> None:
    """Every value is in least..most, which NaN is not."""
    wrong = ~((values >= least) & (values <= most))
    if bool(wrong.any()):
        place = tuple(wrong.nonzero()[0].tolist())
        ends = [float(end.expand_as(values)[place]) if isinstance(end, Tensor) else end for end in (least, most)]
        shown = "..".join(str(end) if isinstance(end, int) else f"{end:.9g}" for end in ends)
        raise ValueError(f"{what} must be in {shown}, got {values[place].item()}")


def _check_shapes(network: Network) -> None:
    brains, areas = network.brains, list(network.areas.values())
    parts: list[tuple[str, State, dict[str, tuple[int, ...]]]] = []
    for name, area in network.areas.items():
        capacity = area.neuron_of.shape[1]
        parts.append((f"of area {name!r}", area, {
            "winners": (brains, area.k), "winner_count": (brains,), "neuron_of": (brains, capacity),
            "won": (brains, capacity), "slots": (brains, 2), "bias": (brains, area.n if area.refracted else 0),
            "last_win": (brains, area.n if area.refractory_period else 0),
        }))  # fmt: skip
    for (name, into), fiber in network.fibers.items():
        rows, chunks = tuple(areas[fiber.source_index].neuron_of.shape), fiber.next.shape[1]
        scale = areas[fiber.target_index].n if fiber.scale.shape[1] else 0
        edges = (brains, chunks, EDGES_PER_CHUNK)
        parts.append((f"of the fiber from {name!r} to {into!r}", fiber, {
            "head": rows, "length": rows, "known": rows, "next": (brains, chunks), "target": edges, "weight": edges,
            "chunks": (brains,), "scale": (brains, scale),
        }))  # fmt: skip
    for (name, into), source in network.sources.items():
        shape = tuple(areas[source.target_index].neuron_of.shape)
        parts.append((f"of stimulus {name!r} into {into!r}", source, {"weight": shape}))
    for what, state, shapes in parts:
        for name, shape in shapes.items():
            found = tuple(getattr(state, name).shape)
            _require(found == shape, f"{name} {what}", f"of shape {list(shape)}", list(found))


def check_area(what: str, area: AreaState) -> None:
    count, slots = area.winner_count, area.slots
    brains, capacity = area.neuron_of.shape
    _within(f"winner_count {what}", count, 0, area.k)
    sampled = area.slot_of.shape[1] == 0
    _within(f"slots {what}", slots[:, 0], 0, capacity)
    _within(f"support {what}", slots[:, 1], 0, area.n if sampled else capacity)
    _within(f"last_win {what}", area.last_win, 0, area.refractory_period)
    _within(f"bias {what}", area.bias, 0, LARGEST_BIAS)
    _within(f"winners {what}", area.winners, 0, area.n - 1)
    for brain in range(brains):
        fired = area.winners[brain, : int(count[brain])]
        _require((fired.diff() > 0).all(), f"winners {what}", "ascending and distinct")
        used = area.neuron_of[brain, : int(slots[brain, 0])]
        _within(f"neuron_of {what}", used, 0, area.n - 1)
        _require(len(torch.unique(used)) == len(used), f"neuron_of {what}", "distinct", "repeated ones")
        wins, support = int(area.won[brain, : len(used)].ne(0).sum()), int(slots[brain, 1])
        _require(sampled or wins == support, f"support {what}", f"the {wins} neurons that won", support)


def check_fiber(what: str, fiber: FiberState, source: AreaState, target: AreaState) -> None:
    brains, capacity = fiber.next.shape
    # The least sum of a column is 2^-24.
    _within(f"scale {what}", fiber.scale, 0, FIXED_ONE)
    _within(f"chunks {what}", fiber.chunks, 0, capacity)
    for brain in range(brains):
        used, target_slots = int(fiber.chunks[brain]), int(target.slots[brain, 0])
        head, length, next = fiber.head[brain].long(), fiber.length[brain].long(), fiber.next[brain, :used].long()
        # A chunk's predecessor is older, so that every list ends.
        _within(f"next {what}", next, -1, torch.arange(used, device=next.device) - 1)
        _within(f"head {what}", head, -1, used - 1)
        _require((length >= 0).all(), f"length {what}", "at least 0", int(length.min()) if len(length) else 0)
        _require(((head < 0) == (length == 0)).all(), f"length {what}", "above 0 exactly where there are edges")
        _within(f"known {what}", fiber.known[brain], 0, target_slots)
        # As many chunks as a row's length asks for: follow all lists at once.
        left, chunk = (length + EDGES_PER_CHUNK - 1) // EDGES_PER_CHUNK, head
        while bool((left > 0).any()):
            live = left > 0
            left, chunk = left[live], chunk[live]
            _require((chunk >= 0).all(), f"length {what}", "that of its chunks", "more")
            left, chunk = left - 1, next[chunk]
            _require((chunk[left == 0] == -1).all(), f"length {what}", "that of its chunks", "less")
        _, columns, weights = fiber.edges(brain)
        _within(f"target {what}", columns, 0, target_slots - 1)
        _within(f"weight {what}", weights, int(fiber.procedural), largest_weight(source.k))


def _check_stimulus(what: str, source: StimulusState, target: AreaState) -> None:
    for brain, weight in enumerate(source.weight):
        slots = int(target.slots[brain, 0])
        # 0 before anything has grown; then sums of weights of at least 1.
        least = source.counts[brain, target.neuron_of[brain, :slots].long()].float()
        grown = weight[:slots] != 0
        _within(f"weight {what}", weight[:slots][grown], least[grown], least.clamp(min=LARGEST_WEIGHT)[grown])
        _within(f"weight {what}, where nothing fired,", weight[slots:], 0, 0)
