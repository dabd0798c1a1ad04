"""Hierarchies of layers on several time scales that learn by local rules, without backpropagation."""

from torch_hrr.hierarchy.functional import plastic_scan

__all__ = ["plastic_scan"]
