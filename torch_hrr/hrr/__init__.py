"""Holographic reduced representations: binding by circular convolution.

Vectors are rows of the last dimension D; leading dimensions broadcast. float32, float64, float16 and bfloat16; the half
types are stored as such and computed in float32.
"""

from torch_hrr.hrr import _vmap
from torch_hrr.hrr.functional import bind, bind_normalize, bind_superpose, random, superpose, unbind

_vmap.register()

__all__ = ["bind", "bind_normalize", "bind_superpose", "random", "superpose", "unbind"]
