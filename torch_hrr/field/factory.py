"""Functions that make field brains, on a GPU if there is one or on a given device."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_hrr import _library
from torch_hrr._checks import check_bool, check_seed, renamed
from torch_hrr._repr import Described
from torch_hrr.field import functional
from torch_hrr.field.brain import FieldBrain
from torch_hrr.runtime import resolve_device


def has_gpu() -> bool:
    """Whether there is a CUDA device, and this build of the library has kernels for it."""
    return _library.has_cuda_kernels() and torch.cuda.is_available()


def create_brain(
    sensory_dim: int = 16,
    motor_dim: int = 5,
    spatial: int | Sequence[int] = 32,
    channels: int = 64,
    prefer_gpu: bool = True,
    seed: int = 0,
    **settings: Any,
) -> FieldBrain:
    """A `FieldBrain` on a GPU if there is one, else on the CPU.

    Args:
        sensory_dim: Number of sensory values.
        motor_dim: Number of motors.
        spatial: Edge of the cube of places, or depth, height and width.
        channels: At least sensory_dim + motor_dim.
        prefer_gpu: False makes it on the CPU even if there is a GPU. The device of `runtime.set_device` is not asked.
        seed: Seed of its weights and its noise.
        **settings: Other arguments of `FieldBrain`; ``device``, if given, overrides ``prefer_gpu``.

    Raises:
        TypeError: An argument of another type, or an unknown setting.
        ValueError: A number is outside its range.
        RuntimeError: ``device`` is one that torch cannot use.
    """
    own = {"sensory_dim": sensory_dim, "motor_dim": motor_dim, "spatial": spatial, "channels": channels, "seed": seed}
    return _created("create_brain", prefer_gpu=prefer_gpu, **own, **settings)


def _created(op: str, prefer_gpu: bool = True, **settings: Any) -> FieldBrain:
    """`create_brain` under the name of the user's call."""
    prefer_gpu = check_bool(op, "prefer_gpu", prefer_gpu)
    known = inspect.signature(FieldBrain).parameters
    for name in settings:
        if name not in known:
            raise TypeError(f"{op}: settings must be arguments of FieldBrain or prefer_gpu, got {name}")
    if settings.get("device") is None:
        settings["device"] = "auto" if prefer_gpu else "cpu"
    try:
        return FieldBrain(**settings)
    except (TypeError, ValueError, RuntimeError) as error:
        raise renamed(error, "FieldBrain", op) from None


class FieldBrainFactory(Described):
    """Makes brains of the same settings with consecutive seeds.

    Attributes:
        settings: Arguments of `create_brain` for every brain.
        made: How many were made.
    """

    def __init__(self, **settings: Any) -> None:
        """Keeps the settings; they are checked when a brain is made."""
        self.settings = settings
        self.made = 0

    def _summary(self) -> dict[str, Any]:
        return {**self.settings, "made": self.made}

    def create(self, **settings: Any) -> FieldBrain:
        """The next brain: with the factory's settings, changed as given; its seed is the factory's plus its number.

        Raises:
            TypeError, ValueError: As for `create_brain`; the number does not count.
        """
        own = self.settings | settings
        if "seed" not in settings:
            seed = self.settings.get("seed", 0)
            check_seed("create", seed)
            own["seed"] = seed + self.made
        brain = _created("create", **own)
        self.made += 1
        return brain

    @staticmethod
    def create_optimized_brain(force_gpu: bool = False, **settings: Any) -> FieldBrain:
        """A brain of `create_brain`; with ``force_gpu`` a RuntimeError if there is no GPU."""
        force_gpu = check_bool("create_optimized_brain", "force_gpu", force_gpu)
        if force_gpu:
            if not has_gpu():
                raise RuntimeError(
                    "create_optimized_brain: force_gpu must be False, as no GPU is there that can be used"
                )
            settings["device"] = resolve_device("cuda", op="create_optimized_brain")
        return _created("create_optimized_brain", **settings)


class BatchedFieldOperations(Described):
    """The field operators under the names of an older program."""

    @staticmethod
    def fused_field_evolution(
        field: Tensor, decay_rate: float = 0.02, diffusion_strength: float = 0.05, noise: float = 0.0, **options: Any
    ) -> Tensor:
        """`evolve`: decay, diffusion and spontaneous activity in one pass; options as there."""
        try:
            return functional.evolve(field, decay_rate, diffusion_strength, noise=noise, **options)
        except (TypeError, ValueError, RuntimeError) as error:
            raise renamed(error, "evolve", "fused_field_evolution") from None

    @staticmethod
    def batched_gradient_extraction(field: Tensor) -> Tensor:
        """`gradient`: the derivatives of all channels in one pass."""
        try:
            return functional.gradient(field)
        except (TypeError, ValueError, RuntimeError) as error:
            raise renamed(error, "gradient", "batched_gradient_extraction") from None


OptimizedUnifiedFieldBrain = FieldBrain
GPUBrainFactory = FieldBrainFactory
