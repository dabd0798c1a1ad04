"""The tensors of a brain: areas, fibers and stimuli, with a leading dimension of brains.

A slot is a neuron that was ever active, numbered in the order of first activity; potentiated edges are kept between
slots, sixteen to a chunk. Buffers that are persistent determine the brain; the others are caches that follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from torch_hrr._checks import integer as check_integer

EDGES_PER_CHUNK = 16
FIXED_ONE = 1 << 24
"""Inputs are multiples of 2^-24: csrc and the kernels count in these."""
LARGEST_WEIGHT = 2.0**24
LARGEST_BIAS = 1 << 61


def largest_weight(k: int) -> float:
    """Of synapses from an area of k winners, as csrc limits it: no sum of k of them is cut; a float32, as they are."""
    return float(torch.tensor(min(LARGEST_WEIGHT, 2.0**35 / k), dtype=torch.float32, device="cpu"))


# Of a table of edges before anything was learned, all brains together.
_FIRST_BYTES = 64 << 20
# How much of an area fires before its winners stay, in multiples of these and by beta: 4 at .05, 2.5 at .1, 1.6 at .25.
_GROWTH = 0.15
_BYTES_PER_CHUNK = 4 + EDGES_PER_CHUNK * (4 + 4)


def is_capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is being captured: nothing runs until it is replayed, so that nothing can be read."""
    if device.type != "cuda" or not torch.cuda.is_initialized():
        return False
    return torch.cuda.is_current_stream_capturing()


def packed_brains(brains: set[int], count: int) -> bool | list[int]:
    """A set of brains as files hold it: all of them as True, none as False."""
    return len(brains) == count if len(brains) in (0, count) else sorted(brains)


def unpacked_brains(packed: Any, count: int) -> set[int]:
    """The set that `packed_brains` packed; ValueError or TypeError for anything else."""
    if isinstance(packed, bool):
        return set(range(count)) if packed else set()
    brains = {check_integer("load", "brains", brain, least=0, most=count - 1) for brain in packed}
    if packed_brains(brains, count) != packed:
        raise ValueError(f"load: brains must ascend and be some of {count}, got {packed}")
    return brains


def packed_locks(locks: Mapping[int, set[int]], count: int) -> list[Any]:
    """Locks as files hold them: a number where all brains are locked, else the number with the brains."""
    return [lock if len(locks[lock]) == count else [lock, sorted(locks[lock])] for lock in sorted(locks) if locks[lock]]


def unpacked_locks(packed: Any, count: int) -> dict[int, set[int]]:
    """The locks that `packed_locks` packed; ValueError or TypeError for anything else."""
    locks: dict[int, set[int]] = {}
    for entry in packed:
        lock, brains = (entry[0], unpacked_brains(entry[1], count)) if isinstance(entry, list) else (entry, None)
        locks[check_integer("load", "lock", lock)] = set(range(count)) if brains is None else brains
    if packed_locks(locks, count) != packed:
        raise ValueError(f"load: locks must ascend, got {packed}")
    return locks


class State(nn.Module):
    """A module of buffers whose sizes grow and whose dtypes never change."""

    order: ClassVar[tuple[str, ...]]
    """Of the buffers that the operator reads."""
    by_slots: ClassVar[dict[str, int]]
    """Those with an element for each slot, and what it is at first."""

    def tensors(self) -> list[Tensor]:
        """As the operator reads them."""
        return [getattr(self, name) for name in self.order]

    def hold(self, name: str, tensor: Tensor, persistent: bool = True) -> None:
        """Registers or replaces a buffer."""
        if is_capturing(tensor.device):
            # Every replay would make it anew.
            raise RuntimeError(
                "tables of a brain must exist before a CUDA graph is captured: make the call once before"
            )
        self.register_buffer(name, _writable(tensor), persistent=persistent)

    def clear(self) -> None:
        """Back to what it was before anything fired."""
        raise NotImplementedError

    def reserve(self, slots: int) -> None:
        """Memory for that many slots: of an area, of the source of a fiber, of the target of a stimulus."""
        self.grow(slots, **self.by_slots)

    def grow(self, size: int, **fills: float) -> None:
        """Makes dimension 1 of buffers `size` long, all of them or, without memory, none; new elements get the fill."""
        grown = {}
        for name, fill in fills.items():
            old: Tensor = getattr(self, name)
            if old.shape[1] < size:
                shape = (old.shape[0], size, *old.shape[2:])
                # Zeros that are new to the process take no memory before they are written to.
                grown[name] = old.new_full(shape, fill) if fill else old.new_zeros(shape)
                grown[name][:, : old.shape[1]] = old
        for name, tensor in grown.items():
            self.hold(name, tensor, name not in self._non_persistent_buffers_set)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        # Devices change, dtypes do not: a half() of a model that holds a brain leaves weights and counts as they are.
        for name, buffer in self._buffers.items():
            if buffer is not None:
                moved = fn(buffer)
                self._buffers[name] = _writable(moved if moved.dtype == buffer.dtype else buffer.to(moved.device))
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Of a copy.
        module: Any = super()
        module.__setstate__(state)
        self._buffers = {
            name: buffer if buffer is None else _writable(buffer) for name, buffer in self._buffers.items()
        }

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        for name, buffer in list(self._buffers.items()):
            key = prefix + name
            if buffer is None or name in self._non_persistent_buffers_set or key not in state_dict:
                continue
            found = state_dict[key]
            if isinstance(found, Tensor) and found.dtype == buffer.dtype and found.dim() == buffer.dim():
                self._buffers[name] = _writable(torch.empty(found.shape, dtype=found.dtype, device=buffer.device))
                # With assign=True too: half of a brain cannot be on another device.
                state_dict = {**state_dict, key: _writable(found.to(buffer.device))}
        super()._load_from_state_dict(state_dict, prefix, *args)


def _writable(tensor: Tensor) -> Tensor:
    """The tensor, or, made in inference mode, a copy that rounds outside of it may change."""
    if not tensor.is_inference():
        return tensor
    with torch.inference_mode(False):
        return tensor.clone()


class AreaState(State):
    """One area of every brain of the batch."""

    winners: Tensor
    winner_count: Tensor
    slot_of: Tensor
    neuron_of: Tensor
    won: Tensor
    slots: Tensor
    bias: Tensor
    last_win: Tensor
    penalties: Tensor

    order = ("winners", "winner_count", "slot_of", "neuron_of", "won", "slots", "bias", "last_win", "penalties")
    by_slots: ClassVar[dict[str, int]] = {"neuron_of": 0, "won": 0}

    def __init__(self, index: int, config: Mapping[str, Any], brains: int, device: torch.device) -> None:
        """Silent, without slots."""
        super().__init__()
        self.index = index
        self.n: int = config["n"]
        self.k: int = config["k"]
        self.beta: float = config["beta"]
        self.w_max: float | None = config["w_max"]
        self.normalize: bool = config["normalize"]
        self.refracted: float = config["refracted"]
        self.refractory_period: int = config["refractory_period"]
        self.inhibition_strength: float = config["inhibition_strength"]
        self.ties: str = config.get("ties", "index")
        self.tie_id: int = config["tie_id"]
        # The brains in which the winners stay, and those that each lock inhibits.
        self.fixed: set[int] = set()
        self.locks: dict[int, set[int]] = {}
        self.normalized: set[str] = set(config.get("normalized", ()))
        self.hold("winners", torch.zeros(brains, self.k, dtype=torch.int64, device=device))
        self.hold("winner_count", torch.zeros(brains, dtype=torch.int64, device=device))
        # A sampled brain has neurons of its own numbering elsewhere.
        mapped = 0 if config.get("sampled", False) else self.n
        self.hold("slot_of", torch.full((brains, mapped), -1, dtype=torch.int32, device=device), persistent=False)
        self.hold("neuron_of", torch.zeros(brains, 0, dtype=torch.int32, device=device))
        self.hold("won", torch.zeros(brains, 0, dtype=torch.uint8, device=device))
        self.hold("slots", torch.zeros(brains, 2, dtype=torch.int64, device=device))
        self.hold("bias", torch.zeros(brains, self.n if self.refracted else 0, dtype=torch.int64, device=device))
        period = self.refractory_period
        # Rounds since the last win, at most the period: nothing has won yet.
        self.hold("last_win", torch.full((brains, self.n if period else 0), period, dtype=torch.int32, device=device))
        strength = round(self.inhibition_strength * FIXED_ONE)
        fading = [strength * (period - age) // period for age in range(period)]
        self.hold("penalties", torch.tensor(fading, dtype=torch.int64, device=device), persistent=False)

    def config(self) -> dict[str, Any]:
        """Everything but tensors."""
        brains = len(self.winner_count)
        # Only where it is not the default: files of areas without it are what they always were.
        ties = {} if self.ties == "index" else {"ties": self.ties}
        return {
            "n": self.n, "k": self.k, "beta": self.beta, "w_max": self.w_max, "normalize": self.normalize,
            "refracted": self.refracted, "refractory_period": self.refractory_period,
            "inhibition_strength": self.inhibition_strength, "fixed": packed_brains(self.fixed, brains),
            "locks": packed_locks(self.locks, brains), "normalized": sorted(self.normalized), **ties,
        }  # fmt: skip

    def clear(self) -> None:
        """See State."""
        for tensor in (self.winner_count, self.slots, self.won, self.bias):
            tensor.zero_()
        self.slot_of.fill_(-1)
        self.last_win.fill_(self.refractory_period)

    def derive(self) -> None:
        """Makes slot_of from neuron_of."""
        self.slot_of.fill_(-1)
        for brain in range(len(self.slots)):
            count = int(self.slots[brain, 0])
            neurons = self.neuron_of[brain, :count].long()
            self.slot_of[brain].index_copy_(0, neurons, torch.arange(count, dtype=torch.int32, device=neurons.device))

    def layout(self, fixed: bool, plastic: bool) -> list[int]:
        """As the operator reads it, for brains in which the winners stay or do not, and learn or do not."""
        # The bias counts wins for good: it is learned. Penalties fade by themselves, without plasticity, too.
        growth = round(self.refracted * FIXED_ONE) if plastic else 0
        return [
            self.n, self.k, int(fixed), growth, self.refractory_period, int(self.ties == "keyed"), self.tie_id,
        ]  # fmt: skip


class FiberState(State):
    """The synapses from one area into one area, of every brain of the batch."""

    counts: Tensor
    delivered: Tensor
    delivered_count: Tensor
    head: Tensor
    length: Tensor
    known: Tensor
    next: Tensor
    target: Tensor
    weight: Tensor
    chunks: Tensor
    scale: Tensor
    degrees: Tensor
    sums: Tensor

    order = (
        "counts", "delivered", "delivered_count", "head", "length", "known", "next", "target", "weight", "chunks",
        "scale", "sums",
    )  # fmt: skip
    by_slots: ClassVar[dict[str, int]] = {"head": -1, "length": 0, "known": 0}
    by_chunks = ("next", "target", "weight")

    def __init__(
        self, source: AreaState, target: AreaState, config: Mapping[str, Any], brains: int, device: torch.device
    ) -> None:
        """Without potentiated edges."""
        super().__init__()
        self.source_index, self.target_index = source.index, target.index
        self.target_k = target.k
        self.id: int = config["id"]
        self.p: float = config["p"]
        self.w_max: float | None = config["w_max"]
        self.procedural: bool = config["procedural"]
        integers: dict[str, Any] = {"dtype": torch.int32, "device": device}
        # Nothing is read of it before the first delivery: brains whose fiber is not in use take no memory for it.
        self.hold("counts", torch.empty(brains, target.n if self.procedural else 0, **integers), persistent=False)
        self.hold("delivered", torch.zeros(brains, source.k, dtype=torch.int64, device=device), persistent=False)
        self.hold("delivered_count", torch.full((brains,), -1, dtype=torch.int64, device=device), persistent=False)
        for name in ("head", "length", "known"):
            self.hold(name, torch.zeros(brains, 0, **integers))
        self.hold("next", torch.zeros(brains, 0, **integers))
        self.hold("target", torch.zeros(brains, 0, EDGES_PER_CHUNK, **integers))
        self.hold("weight", torch.zeros(brains, 0, EDGES_PER_CHUNK, dtype=torch.float32, device=device))
        self.hold("chunks", torch.zeros(brains, dtype=torch.int64, device=device))
        self.hold("scale", torch.zeros(brains, 0, dtype=torch.float64, device=device))
        # Synapses of the random graph onto each target, of a fiber that was normalised.
        self.hold("degrees", torch.zeros(brains, 0, **integers), persistent=False)
        # Sums of the columns in units of 2^-24, which rounds keep up to date where they divide by them every time.
        self.forget_sums()

    def config(self) -> dict[str, Any]:
        """Everything but tensors."""
        return {
            "source": self.source_index, "target": self.target_index, "id": self.id, "p": self.p,
            "w_max": self.w_max, "procedural": self.procedural, "locks": [],
        }  # fmt: skip

    def clear(self) -> None:
        """See State."""
        self.head.fill_(-1)
        for tensor in (self.length, self.known, self.chunks):
            tensor.zero_()
        self.forget_counts()
        self.forget_sums()

    def reserve_chunks(self, chunks: int) -> None:
        """Memory for that many chunks of edges."""
        self.grow(chunks, **dict.fromkeys(self.by_chunks, 0))

    def reserve_to_learn(self, beta: float) -> None:
        """Memory for a first assembly and its growth, within bounds: rounds that lack more say so and run again."""
        if not self.procedural or self.next.shape[1]:
            return
        # As many times the winners as fire until they come to rest, which take fewer rounds the faster synapses grow.
        times = min(4.0, 1 + _GROWTH / beta)
        # So many rows, each with edges to so many winners of the target, and one chunk that is not full.
        k, target_k = self.delivered.shape[1], self.target_k
        chunks = math.ceil(times * k * (1 + times * target_k * self.p / EDGES_PER_CHUNK))
        self.reserve_chunks(min(chunks, _FIRST_BYTES // (_BYTES_PER_CHUNK * len(self.next))))

    def forget_sums(self) -> None:
        """The sums no longer belong to the synapses."""
        self.hold("sums", torch.zeros(len(self.chunks), 0, dtype=torch.int64, device=self.chunks.device), False)

    def forget_counts(self) -> None:
        """The counts no longer belong to any winners."""
        self.delivered_count.fill_(-1)

    def edges(self, brain: int, slots: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Source slots, target slots and weights of the known edges of one brain, out of these slots or of all."""
        length = self.length[brain].long()
        row = torch.arange(len(length), device=length.device) if slots is None else slots
        rows, targets, weights = [], [], []
        chunk, left = self.head[brain, row].long(), length[row]
        place = torch.arange(EDGES_PER_CHUNK, device=length.device)
        while len(row):
            live = left > 0
            chunk, left, row = chunk[live], left[live], row[live]
            # Only a row's first chunk may be part full.
            filled = (left - 1) % EDGES_PER_CHUNK + 1
            used = place < filled.unsqueeze(-1)
            rows.append(row.unsqueeze(-1).expand(-1, EDGES_PER_CHUNK)[used])
            targets.append(self.target[brain, chunk][used].long())
            weights.append(self.weight[brain, chunk][used])
            chunk, left = self.next[brain, chunk].long(), left - filled
        none = torch.zeros(0, dtype=torch.int64, device=length.device)
        return torch.cat([none, *rows]), torch.cat([none, *targets]), torch.cat([none.float(), *weights])


class StimulusState(State):
    """The synapses from one stimulus into one area, of every brain of the batch."""

    counts: Tensor
    weight: Tensor

    order = ("counts", "weight")
    by_slots: ClassVar[dict[str, int]] = {"weight": 0}

    def __init__(self, target: AreaState, config: Mapping[str, Any], brains: int, device: torch.device) -> None:
        """Before any plasticity; `counts` are drawn by the brain."""
        super().__init__()
        self.stimulus: str = config["stimulus"]
        self.target_index = target.index
        self.id: int = config["id"]
        self.hold("counts", torch.zeros(brains, target.n, dtype=torch.int32, device=device), persistent=False)
        self.hold("weight", torch.zeros(brains, target.neuron_of.shape[1], dtype=torch.float32, device=device))

    def config(self) -> dict[str, Any]:
        """Everything but tensors."""
        return {"stimulus": self.stimulus, "target": self.target_index, "id": self.id}

    def clear(self) -> None:
        """See State."""
        self.weight.zero_()
