"""Public names of a package whose code lies in modules that the first use of one of them imports."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

# Modules that are imported when somebody asks for one of their names.
_HOMES: list[str] = []


def names_of(package: str, *modules: str, **homes: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, which is partly elsewhere.

    Args:
        package: Its name.
        *modules: Names of its modules that are public as such.
        **homes: Its modules that define names, between blanks. All other names in its ``__all__`` are those of older
            programs, in the module of ``torch_hrr.compat`` of its name.
    """
    faces = f"torch_hrr.compat.{package.rpartition('.')[2]}"
    home_of = {name: f"{package}.{home}" for home, names in homes.items() for name in names.split()}
    _HOMES.extend(f"{package}.{home}" for home in homes)

    def get(name: str) -> Any:
        known = vars(sys.modules[package])
        if name not in known.get("__all__", ()):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        known[name] = value = getattr(importlib.import_module(home_of.get(name, faces)), name)
        return value

    def names() -> list[str]:
        known = vars(sys.modules[package])
        return sorted({*known, *known["__all__"]})

    return get, names


def import_all() -> None:
    """Imports every module of `names_of`."""
    compat = importlib.import_module("torch_hrr.compat")
    for name in _HOMES + [module.name for module in pkgutil.iter_modules(compat.__path__, "torch_hrr.compat.")]:
        importlib.import_module(name)
