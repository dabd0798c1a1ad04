"""Sinusoidal encodings: positions, time stamps and tokens as sinusoids, exact at any position."""

from typing import TYPE_CHECKING

from torch_hrr._moved import names_of
from torch_hrr.encoding.acceleration import GPUConfig
from torch_hrr.encoding.config import SinusoidalConfig
from torch_hrr.encoding.conventions import CONVENTIONS, Convention, sinusoidal_convention
from torch_hrr.encoding.embedder import ConfigurableSinusoidalEmbedder, LearnableFrequencies
from torch_hrr.encoding.estimators import LSMClassifier, LSMRegressor
from torch_hrr.encoding.functional import embed_positions, sinusoidal_encoding, sinusoidal_features
from torch_hrr.encoding.generator import LSMGenerator
from torch_hrr.encoding.relative import RelativePositionBias, attention_weights
from torch_hrr.encoding.reservoir import LiquidStateMachine
from torch_hrr.encoding.rotary import rope, rope_frequencies, rotate
from torch_hrr.encoding.tables import MappedTable, MemoryStorageConfig, save_table

if TYPE_CHECKING:
    from torch_hrr.compat.encoding import GPUAccelerator
else:
    __getattr__, __dir__ = names_of(__name__)

__all__ = [
    "CONVENTIONS",
    "ConfigurableSinusoidalEmbedder",
    "Convention",
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
    "rope",
    "rope_frequencies",
    "rotate",
    "save_table",
    "sinusoidal_convention",
    "sinusoidal_encoding",
    "sinusoidal_features",
]
