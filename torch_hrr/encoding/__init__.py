"""Sinusoidal encodings: positions, time stamps and tokens as sinusoids, exact at any position."""

from torch_hrr.encoding.acceleration import GPUAccelerator, GPUConfig
from torch_hrr.encoding.config import SinusoidalConfig
from torch_hrr.encoding.embedder import ConfigurableSinusoidalEmbedder, LearnableFrequencies
from torch_hrr.encoding.estimators import LSMClassifier, LSMGenerator, LSMRegressor
from torch_hrr.encoding.functional import embed_positions, sinusoidal_encoding, sinusoidal_features
from torch_hrr.encoding.relative import RelativePositionBias, attention_weights, rotate
from torch_hrr.encoding.reservoir import LiquidStateMachine
from torch_hrr.encoding.tables import MappedTable, MemoryStorageConfig, save_table

__all__ = [
    "ConfigurableSinusoidalEmbedder",
    "GPUAccelerator",
    "GPUConfig",
    "LSMClassifier",
    "LSMGenerator",
    "LSMRegressor",
    "LearnableFrequencies",
    "LiquidStateMachine",
    "MappedTable",
    "MemoryStorageConfig",
    "RelativePositionBias",
    "SinusoidalConfig",
    "attention_weights",
    "embed_positions",
    "rotate",
    "save_table",
    "sinusoidal_encoding",
    "sinusoidal_features",
]
