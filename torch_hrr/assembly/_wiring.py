"""What a brain consists of: areas, stimuli, fibers, their tensors, and files of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from torch_hrr import _storage
from torch_hrr._checks import check_bool
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._connect import chunked_edges, column_scale
from torch_hrr.assembly._files import check_loaded, check_same_brain, declare, load_engine, restore, set_flags
from torch_hrr.assembly._sampled import SampledEngine
from torch_hrr.assembly._state import AreaState, FiberState, StimulusState, largest_weight
from torch_hrr.runtime import resolve_device

_ops = torch.ops.torch_hrr
# The largest, in units of a fresh synapse: counted in 2^-24, sums of penalties stay far from 64 bits.
_PENALTY = 2.0**20
_FORMAT, _VERSION = "torch_hrr.assembly.Brain", 1


def fiber_id(kind: str, source: str, target: str) -> int:
    """A fiber's name as 64 bits, from the names alone: declaration order is nothing."""
    text = f"{kind}{len(source)}:{source}{target}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little", signed=True)


class Wiring(nn.Module):
    """The parts of a brain by name. `Brain` says what they mean."""

    def __init__(
        self,
        p: float = 0.01,
        seed: int = 0,
        mode: str = "exact",
        device: str | torch.device = "cpu",
        batch: int | None = None,
    ) -> None:
        """See `Brain`."""
        super().__init__()
        self.p = checks.probability("Brain", "p", p)
        self.seed = checks.signed_seed("Brain", seed)
        self.mode = checks.choice("Brain", "mode", mode, ("exact", "sampled"))
        self.batch = None if batch is None else checks.integer("Brain", "batch", batch, least=1)
        self._given_device = checks.device("Brain", resolve_device(device))
        self._brains = self.batch or 1
        self._engines: list[SampledEngine] = []
        if self.mode == "sampled":
            seeds = [fiber_id("sampled", str(self.seed), str(brain)) for brain in range(self._brains)]
            self._engines = [SampledEngine(self.p, seed, self._given_device) for seed in seeds]
        self._plastic = True
        self._areas: dict[str, AreaState] = {}
        self._stimuli: dict[str, int] = {}
        self._fibers: dict[tuple[str, str], FiberState] = {}
        self._sources: dict[tuple[str, str], StimulusState] = {}
        self._locks: dict[tuple[str, str], set[int]] = {}
        self._betas: dict[tuple[str, str], float] = {}
        self._hooks: list[Callable[[Any], None]] = []
        self.states = nn.ModuleList()
        # Also where the brain is a part of a module that is loaded.
        self.register_load_state_dict_post_hook(check_loaded)  # type: ignore[no-untyped-call]

    # Declarations

    def add_stimulus(self, name: str, size: int) -> None:
        """Declares a stimulus of `size` neurons that fire together.

        Its sums ``S_j ~ Binomial(size, p)`` onto an area are drawn when it first fires into it.

        Raises:
            ValueError: the name is taken or empty, or size is negative.
        """
        self._check_new("add_stimulus", name)
        self._stimuli[name] = checks.integer("add_stimulus", "size", size, least=0, most=2**31 - 2)
        for engine in self._engines:
            engine.add_stimulus(name, self._stimuli[name])

    def add_area(
        self,
        name: str,
        n: int,
        k: int,
        beta: float = 0.05,
        refracted: bool | float = False,
        normalize: bool = False,
        w_max: float | None = None,
        refractory_period: int = 0,
        inhibition_strength: float = 0.0,
    ) -> None:
        """Declares an area.

        Args:
            name: unique among areas and stimuli.
            n: neurons, below 2^31 - 1.
            k: winners, 0 < k <= n.
            beta: plasticity of every fiber into the area that has none of its own, >= 0.
            refracted: what a win adds to a bias that is taken from the neuron's input for ever; True is 1.
            normalize: whether the columns of fibers into the area are normalised before every round (`normalize`). What
                areas fire into it is then at most 1 each, and a stimulus, which is not scaled, outweighs it.
            w_max: largest weight of a synapse, >= 1; None: 2^24, or 2^35 / k of the source where that is less.
            refractory_period: rounds during which a winner is inhibited: by `inhibition_strength` in the first round
                after its win, then less, linearly, down to nothing.
            inhibition_strength: in units of a fresh synapse, >= 0; above 0 only with a refractory period.

        Raises:
            ValueError: a value out of range, the name is taken, or an option that would do nothing.
        """
        self._check_new("add_area", name)
        neurons = checks.integer("add_area", "n", n, least=1, most=2**31 - 2)
        config: dict[str, Any] = {
            "n": neurons,
            "beta": checks.number("add_area", "beta", beta, least=0),
            "refracted": checks.number(
                "add_area", "refracted", float(refracted) if isinstance(refracted, bool) else refracted, 0, _PENALTY
            ),
            "normalize": normalize,
            "w_max": None if w_max is None else checks.number("add_area", "w_max", w_max, least=1),
            "refractory_period": checks.integer(
                "add_area", "refractory_period", refractory_period, least=0, most=2**16
            ),
            "inhibition_strength": checks.number("add_area", "inhibition_strength", inhibition_strength, 0, _PENALTY),
        }
        config["k"] = checks.integer("add_area", "k", k, least=1, most=neurons, limit="n")
        check_bool("add_area", "normalize", normalize)
        exact = ("refracted", "normalize", "refractory_period", "inhibition_strength")
        if self._engines and any(config[option] for option in exact):
            raise ValueError(f"add_area: {', '.join(exact)} must not be given in mode 'sampled'")
        if config["inhibition_strength"] and not config["refractory_period"]:
            raise ValueError("add_area: refractory_period must be at least 1 with inhibition_strength, got 0")
        self._add_area(name, config)

    def connect(
        self,
        source: str,
        target: str,
        p: float | None = None,
        beta: float | None = None,
        w_max: float | None = None,
        edges: Tensor | None = None,
    ) -> None:
        """Sets what is special about the fiber from area `source` to area `target`, before it is first used.

        Args:
            source: an area.
            target: an area.
            p: density of its connectome; the brain's by default.
            beta: its plasticity; the target's by default.
            w_max: largest weight of its synapses; the target's by default.
            edges: a graph of the user's own in place of the random one: a sparse (or dense) tensor ``[n_source,
                n_target]`` of weights in 0..`w_max`, rounded to float32; every brain of a batch gets the same. Random
                fibers into a neuron with such an edge keep its synapses in their tables as if it had won: up to
                n_target p for each neuron that fires while they learn, 8 bytes each.

        Raises:
            ValueError: unknown names, the fiber exists already, or values out of range.
            RuntimeError: `edges` has another shape.
        """
        pair = (self._area("connect", source), self._area("connect", target))
        self._check_exact("connect")
        if (source, target) in self._fibers:
            raise ValueError(f"connect: the fiber must not have been used, got {source!r} to {target!r}")
        config = self._fiber_config(source, target)
        config["p"] = self.p if p is None else checks.probability("connect", "p", p)
        config["w_max"] = None if w_max is None else checks.number("connect", "w_max", w_max, least=1)
        own_beta = None if beta is None else checks.number("connect", "beta", beta, least=0)
        table = None
        if edges is not None:
            if p is not None:
                raise ValueError("connect: p must not be given with edges")
            w_max = pair[1].w_max if w_max is None else w_max
            table = checks.own_graph("connect", edges, pair[0].n, pair[1].n, largest_weight(pair[0].k), w_max)
            config["procedural"] = False
        fiber = self._add_fiber(source, target, config)
        if own_beta is not None:
            self._betas[target, source] = own_beta
        if table is not None:
            chunked_edges(table, pair[0], pair[1], fiber)
            if source in pair[1].normalized:
                fiber.hold("scale", column_scale(pair[0], pair[1], fiber, self.seed))
            self._reserve(0)

    add_fiber = connect

    def set_beta(self, source: str, target: str, beta: float) -> None:
        """Sets the plasticity of the fiber from `source`, an area or a stimulus, to the area `target`."""
        self._area("set_beta", target)
        if not isinstance(source, str) or source not in self._stimuli:
            self._area("set_beta", source)
        self._betas[target, source] = checks.number("set_beta", "beta", beta, least=0)

    # Files

    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """Writes the brain to a checked safetensors file, from which `load` goes on with the same bits.

        Args:
            path: the file, replaced in one step.
            key: with it the file is sealed by HMAC.
        """
        _storage.save(path, *self._content(), format=_FORMAT, version=_VERSION, key=key)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | torch.device = "cpu", key: bytes | None = None) -> Self:
        """Reads a brain that `save` wrote.

        Raises:
            IntegrityError: the file is damaged or holds something else.
        """
        tensors, config = _storage.load(path, format=_FORMAT, version=_VERSION, key=key)
        return restore(cls, os.fsdecode(path), tensors, config, device)

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {name: tensor.cpu() for name, tensor in self.state_dict().items() if isinstance(tensor, Tensor)}
        return tensors, self.get_extra_state()

    def get_extra_state(self) -> dict[str, Any]:
        """Everything but tensors, as plain values."""
        return {
            "p": self.p, "seed": self.seed, "mode": self.mode, "batch": self.batch, "plastic": self._plastic,
            "stimuli": [[name, size] for name, size in self._stimuli.items()],
            "areas": [[name, area.config()] for name, area in self._areas.items()],
            "fibers": [[*pair, fiber.config()] for pair, fiber in self._fibers.items()],
            "sources": [[*pair, source.config()] for pair, source in self._sources.items()],
            "locks": [[*pair, sorted(locks)] for pair, locks in self._locks.items() if locks],
            "betas": [[*pair, beta] for pair, beta in self._betas.items()],
            "order": [self._kind(state) for state in self.states],
        }  # fmt: skip

    def set_extra_state(self, state: Any) -> None:
        """Declares what a state describes in a brain without areas; in another one, takes over its flags.

        Raises:
            ValueError: the state is that of a brain with another graph or other declarations.
        """
        check_same_brain(self, state)
        if not self.states and not self._stimuli:
            declare(self, state)
            return
        mine = self.get_extra_state()
        for part in ("fibers", "sources"):
            if [entry[:2] for entry in mine[part]] != [entry[:2] for entry in state[part]]:
                raise ValueError(f"load_state_dict: {part} must be those of the brain, got others")
        if mine["order"] != state["order"]:
            raise ValueError("load_state_dict: parts must be in the brain's order, got another")
        set_flags(self, state)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Takes over a whole state, of a brain with the same p, seed, mode and batch.

        A brain without areas gets those of the state; in another one areas and stimuli must be the same. What
        `state_dict` gives is the live tensors, as of any module: a state to come back to is a ``copy.deepcopy`` of it.

        Raises:
            TypeError: `state_dict` is no mapping.
            ValueError, RuntimeError: the state does not fit, or later rounds have torn it; the brain is unchanged.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: state_dict must be a mapping, got {type(state_dict).__name__}")
        if not isinstance(state_dict.get("_extra_state"), Mapping):
            raise RuntimeError("load_state_dict: state must hold the entry _extra_state of a brain")
        check_same_brain(self, state_dict["_extra_state"])
        fresh = type(self).__new__(type(self))
        Wiring.__init__(fresh, self.p, self.seed, self.mode, self._device, self.batch)
        declare(fresh, state_dict["_extra_state"])
        result = nn.Module.load_state_dict(fresh, state_dict, strict=strict, assign=assign)
        for name in ("_plastic", "_areas", "_stimuli", "_fibers", "_sources", "_locks", "_betas", "_engines", "states"):
            setattr(self, name, getattr(fresh, name))
        return result

    def extra_repr(self) -> str:
        """Density, seed and names."""
        areas = ", ".join(f"{name}: n={area.n}, k={area.k}" for name, area in self._areas.items())
        stimuli = ", ".join(f"{name}: {size}" for name, size in self._stimuli.items())
        graph = f"p={self.p}, seed={self.seed}, mode={self.mode!r}, batch={self.batch}"
        return f"{graph}, areas=({areas}), stimuli=({stimuli})"

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for brain, engine in enumerate(self._engines):
            for name, tensor in engine.state().items():
                destination[f"{prefix}sampled.{brain}.{name}"] = tensor

    @torch.inference_mode(False)
    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        unexpected = args[3]
        for brain, engine in enumerate(self._engines):
            start = f"{prefix}sampled.{brain}."
            load_engine(engine, {key.removeprefix(start): t for key, t in state_dict.items() if key.startswith(start)})
            unexpected[:] = [key for key in unexpected if not key.startswith(start)]

    # What areas share

    @property
    def _device(self) -> torch.device:
        """Where its tensors are; before there are any, where they will be."""
        first = next(self.buffers(), None)
        return self._given_device if first is None else first.device

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        here = torch.empty(0, device=self._device)
        there = checks.device("Brain", fn(here).device)
        if self._engines and there != here.device:
            raise RuntimeError(f"Brain: device must stay {here.device} in mode 'sampled', got {there}")
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._given_device = there
        return self

    def _unbatched(self, tensor: Tensor) -> Tensor:
        return tensor[0] if self.batch is None else tensor

    @staticmethod
    def _kind(state: nn.Module) -> str:
        return "area" if isinstance(state, AreaState) else "fiber" if isinstance(state, FiberState) else "source"

    def _check_new(self, op: str, name: str) -> None:
        checks.name(op, name)
        if name in self._areas or name in self._stimuli:
            raise ValueError(f"{op}: name must be new, got {name!r}")

    def _check_exact(self, op: str) -> None:
        if self._engines:
            raise ValueError(f"{op}: mode must be 'exact', got 'sampled'")

    def _area(self, op: str, name: str) -> AreaState:
        return self._areas[checks.declared(op, "area", name, self._areas)]

    def _beta(self, source: str, target: str) -> float:
        return self._betas.get((target, source), self._areas[target].beta)

    def _add_area(self, name: str, config: Mapping[str, Any]) -> AreaState:
        self._areas[name] = AreaState(
            len(self._areas), {**config, "sampled": bool(self._engines)}, self._brains, self._device
        )
        for engine in self._engines:
            engine.add_area(name, config["n"], config["k"], config["beta"], config["w_max"])
        self.states.append(self._areas[name])
        return self._areas[name]

    def _fiber_config(self, source: str, target: str) -> dict[str, Any]:
        return {"id": fiber_id("area", source, target), "p": self.p, "w_max": None, "procedural": True}

    def _add_fiber(self, source: str, target: str, config: Mapping[str, Any]) -> FiberState:
        from_area, into = self._areas[source], self._areas[target]
        fiber = FiberState(from_area, into, config, self._brains, self._device)
        fiber.reserve(from_area.neuron_of.shape[1])
        if source in into.normalized:
            fiber.hold("scale", column_scale(from_area, into, fiber, self.seed))
        self._fibers[source, target] = fiber
        self.states.append(fiber)
        return fiber

    def _fiber(self, source: str, target: str) -> FiberState:
        known = self._fibers.get((source, target))
        return known if known is not None else self._add_fiber(source, target, self._fiber_config(source, target))

    def _source(self, stimulus: str, target: str) -> StimulusState:
        if (stimulus, target) not in self._sources:
            config = {"stimulus": stimulus, "id": fiber_id("stimulus", stimulus, target)}
            self._add_source(stimulus, target, config)
        return self._sources[stimulus, target]

    def _counts(self, stimulus: str, target: str) -> Tensor:
        """int32 [brains, n], drawn where the stimulus never fired into the area: reading declares nothing."""
        if (stimulus, target) in self._sources:
            return self._sources[stimulus, target].counts
        counts = torch.empty(self._brains, self._areas[target].n, dtype=torch.int32, device=self._device)
        id = fiber_id("stimulus", stimulus, target)
        _ops._stimulus_counts_(counts, self._stimuli[stimulus], self.p, self.seed, id)
        return counts

    def _add_source(self, stimulus: str, target: str, config: Mapping[str, Any]) -> StimulusState:
        state = StimulusState(self._areas[target], config, self._brains, self._device)
        state.hold("counts", self._counts(stimulus, target), persistent=False)
        self._sources[stimulus, target] = state
        self.states.append(state)
        return state

    def _reserve_area(self, area: AreaState, slots: int) -> None:
        """Memory for that many slots of an area, in all that is numbered by them."""
        if area.neuron_of.shape[1] >= slots:
            slots = area.neuron_of.shape[1]
        area.reserve(slots)
        for fiber in self._fibers.values():
            if fiber.source_index == area.index:
                fiber.reserve(slots)
        for source in self._sources.values():
            if source.target_index == area.index:
                source.reserve(slots)

    def _reserve(self, slots: int) -> None:
        for area in self._areas.values():
            self._reserve_area(area, slots)
