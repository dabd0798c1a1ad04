"""Hierarchies of layers on several time scales that learn by local rules, without backpropagation."""

from torch_hrr.hierarchy.active_inference import expected_free_energy
from torch_hrr.hierarchy.bitlinear import BitLinear
from torch_hrr.hierarchy.functional import plastic_scan
from torch_hrr.hierarchy.layers import HebbianCore, Layer, ReactiveLayer
from torch_hrr.hierarchy.level import HierarchicalLevel
from torch_hrr.hierarchy.manager import HierarchyManager
from torch_hrr.hierarchy.monitor import Monitor
from torch_hrr.hierarchy.softhebb import SoftHebb

__all__ = [
    "BitLinear",
    "HebbianCore",
    "HierarchicalLevel",
    "HierarchyManager",
    "Layer",
    "Monitor",
    "ReactiveLayer",
    "SoftHebb",
    "expected_free_energy",
    "plastic_scan",
]
