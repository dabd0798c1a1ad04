"""A network with its engine as a module of torch: state_dict, files, copies and devices."""

from __future__ import annotations

import copy
import multiprocessing
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from torch_hrr._checks import named
from torch_hrr._repr import Described, DescribedModule, place_of
from torch_hrr._shared import CopiedWhole, Lock, lock_public_calls, locked
from torch_hrr._spec import Choice, Int, Real, Seed, takes
from torch_hrr.assembly import _checkpoint as checkpoint
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._engines import Engine, ExactEngine, SampledEngines
from torch_hrr.assembly._network import Network
from torch_hrr.io import Saveable
from torch_hrr.runtime import resolve_device


class NetworkModule(CopiedWhole, Saveable, DescribedModule):
    """The state of a `Brain` as a module of torch.

    Attributes:
        states: The tensors of areas, fibers and stimuli, as a state_dict holds them.
    """

    _reads_values = True
    _lock: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Threads may share a brain: its public calls, and those of classes made of it, run one at a time."""
        super().__init_subclass__(**kwargs)
        lock_public_calls(cls)

    @takes(p=Real(0, 1), seed=Seed(), mode=Choice(("exact", "sampled")), batch=Int(1).or_none())
    def __init__(
        self,
        p: float = 0.01,
        seed: int = 0,
        mode: str = "exact",
        device: str | int | torch.device | None = "cpu",
        batch: int | None = None,
        seeds: Sequence[int] | Tensor | None = None,
    ) -> None:
        """See `Brain`."""
        super().__init__()
        self._lock = Lock()
        own_seeds = checks.seeds("Brain", seeds, seed, batch)
        self._network = Network(
            p,
            seed,
            mode,
            checks.device("Brain", resolve_device(device, op="Brain")),
            batch if own_seeds is None else len(own_seeds),
            own_seeds,
        )
        self._engine: Engine = (ExactEngine if self.mode == "exact" else SampledEngines)(self._network)
        self._hooks: OrderedDict[int, Callable[[Any], None]] = OrderedDict()
        self.states = self._network.states
        # Also where the brain is a part of a module that is loaded.
        module: Any = self
        module.register_load_state_dict_post_hook(_check_loaded)

    @property
    def p(self) -> float:
        """Density of the connectome."""
        return self._network.p

    @property
    def seed(self) -> int:
        """The seed, as the signed 64-bit integer of the same bits; 0 where each brain has its own."""
        return self._network.seed

    @property
    def seeds(self) -> tuple[int, ...] | None:
        """The seed of each brain of a batch, as `seed`, or None where all of them share that."""
        return self._network.seeds

    @property
    def mode(self) -> str:
        """How rounds are made: "exact" or "sampled"."""
        return self._network.mode

    @property
    def batch(self) -> int | None:
        """The number of independent brains, or None for one without a leading dimension."""
        return self._network.batch

    @property
    def device(self) -> torch.device:
        """The device of its tensors."""
        return self._network.device

    @property
    def version(self) -> int:
        """A number that grows with every call that may change a synapse, and so may outdate what was read before."""
        return self._network.version

    def _declare_area(
        self, name: str, *arguments: Any, op: str = "add_area", argument: str = "name", **options: Any
    ) -> None:
        """An area, also for a call of another name than `add_area`, or with another name of its first argument."""
        checks.new(op, name, (self._network.areas, self._network.stimuli), argument)
        with named("add_area", op):
            self._network.declare_area(name, *arguments, **options)
        self._engine.add_area(name)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: bytes | None = None,
        *,
        device: torch.device | str | int | None = "cpu",
        **options: Any,
    ) -> Self:
        """As `Saveable.load`, onto the CPU unless another device is given."""
        return super().load(path, key, device=device, **options)

    @locked
    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {name: tensor.cpu() for name, tensor in self.state_dict().items() if isinstance(tensor, Tensor)}
        return tensors, self.get_extra_state()

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        place = resolve_device(device)
        checkpoint.check_sizes(tensors, metadata)
        own = {"seeds": metadata["seeds"]} if "seeds" in metadata else {}
        brain = cls(metadata["p"], metadata["seed"], metadata["mode"], place, metadata["batch"], **own)
        checkpoint.declare(brain._network, brain._engine, metadata)
        nn.Module.load_state_dict(brain, {**tensors, "_extra_state": brain.get_extra_state()})
        return brain

    def get_extra_state(self) -> dict[str, Any]:
        """Everything but tensors, as plain values."""
        return checkpoint.config_of(self._network)

    def set_extra_state(self, state: Any) -> None:
        """Makes the areas, fibers and flags that a state describes, whose tensors are loaded next.

        Raises:
            ValueError: the state is that of a brain with another graph or other declarations; the brain is unchanged.
        """
        with checkpoint.described():
            fresh = self._declared(state) if state != self.get_extra_state() else None
        if fresh is not None:
            self._take_over(fresh)

    def _declared(self, config: Mapping[str, Any]) -> NetworkModule:
        """A brain of the same graph with the declarations of a configuration."""
        checkpoint.check_same_brain(self._network, config)
        fresh = type(self).__new__(type(self))
        NetworkModule.__init__(fresh, self.p, self.seed, self.mode, self.device, self.batch, self.seeds)
        checkpoint.declare(fresh._network, fresh._engine, config)
        fresh._network.version = self.version
        return fresh

    def _take_over(self, fresh: NetworkModule) -> None:
        fresh.states.train(self.states.training)
        self._network, self._engine, self.states = fresh._network, fresh._engine, fresh.states

    @locked
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Takes over a whole state, of a brain with the same p, seed or seeds, mode and batch.

        A brain without areas gets those of the state; otherwise areas and stimuli must be the same. `state_dict` gives
        the live tensors, as for any module: to come back to a state, keep a ``copy.deepcopy`` of it.

        Raises:
            TypeError: `state_dict` is not a mapping.
            ValueError, RuntimeError: the state does not fit, or later rounds have changed a part of it; the brain is
                unchanged.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: state_dict must be a mapping, got {type(state_dict).__name__}")
        config = state_dict.get("_extra_state")
        if not isinstance(config, Mapping):
            raise RuntimeError("load_state_dict: state must hold the entry _extra_state of a brain")
        with checkpoint.described():
            fresh = self._declared(config)
        result = nn.Module.load_state_dict(fresh, state_dict, strict=strict, assign=assign)
        self._take_over(fresh)
        return result

    @locked
    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As that of any module, of one moment; its tensors are the live ones."""
        module: Any = super()
        return module.state_dict(*args, **kwargs)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        checkpoint.save_engines(self._engine, destination, prefix)

    @torch.inference_mode(False)
    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        checkpoint.load_engines(self._engine, state_dict, prefix, args[2], args[3])

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Of pickles, which read what it gives after this call.
        with self._lock:
            reduced: Any = super().__reduce_ex__(protocol)
            function, arguments, state, *rest = reduced
            copied = copy.deepcopy(state)
        # A process that is being started gets tensors by file descriptors, which must stay open until it has them.
        process = multiprocessing.context.get_spawning_popen()
        if process is not None:
            process.__dict__.setdefault("_torch_hrr_copies", []).append(copied)
        return function, arguments, copied, *rest

    def __getstate__(self) -> dict[str, Any]:
        # Hooks stay with the brain they were given to; what is copied together with a brain adds its own.
        state = nn.Module.__getstate__(self)
        del state["_lock"]
        return {**state, "_hooks": OrderedDict()}

    @torch.inference_mode(False)
    def __setstate__(self, state: dict[str, Any]) -> None:
        # Of a copy.
        self.__dict__["_lock"] = Lock()
        module: Any = super()
        module.__setstate__(state)
        for engine in self._engine.brains if isinstance(self._engine, SampledEngines) else ():
            engine.load_state(engine.state())

    @locked
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        here = torch.empty(0, device=self.device)
        there = checks.device("Brain", fn(here).device)
        if self.mode == "sampled" and there != here.device:
            raise RuntimeError(f"Brain: device must stay {here.device} in mode 'sampled', got {there}")
        module: Any = super()
        module._apply(fn, recurse)
        self._network.given_device = there
        return self

    def _summary(self) -> dict[str, Any]:
        network = self._network
        seeds = {"seed": network.seed} if network.seeds is None else {"seeds": network.seeds}
        areas = {name: f"n={area.n}, k={area.k}" for name, area in network.areas.items()}
        own = {"p": network.p, **seeds, "mode": network.mode, "batch": network.batch, **place_of(network.device)}
        return own | {"areas": areas, "stimuli": network.stimuli}

    # What a brain is made of is not to be seen.
    __repr__ = Described.__repr__
    _summary_rows = Described._summary_rows


def _check_loaded(brain: NetworkModule, _: Any = None) -> None:
    checkpoint.check_loaded(brain._network, brain._engine)
