"""Fused PyTorch operators for brain-inspired computing.

Importing the package loads the native library and registers its operators as ``torch.ops.torch_hrr.*``; the
subpackages wrap them: ``torch_hrr.hrr`` (holographic reduced representations), ``torch_hrr.assembly`` (assemblies of
neurons), ``torch_hrr.encoding`` (sinusoids of positions), ``torch_hrr.field`` (fields in three dimensions),
``torch_hrr.hierarchy`` (layers that learn), ``torch_hrr.runtime`` (devices) and ``torch_hrr.io`` (checked files).
`torch_hrr.load` reads whatever object a file holds. ``torch_hrr.ops`` is ``torch.ops.torch_hrr`` with types, which
editors, mypy and pyright see: no stub can add them to a module of torch.
"""

from pathlib import Path

from torch_hrr import _fallback, _library, _sharding, _vmap

_library.load()
_vmap.register()
_fallback.register()
_sharding.register()

from torch_hrr import assembly, encoding, field, hierarchy, hrr, io, runtime  # noqa: E402
from torch_hrr._ops import ops  # noqa: E402
from torch_hrr.io.files import IntegrityError  # noqa: E402
from torch_hrr.io.saveable import load  # noqa: E402
from torch_hrr.runtime import DeviceError  # noqa: E402

__version__ = _library.version()

cmake_prefix_path = str(Path(__file__).parent / "share" / "cmake")
"""For CMAKE_PREFIX_PATH, beside ``torch.utils.cmake_prefix_path``: then ``find_package(TorchHRR)`` works."""

__all__ = [
    "DeviceError",
    "IntegrityError",
    "__version__",
    "assembly",
    "cmake_prefix_path",
    "encoding",
    "field",
    "hierarchy",
    "hrr",
    "io",
    "load",
    "ops",
    "runtime",
]
