"""A field that is too large for one device: its planes are divided among the ranks of torch.distributed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from torch_hrr._checks import (
    FLOATING,
    check_bool,
    check_floating,
    checked_path,
    integer,
    placed,
    strided,
    tensor,
)
from torch_hrr._folder import Kind, joined, read, write
from torch_hrr._ranks import Ranks, answered, check_own
from torch_hrr._repr import DescribedModule
from torch_hrr._spec import Int, Real, takes
from torch_hrr.field import functional
from torch_hrr.io import digest
from torch_hrr.io._contents import checked_content
from torch_hrr.runtime.device import resolve_device

_Result = TypeVar("_Result")
_ops = torch.ops.torch_hrr
_DEPTH = -4
_FOLDER = Kind("SplitField", "torch_hrr.split_field", "planes", "depth")


class _Call(NamedTuple):
    """Arguments of `evolve` but for the field."""

    decay: float
    diffusion: float
    steps: int
    boundary: str
    stencil: str
    noise: float
    key: Tensor | None


@takes("evolve", decay=Real(), diffusion=Real(), steps=Int(0), noise=Real(0))
def _checked_call(
    nothing: Tensor,
    decay: float,
    diffusion: float,
    steps: int,
    boundary: str,
    stencil: str,
    noise: float,
    key: Tensor | None,
) -> _Call:
    """The arguments, checked as `field.evolve` does."""
    if key is not None:
        key = strided("evolve", "key", key)
    # Of no plane at all.
    checked = key if key is not None else functional.random_key(0, nothing.device)
    functional.evolve(nothing, decay, diffusion, steps, boundary, stencil, noise, checked)
    return _Call(decay, diffusion, steps, boundary, stencil, noise, key)


class SplitField(DescribedModule):
    """A field divided along its depth: every rank holds some consecutive planes, in the order of ranks.

    Results are bit-equal to those of the whole field on one device, noise included. `halo` planes go to each
    neighbouring rank for every `halo` steps: with more, ranks wait for one another less often, take the steps in one
    call where there is no noise, and compute planes near their borders twice. With one, or with noise, the planes
    between are computed while those of the neighbours travel. All methods are collective (properties are not):
    every rank must call them, with the same arguments. Without a process group there is one rank, which holds the
    whole field. A state holds this rank's planes between those of its neighbours; a copy is in the same group. Where a
    rank is lost, the others get a RuntimeError: at once from gloo, else when the timeout of the group is over.

    Attributes:
        depth: Planes of the whole field.
        origin: The place of this rank's first plane among them.
        halo: How many planes are exchanged at once.

    Example:
        A field of 4 x 64 planes on the GPUs of 4 ranks, each of which draws its own part::

            torch.distributed.init_process_group("nccl")
            split = field.SplitField(torch.randn(64, 256, 256, 64, device="cuda"))
            split.evolve(decay=0.02, diffusion=0.1, steps=100)
    """

    _state: Tensor
    _next: Tensor

    def __init__(self, planes: Tensor, group: dist.ProcessGroup | None = None, halo: int = 1) -> None:
        """Copies this rank's planes; their number may differ between ranks, their other sizes may not.

        Args:
            planes: ``[..., d, H, W, C]`` with d at least 1, float32, float64, float16 or bfloat16, on the device that
                the group communicates from.
            group: None means the default one.
            halo: How many planes are exchanged at once, at least 1, at most the planes of the rank that has fewest;
                the same on every rank.

        Raises:
            TypeError: ``planes`` is of a dtype not named above, or ``halo`` no int.
            ValueError: ``planes`` has fewer than 4 dimensions or no plane, or does not fit the other ranks' planes, or
                ``halo`` is out of its range; on every rank, whichever is wrong.
        """
        super().__init__()
        self._ranks = Ranks("SplitField", group)
        planes, self._counts, self.halo = self._checked(planes, halo)
        self.depth = sum(self._counts)
        self.origin = sum(self._counts[: self._ranks.rank])
        shape = list(planes.shape)
        shape[_DEPTH] += 2 * self.halo
        with torch.inference_mode(False), torch.no_grad():
            # With planes of neighbours at both ends of depth.
            self.register_buffer("_state", planes.new_zeros(shape))
            self.register_buffer("_next", planes.new_zeros(shape), persistent=False)
            self.planes.copy_(planes)

    def _summary(self) -> dict[str, Any]:
        state, own = self._state, self._counts[self._ranks.rank]
        shape = [*state.shape[:_DEPTH], own, *state.shape[_DEPTH + 1 :]]
        place = {"depth": self.depth, "origin": self.origin, "halo": self.halo}
        place |= {"rank": self._ranks.rank, "ranks": self._ranks.count}
        return {"planes": shape, **place}

    @property
    def planes(self) -> Tensor:
        """This rank's planes, ``[..., d, H, W, C]``: a view that may be written to.

        Read it again after `evolve`: steps alternate between two memories, so an earlier view is overwritten.
        """
        return self._state.narrow(_DEPTH, self.halo, self._counts[self._ranks.rank])

    @property
    def numel(self) -> int:
        """Elements of the whole field, for `advance_key`."""
        return self.planes.numel() // self._counts[self._ranks.rank] * self.depth

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
            ValueError: Another rank's arguments are wrong, or are not these: ranks compare them before any work.
        """
        call = self._agreed_call(
            lambda: _checked_call(*self._like(), decay, diffusion, steps, boundary, stencil, noise, key)
        )
        self._state, self._next = self._stepped(self._state, self._beside(), self._keyed(call))
        return self.planes

    def evolved(
        self,
        planes: Tensor,
        decay: float,
        diffusion: float,
        steps: int = 1,
        boundary: str = "replicate",
        stencil: str = "laplace",
        noise: float = 0.0,
        key: Tensor | None = None,
    ) -> Tensor:
        """`evolve` of other planes, which leaves this field as it is and is differentiable in every mode.

        Args:
            planes: ``[..., d, H, W, C]``, as many as this rank has, of the field's other sizes, dtype and device; an
                array is put there.
            decay: As for `evolve`, as are the others.
            diffusion: 0 to the stencil's limit.
            steps: At least 0.
            boundary: Of the whole field.
            stencil: "laplace", "box" or "binomial".
            noise: At least 0; gradients do not depend on it.
            key: The same on every rank.

        Returns:
            The planes after the steps. Gradients with respect to ``planes`` are those of the whole field, bit for bit;
            the backward pass is collective too.

        Raises:
            TypeError, ValueError, RuntimeError: As `evolve`; ``planes`` are not as described.
            RuntimeError: Within vmap ``noise`` is above 0, whose numbering could not follow the batches.
        """

        def checked() -> _Call:
            nonlocal planes
            planes = placed("evolved", "planes", planes, self._state.device)
            check_floating("evolved", "planes", planes)
            check_own("evolved", "planes", planes)
            own = self.planes
            if planes.shape != own.shape or planes.dtype != own.dtype or planes.device != own.device:
                wanted = f"{[*own.shape]}, {own.dtype}, on {own.device}"
                raise ValueError(
                    f"evolved: planes must be {wanted}, got {[*planes.shape]}, {planes.dtype}, on {planes.device}"
                )
            return _checked_call(*self._like(), decay, diffusion, steps, boundary, stencil, noise, key)

        # Where one rank's planes take no gradient, the backward passes of the others would wait for it.
        derived = torch.is_grad_enabled() and getattr(planes, "requires_grad", False)
        call = self._keyed(self._agreed_call(checked, f"requires_grad={derived}"))
        result: Tensor = _Evolved.apply(planes, self, call)
        return result

    def gradient(self, normalize: bool = True) -> Tensor:
        """`field.gradient` of this rank's planes within the whole field, ``[..., 3, d, H, W, C]``."""
        return self._slopes("gradient", functional.gradient, normalize)

    def gradient_magnitude(self, normalize: bool = True) -> Tensor:
        """`field.gradient_magnitude` of this rank's planes within the whole field, ``[..., d, H, W, C]``."""
        return self._slopes("gradient_magnitude", functional.gradient_magnitude, normalize)

    @torch.no_grad()
    def _slopes(self, op: str, call: Callable[..., Tensor], normalize: bool) -> Tensor:
        self._agreed(op, lambda: check_bool(op, "normalize", normalize), str)
        return call(self._surrounded(), normalize).narrow(_DEPTH, 1, self._counts[self._ranks.rank])

    def gather(self) -> Tensor:
        """The whole field, ``[..., D, H, W, C]``, on every rank."""
        self._agreed("gather", lambda: None, str)
        return self._gathered(self.planes)

    @torch.no_grad()
    def _gathered(self, planes: Tensor) -> Tensor:
        """What the planes of all ranks, as many as those of the field, make up."""
        parts = []
        for rank, count in enumerate(self._counts):
            shape = list(planes.shape)
            shape[_DEPTH] = count
            part = planes.contiguous() if rank == self._ranks.rank else planes.new_empty(shape)
            self._ranks.broadcast("gather", part, rank)
            parts.append(part)
        return torch.cat(parts, _DEPTH)

    def save(self, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None) -> None:
        """Writes the whole field to a folder that all ranks see: a checked file of `torch_hrr.io` a rank, and an index.

        The index is replaced last, so that whenever a rank is lost, the folder holds this field or the one before.

        Args:
            path: The folder; it is made where there is none.
            metadata: What else to keep, such as the number of steps, as for `torch_hrr.io.save`; of the first rank.

        Raises:
            TypeError, ValueError, OSError: As `torch_hrr.io.save`.
            RuntimeError: Another rank could not write; the folder holds what it did before.
        """
        kept: Any = {} if metadata is None else metadata

        def check() -> None:
            if self._ranks.rank == 0:
                checked_content("save", {}, kept)

        # Before anything is written.
        self._ranks.together("save", check, self._state.device)
        planes = {"planes": self.planes}
        write(_FOLDER, self._ranks, path, self._counts, planes, {}, lambda: kept, self._state.device)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        group: dist.ProcessGroup | None = None,
        halo: int = 1,
        *,
        device: torch.device | str | int = "cpu",
    ) -> tuple[Self, dict[str, Any]]:
        """The field that `save` wrote, divided evenly among however many ranks there are now, and its metadata.

        Args:
            path: The folder.
            group: As for the class, as is ``halo``.
            halo: The same on every rank.
            device: Of this rank's planes.

        Raises:
            torch_hrr.IntegrityError: A file is damaged or is not of this field.
            ValueError: There are more ranks than planes; or another rank cannot read it, or reads other metadata.
            OSError: A file cannot be read; FileNotFoundError if there is none.
        """
        ranks = Ranks(cls.__name__, group)

        def found() -> tuple[Tensor, dict[str, Any]]:
            place = resolve_device(device, op="load")
            planes, metadata = _read_planes(checked_path("load", path), ranks.rank, ranks.count)
            return planes.to(place), metadata

        # Ranks that see other folders are told, too.
        planes, metadata = ranks.agreed("load", found, lambda held: f"metadata {digest({}, held[1])}", ranks.device)
        return cls(planes, group, halo), metadata

    def _beside(self) -> Tensor:
        """Memory of the next state."""
        if self._next.device != self._state.device or self._next.dtype != self._state.dtype:
            # A state was assigned.
            self._next = torch.zeros_like(self._state)
        return self._next

    def _like(self) -> tuple[Tensor]:
        """No plane of the field, to check arguments with."""
        return (self._state.narrow(_DEPTH, 0, 0),)

    def _keyed(self, call: _Call) -> _Call:
        """With a key that may be counted on, drawn if there is none."""
        if call.key is not None:
            return call._replace(key=call.key.clone())
        return call._replace(key=self._shared_key()) if call.noise > 0 else call

    def _stepped(self, state: Tensor, other: Tensor, call: _Call) -> tuple[Tensor, Tensor]:
        """What holds the planes after the steps, and the other memory; the key is advanced."""
        if self._ranks.count == 1 and call.noise == 0 and call.steps > 0:
            self._steps(state, other, call.steps, call)
            return other, state
        halo, own = self.halo, self._counts[self._ranks.rank]
        first, end = halo, halo + own
        wraps = call.boundary == "circular"
        for done in range(0, call.steps, halo):
            together = min(halo, call.steps - done)
            arrive = self._send(state, call.boundary, together)
            if together > 1 and call.noise == 0:
                if arrive is not None:
                    arrive()
                self._steps(state, other, together, call)
                state, other = other, state
                continue
            for more in reversed(range(together)):
                # Planes of the neighbours that later steps of this exchange read: none beyond the whole field.
                low = more if wraps or self.origin else 0
                high = more if wraps or self.origin + own < self.depth else 0
                if arrive is not None:
                    # The planes between need no neighbours: they are computed while those travel.
                    self._step(state, other, first + 1, end - 1, call)
                    arrive()
                    parts = [(first, first + 1), (max(first + 1, end - 1), end)]
                    arrive = None
                else:
                    self._step(state, other, first, end, call)
                    parts = []
                for begin, stop in (*parts, (first - low, first), (end, end + high)):
                    self._step(state, other, begin, stop, call, beside=True)
                state, other = other, state
                if more:
                    self._border(state, call.boundary)
                if call.key is not None:
                    functional.advance_key_(call.key, self.numel)
        return state, other

    def _steps(self, state: Tensor, other: Tensor, steps: int, call: _Call) -> None:
        """Steps of this rank's planes as one call, without noise, whose numbers are those of the whole field.

        It takes as many planes of the neighbours, which the field's border spoils by one plane a step.
        """
        first, own = self.halo, self._counts[self._ranks.rank]
        beside = self._ranks.count > 1 and call.boundary == "circular"
        low = steps if beside or self.origin else 0
        high = steps if beside or self.origin + own < self.depth else 0
        given, out = (each.narrow(_DEPTH, first - low, own + low + high) for each in (state, other))
        numbers = (call.decay, call.diffusion, steps, call.boundary, call.stencil)
        _ops.field_evolve.out(given, *numbers, out=out)
        if call.key is not None:
            functional.advance_key_(call.key, self.numel, steps)

    def _step(self, state: Tensor, other: Tensor, begin: int, end: int, call: _Call, beside: bool = False) -> None:
        """A step of the planes from one place of the state to another; `beside` leaves those around as they are."""
        if begin >= end:
            return
        # In a circle those of a neighbour may be at the other end.
        origin = (self.origin + begin - self.halo) % self.depth
        given = state.narrow(_DEPTH, begin - 1, end - begin + 2)
        numbers = (origin, self.depth, call.boundary, call.stencil, call.noise, call.key)
        if beside:
            made = _ops._field_evolve_part(given, call.decay, call.diffusion, *numbers)
            other.narrow(_DEPTH, begin, end - begin).copy_(made.narrow(_DEPTH, 1, end - begin))
        else:
            out = other.narrow(_DEPTH, begin - 1, end - begin + 2)
            _ops._field_evolve_part.out(given, call.decay, call.diffusion, *numbers, out=out)

    def _border(self, state: Tensor, boundary: str) -> None:
        """Fills what lies beyond the whole field next to this rank's planes, by the rule of the border."""
        if boundary == "circular":
            return
        first, last = self.halo, self.halo + self._counts[self._ranks.rank] - 1
        for plane, beyond, is_border in (
            (first, first - 1, self._ranks.rank == 0),
            (last, last + 1, self._ranks.rank == self._ranks.count - 1),
        ):
            if is_border:
                outside = state.select(_DEPTH, beyond)
                outside.zero_() if boundary == "zeros" else outside.copy_(state.select(_DEPTH, plane))

    def _send(self, state: Tensor, boundary: str, count: int) -> Callable[[], None] | None:
        """Begins to exchange planes with the ranks beside this one; the result waits for them, None if all is there."""
        own = self._counts[self._ranks.rank]
        first, end = self.halo, self.halo + own
        wraps = boundary == "circular"
        self._border(state, boundary)
        # This rank's planes, those beyond them, the rank that holds what is there, and the name of what it sends.
        sides = (
            (state.narrow(_DEPTH, first, count), state.narrow(_DEPTH, first - count, count), self._ranks.rank - 1, 0),
            (state.narrow(_DEPTH, end - count, count), state.narrow(_DEPTH, end, count), self._ranks.rank + 1, 1),
        )
        if self._ranks.count == 1:
            for (_, beyond, _, _), (across, _, _, _) in zip(sides, reversed(sides), strict=True):
                if wraps:
                    beyond.copy_(across)
            return None
        received = []
        transfers = []
        for sent, beyond, rank, name in sides:
            if wraps or 0 <= rank < self._ranks.count:
                peer = self._ranks.of_group(rank % self._ranks.count)
                buffer = torch.empty_like(sent, memory_format=torch.contiguous_format)
                received.append((beyond, buffer))
                transfers.append(dist.P2POp(dist.isend, sent.contiguous(), peer, self._ranks.group, name))
                transfers.append(dist.P2POp(dist.irecv, buffer, peer, self._ranks.group, 1 - name))
        # In a circle of two both go to one rank, where what is sent first must be received first.
        transfers.sort(key=lambda transfer: (transfer.op is dist.irecv, transfer.tag))
        with answered("SplitField"):
            works = dist.batch_isend_irecv(transfers)

        def arrive() -> None:
            with answered("SplitField"):
                for work in works:
                    work.wait()
            for beyond, buffer in received:
                beyond.copy_(buffer)

        return arrive

    def _surrounded(self) -> Tensor:
        """This rank's planes and one of each neighbour, repeated at the border."""
        arrive = self._send(self._state, "replicate", 1)
        if arrive is not None:
            arrive()
        return self._state.narrow(_DEPTH, self.halo - 1, self._counts[self._ranks.rank] + 2)

    def _agreed(self, op: str, check: Callable[[], _Result], said: Callable[[_Result], str]) -> _Result:
        """What a call takes, checked and compared; and the state's dtype, which a user may change."""
        state = self._state
        return self._ranks.agreed(op, check, lambda found: f"{op} {said(found)} of {state.dtype}", state.device)

    def _agreed_call(self, check: Callable[[], _Call], *beside: str) -> _Call:
        """The arguments of steps."""

        def said(call: _Call) -> str:
            return repr((*call[:-1], None if call.key is None else call.key.tolist(), *beside))

        return self._agreed("evolve", check, said)

    def _checked(self, planes: Tensor, halo: int) -> tuple[Tensor, list[int], int]:
        """The planes as a tensor, how many every rank has, and the halo.

        What is wrong on one rank is an error on all, so that none waits.
        """
        op = "SplitField"
        problem: Exception | None = None
        try:
            planes = tensor(op, "planes", planes)
            check_floating(op, "planes", planes)
            check_own(op, "planes", planes)
            if planes.dim() < 4 or planes.shape[_DEPTH] < 1:
                text = f"planes must have sizes [..., d, H, W, C] with d at least 1, got {[*planes.shape]}"
                raise ValueError(f"{op}: {text}")
            halo = integer(op, "halo", halo, 1)
        except (TypeError, ValueError) as error:
            problem = error
        wrong = [-1, 0, 0, 0]
        # Not that of the planes, which may be wrong.
        device = self._ranks.device
        own = wrong if problem else [planes.dim(), FLOATING.index(planes.dtype), planes.is_meta, halo]
        kinds = self._ranks.gathered(own, device)
        if problem is not None:
            raise problem
        if wrong in kinds:
            raise ValueError(f"{op}: arguments of another rank are wrong: its error says how")
        same = all(kind[:3] == kinds[0][:3] for kind in kinds)
        sizes = self._ranks.gathered(list(planes.shape), device) if same else []
        counts = [own.pop(_DEPTH) for own in sizes]
        if not same or any(own != sizes[0] for own in sizes):
            found = f"{[*planes.shape]}, {planes.dtype}, on {planes.device}"
            raise ValueError(f"{op}: planes of all ranks must have the same other sizes and dtype, got {found}")
        if any(kind != kinds[0] for kind in kinds) or halo > min(counts):
            text = f"halo must be the same on all ranks and at most {min(counts)}, the planes of one, got {halo}"
            raise ValueError(f"{op}: {text}")
        return planes, counts, halo

    def _shared_key(self) -> Tensor:
        """The first rank's, as `field.evolve` would draw it."""
        key = functional.drawn_key(self._state.device)
        self._ranks.broadcast("evolve", key, 0)
        return key


def _read_planes(folder: str, rank: int, ranks: int) -> tuple[Tensor, dict[str, Any]]:
    """One rank's planes of the field that a folder holds, and the field's metadata."""

    def are_planes(tensors: Mapping[str, Tensor], said: Mapping[str, Any], count: int) -> bool:
        planes = tensors.get("planes")
        return not said and planes is not None and planes.dim() >= 4 and planes.shape[_DEPTH] == count

    found = read(_FOLDER, folder, rank, ranks, are_planes)
    return joined(found.pieces, "planes", _DEPTH), dict(found.metadata)


class _Evolved(torch.autograd.Function):
    """Steps of planes of a split field, whose matrix is symmetric: its derivatives are its steps without noise."""

    @staticmethod
    def forward(planes: Tensor, split: SplitField, call: _Call) -> Tensor:
        shape = list(planes.shape)
        shape[_DEPTH] += 2 * split.halo
        state = planes.new_zeros(shape)
        own = state.narrow(_DEPTH, split.halo, planes.shape[_DEPTH])
        own.copy_(planes)
        state, _ = split._stepped(state, torch.zeros_like(state), call)
        return state.narrow(_DEPTH, split.halo, planes.shape[_DEPTH]).clone(memory_format=torch.contiguous_format)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, SplitField, _Call], output: Tensor) -> None:
        """Keeps no tensor: the map is linear."""
        _, ctx.split, call = inputs
        ctx.call = call._replace(noise=0.0, key=None)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Of the planes."""
        return _Evolved.apply(grad, ctx.split, ctx.call), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        """Of the planes."""
        moved: Tensor = _Evolved.apply(tangent, ctx.split, ctx.call)
        return moved

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, None, None], planes: Tensor, split: SplitField, call: _Call
    ) -> tuple[Tensor, int]:
        """All planes of a batch at once."""
        if call.noise > 0:
            raise RuntimeError(f"evolved: noise must be 0 within vmap, got {call.noise:g}")
        batched: Tensor = _Evolved.apply(planes.movedim(in_dims[0], 0), split, call)
        return batched, 0
