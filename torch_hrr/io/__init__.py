"""Checked files: tensors with plain values, sealed by SHA-256 or by a key, and the objects that are saved in them.

And what exported programs need to run elsewhere.
"""

from torch_hrr.io.exported import inductor_configs, onnx_decompositions
from torch_hrr.io.files import IntegrityError, digest, format_of, load, open_mapped, save, save_in_pieces
from torch_hrr.io.files import write_atomically as write_atomically
from torch_hrr.io.saveable import Saveable, saveable_classes

__all__ = [
    "IntegrityError",
    "Saveable",
    "digest",
    "format_of",
    "inductor_configs",
    "load",
    "onnx_decompositions",
    "open_mapped",
    "save",
    "save_in_pieces",
    "saveable_classes",
]
