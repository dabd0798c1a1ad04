"""Public names whose code lies in another module, which the first use of one of them imports."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

_homes: set[str] = set()


def names_of(package: str, home: str, *names: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, for names that the module `home` defines."""
    _homes.add(home)

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *names})


def import_all() -> None:
    """Imports every module that has such names."""
    for home in sorted(_homes):
        importlib.import_module(home)
