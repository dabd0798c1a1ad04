"""Memories that answer with a vector of their own making: modern Hopfield networks and sparse distributed memory.

An `ItemMemory` gives the nearest of its items; these give a mixture, which gradients pass through, or the mean of what
was written near an address. Both take float32, float64, float16 and bfloat16 and compute in at least float32, under
autocast too. Their matrix products are as deterministic as torch's.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr._autocast import full_precision
from torch_hrr._checks import (
    check_broadcast,
    check_elements,
    check_floating,
    check_vectors,
    may_be_kept,
    number,
    positive,
    resolve_dtype,
    shown,
    tensor,
)
from torch_hrr._ops import ops as _ops
from torch_hrr._random import outside_transforms, seeded_generator
from torch_hrr._repr import place_of
from torch_hrr._shared import locked, writable_anywhere
from torch_hrr._spec import Device, Dtype, Int, Real, takes
from torch_hrr.hrr import functional
from torch_hrr.hrr._held import HeldVectors, SharedVectors
from torch_hrr.hrr.encoders import DEFAULT_SEED
from torch_hrr.hrr.memory import compute_dtype
from torch_hrr.runtime import resolve_device

# Elements that a write spreads over locations at a time.
_SPREAD = 2**24
# Apart from what users draw from the same seed: 64 bits, "sdm" the upper 32.
_LOCATIONS = 0x73646D << 32


class HopfieldMemory(HeldVectors):
    """A modern Hopfield network: ``x := sum_j w_j item_j`` with ``w = softmax_j(beta <x, item_j>)``.

    One step takes a noisy vector to an item, or between items that it is about as near to. Where the items have unit
    norm and the noisy vector a product of 1 with one of them, as what is unbound from a record has however many pairs
    it holds, the others have about exp(-beta) N of the weight, and a beta above 2 ln N lets one item through. The last
    bit of cleanup that `ItemMemory.cleanup` makes by a choice is made here by a formula that has derivatives, in the
    query and in beta. The items are copied and constant.

    Attributes:
        beta: The inverse temperature.

    Source: Ramsauer et al., Hopfield networks is all you need, ICLR 2021.
    """

    file_format = "torch_hrr.hopfield_memory"

    @takes(beta=Real(0, open_left=True).or_none())
    def __init__(self, vectors: Tensor, beta: float | None = None) -> None:
        """Copies the items.

        Args:
            vectors: ``[N, D]``, N and D at least 1, used as they are: of unit norm unless some are to win more often.
            beta: the inverse temperature; None means sqrt(D), which is the source's 1/sqrt(D) for items of the norm
                sqrt(D).

        Raises:
            ValueError: ``vectors`` has another rank or no element.
        """
        super().__init__()
        vectors = tensor("HopfieldMemory", "vectors", vectors)
        check_floating("HopfieldMemory", "vectors", vectors)
        if vectors.dim() != 2 or 0 in vectors.shape:
            raise ValueError(f"HopfieldMemory: vectors must be [N, D] with N, D >= 1, got {list(vectors.shape)}")
        self.beta = vectors.shape[1] ** 0.5 if beta is None else beta
        self._hold(vectors)

    @writable_anywhere
    def _hold(self, vectors: Tensor) -> None:
        self._vectors = vectors.detach().clone()

    @property
    def vectors(self) -> Tensor:
        """A copy of the items, ``[N, D]``."""
        return self._vectors.clone()

    def __len__(self) -> int:
        """Number of items."""
        return len(self._vectors)

    @takes(steps=Int(1))
    def recall(self, query: Tensor, beta: Tensor | float | None = None, steps: int = 1) -> Tensor:
        """The vector after some steps from a query.

        Args:
            query: ``[..., D]``, on the device of the items.
            beta: another inverse temperature, above 0: a number, finite in the dtype that is computed in, or a
                floating-point tensor ``[...]`` that broadcasts with the leading dimensions of the query, whose values
                are not checked.
            steps: number of steps; the energy falls with each, most of it with the first.

        Returns:
            ``[..., D]``, in the wider of the dtypes of query and items. NaN for a query that holds NaN.

        Raises:
            ValueError: D or leading dimensions do not fit, or ``beta`` is a number out of range.
            RuntimeError: the devices differ.

        Cost: O(N D) a step and query, and O(N) memory.
        """
        query, items, beta = self._given("recall", query, beta)
        state = query.to(items.dtype)
        with full_precision(state.device):
            for _ in range(steps):
                state = (beta * (state @ items.mT)).softmax(-1) @ items
        return state.to(torch.promote_types(query.dtype, self._vectors.dtype))

    def energy(self, query: Tensor, beta: Tensor | float | None = None) -> Tensor:
        """``-ln(sum_j exp(beta <x, item_j>)) / beta + <x, x> / 2 + ln(N) / beta + max_j <item_j, item_j> / 2``.

        From 0 on, and never larger after a step of `recall` with the same ``beta``.

        Args:
            query: as for `recall`.
            beta: as for `recall`.

        Returns:
            ``[...]``, at least float32.

        Raises:
            ValueError, RuntimeError: as for `recall`.
        """
        query, items, beta = self._given("energy", query, beta)
        state = query.to(items.dtype)
        with full_precision(state.device):
            scores = (beta * (state @ items.mT)).logsumexp(-1, keepdim=True)
            free = (torch.as_tensor(len(items), dtype=items.dtype, device=items.device).log() - scores) / beta
            return free.squeeze(-1) + (state.square().sum(-1) + items.square().sum(-1).max()) / 2

    def _given(self, op: str, query: Any, beta: Any) -> tuple[Tensor, Tensor, Any]:
        """The query, and in the dtype computed in items and beta, which has a last dimension."""
        dim = self._vectors.shape[1]
        query = check_vectors(op, "query", query, dim, self._vectors.device)
        dtype = compute_dtype(torch.promote_types(query.dtype, self._vectors.dtype))
        # The memory's own may have been changed.
        beta = self.beta if beta is None else beta
        # Of a number that torch.compile holds no shape can be asked.
        plain = isinstance(beta, float | int)
        if isinstance(beta, Tensor) or (not plain and getattr(beta, "shape", ()) != ()):
            beta = check_vectors(op, "beta", beta, device=self._vectors.device, rank=0)
            shape = check_broadcast(op, "query and beta", query.shape[:-1], beta.shape)
            query, beta = query.expand(*shape, dim), beta.to(dtype).unsqueeze(-1)
        else:
            # Weights of an infinite one would be NaN.
            beta = number(op, "beta", beta, 0, torch.finfo(dtype).max, open_left=True)
        return query, self._vectors.to(dtype), beta

    def _summary(self) -> dict[str, Any]:
        number, dim = self._vectors.shape
        return {"dim": dim, "items": number, "beta": self.beta, **place_of(self._vectors.device, self._vectors.dtype)}

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        return self._vectors.shape[1], self._vectors.device, self._vectors.dtype

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        vectors = fn(self._vectors)
        check_floating("to", "vectors", vectors)
        self._vectors = vectors

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"vectors": self._vectors}, {"beta": positive("save", "beta", self.beta)}

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        return cls(tensors["vectors"].to(resolve_device(device)), metadata["beta"])


class SparseDistributedMemory(SharedVectors):
    """Kanerva's memory: what is written at an address is added to the hard locations nearest to it, and read from them.

    M locations have random unit vectors as addresses, which follow from the seed. An address activates the k locations
    with the largest cosines; a write adds a vector to each of them, a read gives the mean of all that was added to
    them::

        value = sum_{active i} (vectors added to i) / sum_{active i} (number of writes to i)

    Of T random vectors of equal norm at random addresses, a read that has j of the k locations in common with one of
    them has a cosine of about ``1 / sqrt(1 + (T / M) (k / j)^2 (1 + k^2 / M))`` with it: j is k at its own address, and
    less the farther the address is from it. Of vectors written at themselves, if they are few, a noisy one comes nearer
    by reading again at what was read. Where no active location was ever written to, a read gives zeros, which no mean
    of unit vectors is, and `writes` 0.

    Differentiable in what is written, not in addresses. Threads may share one. Writes are counted beside the sums, in
    their dtype: exactly up to 2^24 a location in float32. An earlier ``state_dict()`` follows later writes, as torch's
    do: copy it to keep it.

    Source: Kanerva, Sparse distributed memory, 1988; cosines of real vectors take the place of Hamming distances, and
    the k nearest locations that of a radius, so that no address activates nothing.
    """

    file_format = "torch_hrr.sparse_distributed_memory"

    _located: Tensor | None = None

    @takes(
        dim=Int(1),
        locations=Int(1),
        active=Int(1),
        value_dim=Int(1).or_none(),
        seed=Int(),
        device=Device(),
        dtype=Dtype().or_none(),
    )
    def __init__(
        self,
        dim: int,
        locations: int,
        active: int,
        value_dim: int | None = None,
        *,
        seed: int = DEFAULT_SEED,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """A memory in which nothing is written.

        Args:
            dim: D of addresses.
            locations: M.
            active: k, at most M; its square about M is a good choice.
            value_dim: V of what is written; None means D.
            seed: seed of the addresses of locations, any int, taken modulo 2^64.
            device: as for `hrr.random`; arguments of the methods must be on it.
            dtype: None means torch's default; half types are held in float32, which can count.

        Raises:
            ValueError: ``active`` is above ``locations``, or the locations have 2^59 elements or more.
        """
        name = type(self).__name__
        if active > locations:
            raise ValueError(f"{name}: active must be at most locations = {locations}, got {shown(active)}")
        width = (dim if value_dim is None else value_dim) + 1
        check_elements(name, "the locations", (locations, max(dim, width)))
        self.dim, self.active, self.seed = dim, active, seed
        place = resolve_device(device, op=name)
        # The last column counts writes.
        self._counters = torch.zeros(locations, width, device=place, dtype=compute_dtype(resolve_dtype(name, dtype)))

    def __copy__(self) -> Self:
        """A copy that shares nothing: writes are in place."""
        return copy.deepcopy(self)

    def __len__(self) -> int:
        """Number of locations."""
        return len(self._counters)

    @property
    def value_dim(self) -> int:
        """V."""
        return self._counters.shape[1] - 1

    @property
    def device(self) -> torch.device:
        """Where the locations are."""
        return self._counters.device

    @property
    def dtype(self) -> torch.dtype:
        """Of what is read."""
        return self._counters.dtype

    @locked
    def write(self, address: Tensor, value: Tensor | None = None) -> None:
        """Adds a vector to the locations that an address activates.

        Args:
            address: ``[..., D]``, finite; its norm does not matter.
            value: ``[..., V]``; leading dimensions broadcast, and each row is one write. None writes the address.

        Raises:
            TypeError: an argument is neither a tensor nor an array of a supported dtype.
            ValueError: D, V or leading dimensions do not fit.
            RuntimeError: the devices differ.

        Cost: O(M D + k V) a row. On CUDA the order of the sums, and so their last bits, may change from run to run.
        """
        counters = self._counters
        address = self._address("write", address)
        value = check_vectors("write", "value", address if value is None else value, self.value_dim, self.device)
        lead = check_broadcast("write", "address and value", address.shape[:-1], value.shape[:-1])
        dtype = torch.promote_types(counters.dtype, value.dtype)
        rows = F.pad(value.to(dtype), (0, 1), value=1.0).expand(*lead, -1).reshape(-1, counters.shape[1])
        places = self._active(address).expand(*lead, -1).reshape(-1, self.active)
        if counters.dtype != dtype or (counters.is_inference() and not torch.is_inference_mode_enabled()):
            counters = counters.to(dtype, copy=True)
        step = max(1, _SPREAD // (self.active * rows.shape[1]))
        for some, them in zip(rows.split(step), places.split(step), strict=True):
            # In place: no derivative needs what was there.
            counters.index_add_(0, them.flatten(), some.repeat_interleave(self.active, 0))
        self._counters = counters

    @locked
    def read(self, address: Tensor) -> Tensor:
        """The mean of what was written at the locations that ``[..., D]`` activates, ``[..., V]``; zeros for nothing.

        NaN for an address that holds NaN or infinity.

        Raises:
            TypeError, ValueError, RuntimeError: as for `write`.

        Cost: O(M D + k V) a row.
        """
        address = self._address("read", address)
        total = self._total(address)
        mean = total[..., :-1] / total[..., -1:].clamp_min(1)
        return mean.masked_fill(~address.isfinite().all(-1, keepdim=True), math.nan)

    @locked
    def writes(self, address: Tensor) -> Tensor:
        """How many writes went to the locations that ``[..., D]`` activates, over all of them: int64, ``[...]``.

        k for an address written once and like no other; 0 says that `read` has nothing to go by.

        Raises:
            TypeError, ValueError, RuntimeError: as for `write`.
        """
        return self._total(self._address("writes", address))[..., -1].detach().long()

    def _address(self, op: str, address: Tensor) -> Tensor:
        return check_vectors(op, "address", address, self.dim, self.device)

    def _total(self, address: Tensor) -> Tensor:
        places = self._active(address)
        total = F.embedding_bag(places.reshape(-1, self.active), self._counters, mode="sum")
        return total.view(*address.shape[:-1], self.value_dim + 1)

    @torch.no_grad()
    def _active(self, address: Tensor) -> Tensor:
        """The locations that an address activates, ``[..., k]``."""
        dtype = torch.promote_types(address.dtype, self.dtype)
        with full_precision(address.device):
            scores = address.detach().to(dtype) @ self._locations().to(dtype).mT
        # Of equally near ones the first, on every device.
        return _ops.k_winners.default(scores, self.active, True)[1]

    @writable_anywhere
    def _locations(self) -> Tensor:
        held = self._located
        if held is None or held.device != self.device or held.dtype != self.dtype:
            generator, count = seeded_generator(self.seed + _LOCATIONS), len(self)
            with outside_transforms():
                held = functional.random(count, self.dim, generator, False, self.device, self.dtype, normalized=True)
            if may_be_kept(held):
                self._located = held
        return held

    def _summary(self) -> dict[str, Any]:
        (locations, width), values = self._counters.shape, {}
        if width != self.dim + 1:
            values = {"value_dim": width - 1}
        own = {"dim": self.dim, "locations": locations, "active": self.active, **values, "seed": self.seed}
        return {**own, **place_of(self.device, self.dtype)}

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        return self.dim, self.device, self.dtype

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        counters = fn(self._counters)
        check_floating("to", "locations", counters)
        kind = compute_dtype(counters.dtype)
        # Half types cannot count: of one nothing but where to be is taken.
        self._counters = counters if counters.dtype == kind else self._counters.to(counters.device, kind)

    @locked
    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        said = {"dim": self.dim, "active": self.active, "seed": str(self.seed)}
        return {"locations": self._counters.detach()}, said

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        held = tensors["locations"]
        (locations, width), seed = held.shape, int(metadata["seed"])
        made = cls(
            metadata["dim"], locations, metadata["active"], width - 1, seed=seed, device=device, dtype=held.dtype
        )
        made._counters = held.to(made.device)
        return made
