"""What the ranks of torch.distributed say to one another: their arguments, their failures and a few numbers."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from torch_hrr.io.files import to_bytes

_Result = TypeVar("_Result")
# The older name warns in torch 2.13 and 2.14.
GATHER = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"


class Ranks:
    """The ranks of a group; one rank where there is no group.

    Attributes:
        group: None where torch.distributed is not initialised.
        device: One that the group communicates from: the CPU unless it cannot.
        rank: Of this process.
        count: How many there are.
    """

    def __init__(self, name: str, group: dist.ProcessGroup | None) -> None:
        """`name` is that of errors; `group` is the default one for None."""
        self._name = name
        # What new_group gives to a process outside of the group.
        outside: Any = dist.GroupMember.NON_GROUP_MEMBER
        if not (group is None or group is outside or isinstance(group, dist.ProcessGroup)):
            raise TypeError(f"{name}: group must be a ProcessGroup or None, got {type(group).__name__}")
        if group is outside or (group is not None and dist.get_rank(group) < 0):
            raise ValueError(f"{name}: group must be one that this process is in, got another")
        self.group = group if group is not None or not dist.is_initialized() else dist.group.WORLD
        self.rank = dist.get_rank(self.group) if self.group is not None else 0
        self.count = dist.get_world_size(self.group) if self.group is not None else 1
        devices: Any = getattr(self.group, "_device_types", ())
        here = torch.device("cpu")
        self.device = here if here in devices or not devices else devices[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A group cannot be copied, and nothing here changes.
        return self

    def of_group(self, rank: int) -> int:
        """The number, among all processes, of a rank of the group."""
        assert self.group is not None
        return dist.get_global_rank(self.group, rank)

    def gathered(self, own: list[int], device: torch.device) -> list[list[int]]:
        """As many ints from every rank."""
        if self.group is None:
            return [own]
        sent = torch.tensor(own, dtype=torch.int64, device=device)
        told: list[list[int]] = self.stacked(sent).tolist()
        return told

    def stacked(self, own: Tensor) -> Tensor:
        """A tensor of the same shape and dtype from every rank: ``[ranks, ...]``."""
        if self.group is None:
            return own.unsqueeze(0)
        # Flat, since gloo takes no other sizes.
        gathered = own.new_empty(self.count * own.numel())
        with answered(self._name):
            getattr(dist, GATHER)(gathered, own.reshape(-1), self.group)
        return gathered.view(self.count, *own.shape)

    def gathered_bytes(self, own: bytes) -> list[bytes]:
        """From every rank bytes, whose number may differ."""
        sizes = [size for (size,) in self.gathered([len(own)], self.device)]
        sent = torch.zeros(max(sizes), dtype=torch.uint8, device="cpu")
        sent[: len(own)] = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        told = self.stacked(sent.to(self.device))
        return [bytes(to_bytes(other[:size])) for other, size in zip(told, sizes, strict=True)]

    def reduced(self, own: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
        """The sum, the largest or the like of every rank's tensor; that of this rank is written to."""
        if self.group is not None:
            with answered(self._name):
                dist.all_reduce(own, how, self.group)
        return own

    def collected(self, own: Tensor) -> list[Tensor]:
        """On the first rank, every rank's tensor, whose first dimensions may differ; elsewhere nothing."""
        if self.group is None:
            return [own]
        counts = [count for (count,) in self.gathered([len(own)], own.device)]
        found = []
        with answered(self._name):
            if self.rank and len(own):
                dist.send(own.contiguous(), self.of_group(0), self.group)
            for rank, count in enumerate(counts if self.rank == 0 else ()):
                part = own if rank == 0 else own.new_empty(count, *own.shape[1:])
                if rank and count:
                    dist.recv(part, self.of_group(rank), self.group)
                found.append(part)
        return found

    def broadcast(self, op: str, sent: Tensor, rank: int) -> None:
        """Into every rank's tensor what one of them holds."""
        if self.group is not None:
            with answered(op):
                dist.broadcast(sent, self.of_group(rank), self.group)

    def together(self, op: str, work: Callable[[], _Result], device: torch.device) -> _Result:
        """What every rank does by itself; where one cannot, all stop."""
        results = []

        def done() -> Tensor:
            results.append(work())
            return torch.empty(0, dtype=torch.int64, device=device)

        self.exchanged(op, done, (0,), torch.int64, device)
        return results[0]

    def exchanged(
        self, op: str, work: Callable[[], Tensor], shape: Sequence[int], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """What `work` gives on every rank, in one message: ``[ranks, *shape]``; where one cannot do it, all stop."""
        if self.group is None:
            return work().view(1, *shape)
        problem: Exception | None = None
        size = math.prod(shape) * dtype.itemsize
        # The first word says whether it failed. Words, so that numbers of every size begin where they may.
        sent = torch.zeros(1 + -(-size // 8), dtype=torch.int64, device=device)
        try:
            sent[1:].view(torch.uint8)[:size] = work().reshape(-1).view(torch.uint8)
        except Exception as error:
            problem = error
            sent[0] = 1
        told = self.stacked(sent)
        if problem is not None:
            raise problem
        failed = told[:, 0].tolist()
        if any(failed):
            raise RuntimeError(f"{op}: rank {failed.index(1)} has failed: its error says how")
        return told[:, 1:].contiguous().view(torch.uint8)[:, :size].contiguous().view(dtype).view(self.count, *shape)

    def agreed(
        self, op: str, check: Callable[[], _Result], said: Callable[[_Result], str], device: torch.device
    ) -> _Result:
        """What `check` gives, and `said` says; what is wrong or other on one rank is an error on all: none waits."""
        if self.group is None:
            return check()
        problem: Exception | None = None
        result: _Result | None = None
        number, text = 0, ""
        try:
            result = check()
            text = said(result)
            number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
        except Exception as error:
            problem = error
        told = self.gathered([problem is not None, number], device)
        if problem is not None:
            raise problem
        wrong = [rank for rank, (is_wrong, _) in enumerate(told) if is_wrong]
        if wrong:
            raise ValueError(f"{op}: arguments of rank {wrong[0]} are wrong: its error says how")
        if any(other != told[0] for other in told):
            raise ValueError(f"{op}: arguments must be the same on all ranks, got {text} on rank {self.rank}")
        return cast(_Result, result)


def check_own(op: str, argument: str, tensor: Tensor) -> None:
    """Raises TypeError for a DTensor, whose sizes are those of all ranks."""
    if hasattr(tensor, "placements"):
        raise TypeError(f"{op}: {argument} must be this rank's own, got a DTensor: give its to_local()")


class Calls:
    """The collective calls of an object: before each, ranks compare its arguments and all that they agreed on so far.

    So with two objects, no rank may call the other one.
    """

    def __init__(self, ranks: Ranks) -> None:
        """None so far."""
        self._ranks = ranks
        self._history = ""
        self._is_torn = False

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Within it, an error leaves the object half changed: every later call is refused."""
        self._is_torn = True
        yield
        self._is_torn = False

    def agreed(
        self, op: str, check: Callable[[], _Result], said: Callable[[_Result], str], device: torch.device
    ) -> _Result:
        """As `Ranks.agreed`."""

        def checked() -> _Result:
            if self._is_torn:
                raise RuntimeError(f"{op}: brain must not be used after a call that failed half-way: load its file")
            return check()

        def told(found: _Result) -> str:
            text = f"{op} {said(found)}"
            return f"{text}, after {self._history}" if self._history else text

        result = self._ranks.agreed(op, checked, told, device)
        if self._ranks.group is not None:
            self._history = hashlib.sha256(told(result).encode()).hexdigest()[:16]
        return result


@contextlib.contextmanager
def answered(op: str) -> Iterator[None]:
    """Says of an error of torch.distributed what it means."""
    try:
        yield
    except RuntimeError as error:
        reason = next(iter(str(error).splitlines()), "")
        raise RuntimeError(f"{op}: a rank is lost, or did not answer within the group's timeout: {reason}") from error
