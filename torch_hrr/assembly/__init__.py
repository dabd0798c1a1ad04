"""Assemblies of neurons: areas of n neurons of which the k with the largest inputs fire.

Inputs are rows of the last dimension n; leading dimensions are a batch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from torch_hrr.assembly.brain import Brain
from torch_hrr.assembly.functional import connectome_inputs, k_cap, k_winners, overlap
from torch_hrr.assembly.losses import assembly_loss, assembly_margin_loss, assembly_overlap_loss
from torch_hrr.assembly.modules import AssemblyLayer, KCap
from torch_hrr.assembly.monitor import Monitor

__all__ = [
    "AssemblyLayer",
    "Brain",
    "CupyBrain",
    "KCap",
    "Monitor",
    "TorchBrain",
    "assembly_loss",
    "assembly_margin_loss",
    "assembly_overlap_loss",
    "connectome_inputs",
    "k_cap",
    "k_winners",
    "overlap",
]

if TYPE_CHECKING:
    from torch_hrr.compat import simulator as simulator
    from torch_hrr.compat.assembly import CupyBrain, TorchBrain

# Names of older programs, imported when they are asked for.
_COMPAT = {"CupyBrain": "assembly", "TorchBrain": "assembly", "simulator": "simulator"}


def __getattr__(name: str) -> Any:
    if name not in _COMPAT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"torch_hrr.compat.{_COMPAT[name]}")
    globals()[name] = found = module if name == "simulator" else getattr(module, name)
    return found
