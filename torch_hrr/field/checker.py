"""Counts the waits, allocations and transfers of a cycle, and times it."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr._checks import integer
from torch_hrr._repr import Described
from torch_hrr.field.brain import FieldBrain
from torch_hrr.field.factory import create_brain

# Operators whose result is a number of the host: the device must be done before it is known.
_WAITS = ("_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select", "unique")
# Vectors of features are made anew, nothing that grows with the places.
_SMALL_BYTES = 2**14
_COPIES = ("_to_copy", "copy_")


class _Counter(TorchDispatchMode):
    """Counts what goes through the dispatcher."""

    def __init__(self) -> None:
        mode: Any = super()
        mode.__init__()
        self.waits: list[str] = []
        self.transfers: list[str] = []
        self.allocated: list[tuple[str, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        known = {x.untyped_storage()._cdata for x in given}
        result = func(*args, **kwargs)
        name = func._schema.name.split("::")[1]
        if name in _WAITS:
            self.waits.append(name)
        for made in result if isinstance(result, tuple | list) else (result,):
            if not isinstance(made, Tensor):
                continue
            if made.untyped_storage()._cdata not in known:
                self.allocated.append((name, made.untyped_storage().nbytes()))
            if name in _COPIES and any(x.device != made.device for x in given):
                self.transfers.append(name)
        return result


class OptimizationChecker(Described):
    """Measures the overhead of a brain's cycle."""

    @staticmethod
    def verify_optimizations(brain: FieldBrain) -> dict[str, Any]:
        """Runs two cycles of a copy of the brain, and counts what the second one does.

        Returns:
            ``syncs``: operators in `step` that wait for the device. ``transfers``: copies between devices in a whole
            cycle, one in and one out on a GPU (the copy out reads the packed vector). ``allocations``
            and ``allocated_bytes``: new tensors that a step makes, and ``largest_allocation``, in bytes;
            ``field_bytes``, for comparison. ``fused``: whether the operators of the library are used, and
            ``optimized``: whether nothing waits, nothing of more than 16 KiB is allocated and the operators are used.

        Raises:
            TypeError: ``brain`` is not a `FieldBrain`.
        """
        if not isinstance(brain, FieldBrain):
            raise TypeError(f"verify_optimizations: brain must be a FieldBrain, got {type(brain).__name__}")
        own = brain.copy()
        values = torch.zeros(own.sensory_dim, device=own.device)
        own.step(values)
        with _Counter() as step:
            own.step(values)
        with _Counter() as cycle:
            own.process_robot_cycle([0.0] * own.sensory_dim)
        largest = max((size for _, size in step.allocated), default=0)
        field_bytes = own.field.nbytes
        return {
            "syncs": len(step.waits),
            "transfers": len(cycle.transfers),
            "allocations": len(step.allocated),
            "allocated_bytes": sum(size for _, size in step.allocated),
            "largest_allocation": largest,
            "field_bytes": field_bytes,
            "fused": not own.eager,
            "optimized": not step.waits and largest <= _SMALL_BYTES and not own.eager,
        }


def quick_performance_test(cycles: int = 20, **settings: Any) -> dict[str, Any]:
    """Times cycles of a brain, and of one whose operators are compositions in plain torch.

    Args:
        cycles: How many of each are timed, at least 1; the results are medians.
        **settings: Arguments of `create_brain`.

    Returns:
        ``cycle_ms``, ``hz``, ``eager_ms``, ``speedup`` = eager_ms / cycle_ms, ``peak_mb`` (of the brain: its tensors,
        on a GPU what was allocated at the most), and ``device``.

    Raises:
        TypeError, ValueError: As for `create_brain`, and ``cycles`` is less than 1.
    """
    cycles = integer("quick_performance_test", "cycles", cycles, 1)
    brain = create_brain(**settings)
    values = [0.1] * brain.sensory_dim
    on_gpu = brain.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(brain.device)

    def milliseconds(count: int) -> float:
        # On a GPU later cycles replay what these captured.
        for _ in range(4):
            brain.process_robot_cycle(values)
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            brain.process_robot_cycle(values)
            times.append(time.perf_counter() - begin)
        return 1e3 * sorted(times)[len(times) // 2]

    own = milliseconds(cycles)
    peak = torch.cuda.max_memory_allocated(brain.device) if on_gpu else brain.nbytes
    brain.eager = True
    eager = milliseconds(max(1, cycles // 4))
    return {
        "cycle_ms": own,
        "hz": 1e3 / own,
        "eager_ms": eager,
        "speedup": eager / own,
        "peak_mb": peak / 2**20,
        "device": str(brain.device),
    }
