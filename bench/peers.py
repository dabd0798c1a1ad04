"""The packages that benchmarks compare with besides torch, and what brings them."""

import importlib.util
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from typing import NamedTuple


class Package(NamedTuple):
    """A package, and the systems whose benchmarks use it."""

    name: str
    module: str
    install: str
    systems: tuple[str, ...]


PACKAGES = (
    Package("torch-hd", "torchhd", "pip install torch-hd", ("hrr",)),
    Package("numpy", "numpy", "pip install numpy", ("hrr", "assembly")),
    Package("scipy", "scipy", "pip install scipy", ("assembly",)),
    Package(
        "neural-assemblies", "neural_assemblies", "pip install neural-assemblies==0.0.1a1 numpy", ("programs",)
    ),
    Package(
        "the published parser", "brain_util",
        "git clone https://github.com/dmitropolsky/assemblies; put it on PYTHONPATH; pip install numpy pptree",
        ("programs",),
    ),
    Package("gymnasium", "gymnasium", "pip install gymnasium", ("field",)),
)  # fmt: skip


def versions(system: str) -> dict[str, str | None]:
    """Of the packages that a system is compared with; None where one is not installed."""
    return {each.name: _version(each) for each in PACKAGES if system in each.systems}


@cache
def is_here(module: str) -> bool:
    """Whether a module can be imported: a package may be there without what it needs."""
    if importlib.util.find_spec(module) is None:
        return False
    try:
        importlib.import_module(module)
    except ImportError as error:
        print(f"{module} is there, but {error}", file=sys.stderr)
        return False
    return True


def _version(package: Package) -> str | None:
    if not is_here(package.module):
        return None
    try:
        return metadata.version(package.name)
    except metadata.PackageNotFoundError:
        return "of no version"


def described(found: dict[str, str | None], compiled: bool) -> Iterator[str]:
    """Lines that say what is compared with, and what would bring the rest."""
    here = [f"{name} {version}" for name, version in found.items() if version is not None]
    yield ", ".join(["beside: eager torch", *(["torch.compile"] if compiled else []), *here])
    for package in PACKAGES:
        if package.name in found and found[package.name] is None:
            yield f"without {package.name}: {package.install}"
