"""Assemblies of neurons: areas of n neurons of which the k with the largest inputs fire.

Inputs are rows of the last dimension n; leading dimensions are a batch.
"""

from torch_hrr.assembly import _vmap
from torch_hrr.assembly.brain import Brain
from torch_hrr.assembly.functional import connectome_inputs, k_winners

_vmap.register()

__all__ = ["Brain", "connectome_inputs", "k_winners"]
