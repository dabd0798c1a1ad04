"""What only a GPU can show: times of transfers, what they add to a computation, and use of the device's memory."""

import gc
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from bench.agreement import Disagreement
from bench.entry import vectors
from bench.targets import Measured, Session, beside, milliseconds
from bench.timing import Candidate, ratio
from torch_hrr import hrr

Job = Literal["bind", "cleanup"]
JOBS: tuple[Job, ...] = ("bind", "cleanup")
STEPS = 16
BATCH = 1000
ITEMS = 10_000
STORED = 100_000
STORED_AT_ONCE = 10_000


def copy_time(session: Session, *, rows: int, dim: int, pinned: bool, to_device: bool) -> Measured:
    """The time of one copy into memory that is there, until it has arrived."""
    found = session.once(("copies", rows, dim, to_device), partial(_time_copies, session, rows, dim, to_device))
    copy = found["pinned" if pinned else "pageable"]
    note = f"{4 * rows * dim / copy.median / 1e9:.3g} GB/s"
    if not pinned:
        return beside(found, None, note, "pageable")
    note += f", {milliseconds(found['pinned on the device'].median)} on the device"
    return beside(found, "pageable", note, "pinned")


def _time_copies(session: Session, rows: int, dim: int, to_device: bool) -> dict[str, Candidate]:
    device = session.settings.device
    pageable = vectors(rows, dim, generator=torch.Generator().manual_seed(session.settings.seed))
    pinned = torch.empty(rows, dim, pin_memory=True).copy_(pageable)
    on_device = pageable.to(device)
    copies: dict[str, tuple[Tensor, Tensor]] = {
        name: (on_device, host) if to_device else (host, on_device)
        for name, host in (("pinned", pinned), ("pageable", pageable))
    }
    # Only pinned memory can be copied while the host goes on; the clock waits for either.
    found = session.times(
        {name: partial(target.copy_, source, name == "pinned") for name, (target, source) in copies.items()},
        events=("pinned",),
    )
    for name, (target, source) in copies.items():
        target.zero_()
        target.copy_(source, name == "pinned")
        torch.cuda.synchronize()
        if not torch.equal(target.cpu(), source.cpu()):
            raise Disagreement(f"copy of {name} memory gave other values")
    return found


@dataclass
class Pipeline:
    """Batches in pinned memory, each copied to the device and worked on once."""

    compute: Callable[[Tensor], Tensor]  # the work on one batch
    host: list[Tensor]  # the batches
    slots: tuple[Tensor, Tensor]  # on the device: one is filled while the other is worked on
    side: torch.cuda.Stream  # of the copies that run ahead

    def alone(self) -> list[Tensor]:
        """The computation without any copy, on whatever the two places hold."""
        return [self.compute(self.slots[step % 2]) for step in range(len(self.host))]

    def in_turn(self) -> list[Tensor]:
        """Copy and computation on one stream."""
        places = itertools.cycle(self.slots)
        return [self.compute(next(places).copy_(batch, non_blocking=True)) for batch in self.host]

    def overlapped(self) -> list[Tensor]:
        """Each copy on the side stream while the batch before it is worked on."""
        main = torch.cuda.current_stream()
        copied = tuple(torch.cuda.Event() for _ in self.slots)
        used = tuple(torch.cuda.Event() for _ in self.slots)
        self.side.wait_stream(main)
        results = []
        for step, batch in enumerate(self.host):
            slot = step % 2
            with torch.cuda.stream(self.side):
                if step >= 2:
                    self.side.wait_event(used[slot])
                self.slots[slot].copy_(batch, non_blocking=True)
                copied[slot].record(self.side)
            main.wait_event(copied[slot])
            results.append(self.compute(self.slots[slot]))
            used[slot].record(main)
        return results


def make_pipeline(job: Job, dim: int, device: str, seed: int) -> Pipeline:
    """`bind` binds a batch to a role; `cleanup` unbinds it and looks each row up among 10000 items."""
    generator = torch.Generator().manual_seed(seed)
    role = vectors(dim, generator=generator).to(device)
    compute: Callable[[Tensor], Tensor]
    if job == "bind":
        compute = partial(hrr.bind, role)
    else:
        memory = hrr.ItemMemory(vectors(ITEMS, dim, generator=generator).to(device))

        def compute(batch: Tensor) -> Tensor:
            return memory.cleanup(hrr.unbind(batch, role))[0]

    host = [vectors(BATCH, dim, generator=generator).pin_memory() for _ in range(STEPS)]
    slots = (torch.zeros(BATCH, dim, device=device), torch.zeros(BATCH, dim, device=device))
    return Pipeline(compute, host, slots, torch.cuda.Stream())


def transfer_overhead(session: Session, *, job: Job, dim: int, overlapped: bool) -> Measured:
    """Time with transfers / time of the computation alone - 1."""
    found = session.once(("overhead", job, dim), partial(_time_pipeline, session, job, dim))
    alone, other = found["alone"], found["overlapped" if overlapped else "in turn"]
    each = [milliseconds(one.median / STEPS) for one in (alone, other)]
    note = f"a batch: {each[0]} alone, {each[1]} with its transfer"
    return Measured(ratio(other, alone)[0] - 1, note=note, candidates=tuple(found.values()))


def _time_pipeline(session: Session, job: Job, dim: int) -> dict[str, Candidate]:
    pipeline = make_pipeline(job, dim, session.settings.device, session.settings.seed)
    for expected, actual in zip(pipeline.in_turn(), pipeline.overlapped(), strict=True):
        if not torch.equal(expected, actual):
            raise Disagreement("the overlapped transfers gave other values")
    return session.times({"alone": pipeline.alone, "in turn": pipeline.in_turn, "overlapped": pipeline.overlapped})


@dataclass(frozen=True)
class Use:
    """Bytes of the device's memory after a workload."""

    free: int  # of the whole device, other processes and the benchmark's own buffers included
    total: int  # of the whole device
    allocated: int  # in tensors of the workload
    reserved: int  # for it by torch
    reserved_after_release: int  # the same after torch.cuda.empty_cache()


def store_use(session: Session, dim: int, preallocated: bool) -> Use:
    """Use after a VectorStore took 100000 vectors, 10000 at a time."""
    return session.once(("store", dim, preallocated), partial(_fill_store, session, dim, preallocated))


def _fill_store(session: Session, dim: int, preallocated: bool) -> Use:
    generator = torch.Generator().manual_seed(session.settings.seed)
    # What earlier rows left in torch's cache would be used again, and hide what the store needs.
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    capacity = STORED if preallocated else STORED_AT_ONCE
    store = hrr.VectorStore(dim, device=session.settings.device, capacity=capacity)
    for first in range(0, STORED, STORED_AT_ONCE):
        names = [str(k) for k in range(first, first + STORED_AT_ONCE)]
        store.add_many(names, vectors(STORED_AT_ONCE, dim, generator=generator))
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    released = torch.cuda.memory_reserved()
    if len(store) != STORED:
        raise Disagreement(f"the store holds {len(store)} vectors")
    return Use(free, total, allocated - before[0], reserved - before[1], released - before[1])


def memory_usage(session: Session, *, dim: int) -> Measured:
    """1 - free / total of the device."""
    use = store_use(session, dim, False)
    used = f"{(use.total - use.free) / 2**30:.3g} of {use.total / 2**30:.4g} GiB"
    return Measured(1 - use.free / use.total, note=f"{used}, {use.reserved / 2**20:.4g} MiB of it for the store")


def fragmentation(session: Session, *, dim: int, preallocated: bool) -> Measured:
    """1 - allocated / reserved."""
    use = store_use(session, dim, preallocated)
    released = 1 - use.allocated / use.reserved_after_release
    note = (
        f"{use.allocated / 2**20:.4g} of {use.reserved / 2**20:.4g} MiB, "
        f"{released * 100:.3g} % after torch.cuda.empty_cache()"
    )
    return Measured(1 - use.allocated / use.reserved, note=note)
