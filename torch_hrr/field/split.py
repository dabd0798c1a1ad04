"""A field that is too large for one device: its planes are divided among the ranks of torch.distributed."""

from __future__ import annotations

import copy
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor

from torch_hrr._checks import FLOATING, check_floating, strided, tensor
from torch_hrr._repr import DescribedModule
from torch_hrr._spec import Int, Real, takes
from torch_hrr.field import functional

_ops = torch.ops.torch_hrr
_DEPTH = -4


class SplitField(DescribedModule):
    """A field divided along its depth: every rank holds some consecutive planes, in the order of ranks.

    Results are bit-equal to those of the whole field on one device, noise included. A step sends one plane to each
    neighbouring rank. All methods are collective (properties are not): every rank must call them, with the same
    arguments. Without a process group there is one rank, which holds the whole field. There are no gradients.
    A state holds this rank's planes between those of its neighbours; a copy is in the same group.

    Attributes:
        depth: Planes of the whole field.
        origin: The place of this rank's first plane among them.

    Example:
        A field of 4 x 64 planes on the GPUs of 4 ranks, each of which draws its own part::

            torch.distributed.init_process_group("nccl")
            split = field.SplitField(torch.randn(64, 256, 256, 64, device="cuda"))
            split.evolve(decay=0.02, diffusion=0.1, steps=100)
    """

    _state: Tensor
    _next: Tensor

    def __init__(self, planes: Tensor, group: dist.ProcessGroup | None = None) -> None:
        """Copies this rank's planes; their number may differ between ranks, their other sizes may not.

        Args:
            planes: ``[..., d, H, W, C]`` with d at least 1, float32, float64, float16 or bfloat16, on the device that
                the group communicates from.
            group: None means the default one.

        Raises:
            TypeError: ``planes`` is of a dtype not named above.
            ValueError: it has fewer than 4 dimensions or no plane, or does not fit the other ranks' planes.
        """
        super().__init__()
        self._group = group if group is not None or not dist.is_initialized() else dist.group.WORLD
        self._rank = dist.get_rank(self._group) if self._group is not None else 0
        self._ranks = dist.get_world_size(self._group) if self._group is not None else 1
        planes, self._counts = self._checked(planes)
        self.depth = sum(self._counts)
        self.origin = sum(self._counts[: self._rank])
        shape = list(planes.shape)
        shape[_DEPTH] += 2
        with torch.inference_mode(False), torch.no_grad():
            # With a plane of neighbours at both ends of depth.
            self.register_buffer("_state", planes.new_zeros(shape))
            self.register_buffer("_next", planes.new_zeros(shape), persistent=False)
            self.planes.copy_(planes)

    def _summary(self) -> dict[str, Any]:
        state, own = self._state, self._counts[self._rank]
        shape = [*state.shape[:_DEPTH], own, *state.shape[_DEPTH + 1 :]]
        place = {"depth": self.depth, "origin": self.origin, "rank": self._rank, "ranks": self._ranks}
        return {"planes": shape, **place}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy in the same group, which cannot be copied."""
        made = memo[id(self)] = type(self).__new__(type(self))
        memo[id(self._group)] = self._group
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    @property
    def planes(self) -> Tensor:
        """This rank's planes, ``[..., d, H, W, C]``: a view that may be written to.

        Read it again after `evolve`: steps alternate between two memories, so an earlier view is overwritten.
        """
        return self._state.narrow(_DEPTH, 1, self._counts[self._rank])

    @property
    def numel(self) -> int:
        """Elements of the whole field, for `advance_key`."""
        return self.planes.numel() // self._counts[self._rank] * self.depth

    @takes(decay=Real(), diffusion=Real(), steps=Int(0), noise=Real(0))
    @torch.no_grad()
    def evolve(
        self,
        decay: float,
        diffusion: float,
        steps: int = 1,
        boundary: str = "replicate",
        stencil: str = "laplace",
        noise: float = 0.0,
        key: Tensor | None = None,
    ) -> Tensor:
        """`field.evolve` of the whole field, in place: arguments, numbering of noise and bits are the same.

        Args:
            decay: 0 to 1.
            diffusion: As for `field.evolve`.
            steps: At least 0.
            boundary: Boundary of the whole field: "replicate", "zeros" or "circular".
            stencil: "laplace", "box" or "binomial".
            noise: At least 0.
            key: The same on every rank; None draws one on the first rank if noise is above 0.

        Returns:
            This rank's `planes`.

        Raises:
            TypeError, ValueError, RuntimeError: As `field.evolve`; the planes are unchanged.
        """
        if key is not None:
            key = strided("evolve", "key", key)
        # On no plane at all, which checks the arguments before ranks wait for one another.
        nothing = self._state.narrow(_DEPTH, 0, 0)
        checked = key if key is not None else functional.random_key(0, nothing.device)
        functional.evolve(nothing, decay, diffusion, steps, boundary, stencil, noise, checked)
        if self._next.device != self._state.device or self._next.dtype != self._state.dtype:
            # A state was assigned.
            self._next = torch.zeros_like(self._state)
        if key is not None:
            key = key.clone()
        elif noise > 0:
            key = self._shared_key()
        for _ in range(steps):
            self._exchange(boundary)
            _ops._field_evolve_part.out(
                *(self._state, decay, diffusion, self.origin, self.depth, boundary, stencil, noise, key), out=self._next
            )
            self._state, self._next = self._next, self._state
            if key is not None:
                functional.advance_key_(key, self.numel)
        return self.planes

    @torch.no_grad()
    def gradient(self, normalize: bool = True) -> Tensor:
        """`field.gradient` of this rank's planes within the whole field, ``[..., 3, d, H, W, C]``."""
        self._exchange("replicate")
        return functional.gradient(self._state, normalize).narrow(_DEPTH, 1, self._counts[self._rank])

    @torch.no_grad()
    def gradient_magnitude(self, normalize: bool = True) -> Tensor:
        """`field.gradient_magnitude` of this rank's planes within the whole field, ``[..., d, H, W, C]``."""
        self._exchange("replicate")
        return functional.gradient_magnitude(self._state, normalize).narrow(_DEPTH, 1, self._counts[self._rank])

    @torch.no_grad()
    def gather(self) -> Tensor:
        """The whole field, ``[..., D, H, W, C]``, on every rank."""
        parts = []
        for rank, count in enumerate(self._counts):
            shape = list(self._state.shape)
            shape[_DEPTH] = count
            part = self.planes.contiguous() if rank == self._rank else self._state.new_empty(shape)
            if self._group is not None:
                dist.broadcast(part, self._global(rank), self._group)
            parts.append(part)
        return torch.cat(parts, _DEPTH)

    def _exchange(self, boundary: str) -> None:
        """Fills the planes of neighbours, from the ranks beside this one and by the rule of the border."""
        state = self._state
        first, last = state.select(_DEPTH, 1), state.select(_DEPTH, -2)
        wraps = boundary == "circular"
        # This rank's plane, the one beyond it, the rank that holds what is there, and the name of what it sends.
        sides = (
            (first, state.select(_DEPTH, 0), self._rank - 1, 0),
            (last, state.select(_DEPTH, -1), self._rank + 1, 1),
        )
        received = []
        transfers = []
        for own, beyond, rank, name in sides:
            if not wraps and not 0 <= rank < self._ranks:
                beyond.zero_() if boundary == "zeros" else beyond.copy_(own)
            elif self._ranks == 1:
                beyond.copy_(last if own is first else first)
            else:
                peer = self._global(rank % self._ranks)
                buffer = torch.empty_like(own, memory_format=torch.contiguous_format)
                received.append((beyond, buffer))
                transfers.append(dist.P2POp(dist.isend, own.contiguous(), peer, self._group, name))
                transfers.append(dist.P2POp(dist.irecv, buffer, peer, self._group, 1 - name))
        # In a circle of two both go to one rank, where what is sent first must be received first.
        transfers.sort(key=lambda transfer: (transfer.op is dist.irecv, transfer.tag))
        for work in dist.batch_isend_irecv(transfers) if transfers else ():
            work.wait()
        for beyond, buffer in received:
            beyond.copy_(buffer)

    def _checked(self, planes: Tensor) -> tuple[Tensor, list[int]]:
        """The planes as a tensor, and how many every rank has.

        What is wrong on one rank is an error on all, so that none waits.
        """
        op = "SplitField"
        problem: Exception | None = None
        try:
            planes = tensor(op, "planes", planes)
            check_floating(op, "planes", planes)
            if planes.dim() < 4 or planes.shape[_DEPTH] < 1:
                text = f"planes must have sizes [..., d, H, W, C] with d at least 1, got {[*planes.shape]}"
                raise ValueError(f"{op}: {text}")
        except (TypeError, ValueError) as error:
            problem = error
        wrong = [-1, 0]
        device = planes.device if isinstance(planes, Tensor) else torch.device("cpu")
        kinds = self._gathered(wrong if problem else [planes.dim(), FLOATING.index(planes.dtype)], device)
        if problem is not None:
            raise problem
        if wrong in kinds:
            raise ValueError(f"{op}: planes of another rank are wrong: its error says how")
        same = all(kind == kinds[0] for kind in kinds)
        sizes = self._gathered(list(planes.shape), device) if same else []
        counts = [own.pop(_DEPTH) for own in sizes]
        if not same or any(own != sizes[0] for own in sizes):
            text = f"planes of all ranks must have the same other sizes and dtype, got {[*planes.shape]}"
            raise ValueError(f"{op}: {text}")
        return planes, counts

    def _gathered(self, own: list[int], device: torch.device) -> list[list[int]]:
        """As many ints from every rank."""
        if self._group is None:
            return [own]
        sent = torch.tensor(own, dtype=torch.int64, device=device)
        gathered = [torch.empty_like(sent) for _ in range(self._ranks)]
        dist.all_gather(gathered, sent, self._group)
        return [other.tolist() for other in gathered]

    def _shared_key(self) -> Tensor:
        """The first rank's, as `field.evolve` would draw it."""
        key = functional.drawn_key(self._state.device)
        if self._group is not None:
            dist.broadcast(key, self._global(0), self._group)
        return key

    def _global(self, rank: int) -> int:
        assert self._group is not None
        return dist.get_global_rank(self._group, rank)
