"""Fields in three dimensions: channels that decay, diffuse and are spontaneously active, and brains made of them."""

from torch_hrr.field import plot
from torch_hrr.field.brain import FieldBrain
from torch_hrr.field.checker import OptimizationChecker, quick_performance_test
from torch_hrr.field.dynamics import DynamicField, DynamicFieldConfig, Peak
from torch_hrr.field.factory import (
    BatchedFieldOperations,
    FieldBrainFactory,
    GPUBrainFactory,
    OptimizedUnifiedFieldBrain,
    create_brain,
)
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
from torch_hrr.runtime.pool import TensorPool

GPUPatternLibrary = PatternLibrary
TensorMemoryPool = TensorPool

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
