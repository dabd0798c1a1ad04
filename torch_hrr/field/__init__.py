"""Fields in three dimensions: channels that decay, diffuse and are spontaneously active, and brains made of them."""

from typing import TYPE_CHECKING

from torch_hrr._moved import names_of
from torch_hrr.field import _control as _control
from torch_hrr.field import plot
from torch_hrr.field.brain import FieldBrain
from torch_hrr.field.dynamics import DynamicField, DynamicFieldConfig, Peak
from torch_hrr.field.functional import (
    advance_key,
    advance_key_,
    evolve,
    gradient,
    gradient_magnitude,
    random_key,
)
from torch_hrr.field.patterns import PatternLibrary
from torch_hrr.field.split import SplitField
from torch_hrr.field.split_brain import SplitFieldBrain
from torch_hrr.runtime.pool import TensorPool

if TYPE_CHECKING:
    from torch_hrr.compat.field import (
        BatchedFieldOperations,
        FieldBrainFactory,
        GPUBrainFactory,
        GPUPatternLibrary,
        OptimizationChecker,
        OptimizedUnifiedFieldBrain,
        TensorMemoryPool,
        create_brain,
        quick_performance_test,
    )
else:
    __getattr__, __dir__ = names_of(__name__)

__all__ = [
    "BatchedFieldOperations",
    "DynamicField",
    "DynamicFieldConfig",
    "FieldBrain",
    "FieldBrainFactory",
    "GPUBrainFactory",
    "GPUPatternLibrary",
    "OptimizationChecker",
    "OptimizedUnifiedFieldBrain",
    "PatternLibrary",
    "Peak",
    "SplitField",
    "SplitFieldBrain",
    "TensorMemoryPool",
    "TensorPool",
    "advance_key",
    "advance_key_",
    "create_brain",
    "evolve",
    "gradient",
    "gradient_magnitude",
    "plot",
    "quick_performance_test",
    "random_key",
]
