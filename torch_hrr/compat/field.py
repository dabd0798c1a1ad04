"""Factories of field brains, the field operators under other names, and a checker of a brain's cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr import _library
from torch_hrr._checks import check_bool, check_seed, named
from torch_hrr._repr import Described
from torch_hrr._spec import Instance, Int, takes
from torch_hrr.field import functional
from torch_hrr.field.brain import BrainArguments, BrainSettings, FieldBrain, created
from torch_hrr.field.patterns import PatternLibrary
from torch_hrr.runtime.benchmark import benchmark_device
from torch_hrr.runtime.device import resolve_device
from torch_hrr.runtime.pool import TensorPool

# Operators whose result is a number of the host: the device must be done before it is known.
_WAITS = ("_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select", "unique")
# Vectors of features are made anew, nothing that grows with the places.
_SMALL_BYTES = 2**14
_COPIES = ("_to_copy", "copy_")


def create_brain(
    sensory_dim: int = 16,
    motor_dim: int = 5,
    spatial: int | Sequence[int] | None = None,
    channels: int | None = None,
    prefer_gpu: bool = True,
    seed: int | None = None,
    **settings: Unpack[BrainSettings],
) -> FieldBrain:
    """A `FieldBrain` that learns control, on a GPU if there is one, else on the CPU whatever `runtime.set_device` says.

    ``learner="imprint"`` gives the one that does not. None for `spatial` and `channels` is the learner's default.
    Without ``prefer_gpu`` it is on the CPU even if there is a GPU; a ``device`` among the settings overrides that. All
    other arguments, and errors, are those of `FieldBrain`; TypeError for an unknown setting too.
    """
    sizes = {name: value for name, value in (("spatial", spatial), ("channels", channels)) if value is not None}
    own = {"sensory_dim": sensory_dim, "motor_dim": motor_dim, "seed": seed}
    return created("create_brain", prefer_gpu=prefer_gpu, **own, **sizes, **settings)


class FieldBrainFactory(Described):
    """Makes brains of the same settings, those of `create_brain`, with consecutive seeds, or drawn ones without a seed.

    Attributes:
        settings: Of every brain; checked when one is made.
        made: How many were made.
    """

    def __init__(self, **settings: Unpack[BrainArguments]) -> None:
        """Keeps the settings."""
        self.settings = settings
        self.made = 0

    def _summary(self) -> dict[str, Any]:
        return {**self.settings, "made": self.made}

    def create(self, **settings: Unpack[BrainArguments]) -> FieldBrain:
        """The next brain: with the factory's settings, changed as given; its seed is the factory's plus its number."""
        own = self.settings | settings
        seed = self.settings.get("seed")
        if "seed" not in settings and seed is not None:
            check_seed("create", seed)
            own["seed"] = seed + self.made
        brain = created("create", **own)
        self.made += 1
        return brain

    @staticmethod
    def create_optimized_brain(force_gpu: bool = False, **settings: Unpack[BrainArguments]) -> FieldBrain:
        """A brain of `create_brain`; with ``force_gpu`` a RuntimeError if there is no GPU with kernels."""
        op = "create_optimized_brain"
        if check_bool(op, "force_gpu", force_gpu):
            if not (_library.has_cuda_kernels() and torch.cuda.is_available()):
                raise RuntimeError(f"{op}: force_gpu must be False, as no GPU is there that can be used")
            settings["device"] = resolve_device("cuda", op=op)
        return created(op, **settings)


class BatchedFieldOperations(Described):
    """The field operators: all channels in one pass."""

    @staticmethod
    def fused_field_evolution(
        field: Tensor, decay_rate: float = 0.02, diffusion_strength: float = 0.05, noise: float = 0.0, **options: Any
    ) -> Tensor:
        """`field.evolve`, options as there."""
        with named("evolve", "fused_field_evolution"):
            return functional.evolve(field, decay_rate, diffusion_strength, noise=noise, **options)

    @staticmethod
    def batched_gradient_extraction(field: Tensor) -> Tensor:
        """`field.gradient`."""
        with named("gradient", "batched_gradient_extraction"):
            return functional.gradient(field)


class _Counter(TorchDispatchMode):
    """Counts what goes through the dispatcher."""

    def __init__(self) -> None:
        mode: Any = super()
        mode.__init__()
        self.waits, self.transfers = 0, 0
        self.allocated: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, Tensor)]
        known = {x.untyped_storage()._cdata for x in given}
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1]
        self.waits += name in _WAITS
        for made in result if isinstance(result, tuple | list) else (result,):
            if isinstance(made, Tensor):
                if made.untyped_storage()._cdata not in known:
                    self.allocated.append(made.untyped_storage().nbytes())
                self.transfers += name in _COPIES and any(x.device != made.device for x in given)
        return result


class OptimizationChecker(Described):
    """Measures the overhead of a brain's cycle."""

    @staticmethod
    @takes(brain=Instance(FieldBrain))
    def verify_optimizations(brain: FieldBrain) -> dict[str, Any]:
        """Runs two cycles of a copy of the brain, and counts what the second one does.

        Returns:
            ``syncs``: operators in `step` that wait for the device. ``transfers``: copies between devices in a whole
            cycle, one in and one out on a GPU. ``allocations``, ``allocated_bytes`` and ``largest_allocation``: new
            tensors that a step makes; ``field_bytes``, for comparison. ``fused``: whether the operators of the library
            are used, and ``optimized``: whether nothing waits and nothing of more than 16 KiB is allocated besides.
        """
        own = brain.copy()
        values = torch.zeros(own.sensory_dim, device=own.device)
        own.step(values)
        with _Counter() as step:
            own.step(values)
        with _Counter() as cycle:
            own.process_robot_cycle([0.0] * own.sensory_dim)
        largest = max(step.allocated, default=0)
        return {
            "syncs": step.waits,
            "transfers": cycle.transfers,
            "allocations": len(step.allocated),
            "allocated_bytes": sum(step.allocated),
            "largest_allocation": largest,
            "field_bytes": own.field.nbytes,
            "fused": not own.eager,
            "optimized": not step.waits and largest <= _SMALL_BYTES and not own.eager,
        }


@takes(cycles=Int(1))
def quick_performance_test(cycles: int = 20, **settings: Any) -> dict[str, Any]:
    """Times cycles of a brain of `create_brain`, and of one whose operators are compositions in plain torch.

    Returns:
        Medians of ``cycles`` cycles, ``cycle_ms`` and ``eager_ms``, with ``hz``, ``speedup`` = eager_ms / cycle_ms,
        ``peak_mb`` (of the brain: its tensors, on a GPU what was allocated at the most), and ``device``.
    """
    brain = create_brain(**settings)
    on_gpu = brain.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(brain.device)

    def cycle() -> None:
        brain.process_robot_cycle([0.1] * brain.sensory_dim)

    def milliseconds(count: int) -> float:
        # On a GPU later cycles replay what these captured.
        for _ in range(3):
            cycle()
        return 1e3 * benchmark_device(cycle, count)["median"]

    own = milliseconds(cycles)
    peak = torch.cuda.max_memory_allocated(brain.device) if on_gpu else brain.nbytes
    brain.eager = True
    eager = milliseconds(max(1, cycles // 4))
    timed = {"cycle_ms": own, "hz": 1e3 / own, "eager_ms": eager, "speedup": eager / own}
    return {**timed, "peak_mb": peak / 2**20, "device": str(brain.device)}


OptimizedUnifiedFieldBrain = FieldBrain
GPUBrainFactory = FieldBrainFactory
GPUPatternLibrary = PatternLibrary
TensorMemoryPool = TensorPool
