"""A plugin of pytest: the tests of operators then drive the operator of CONTRIBUTING.md through every lane."""

import os
import pathlib
import re
import sys

import torch

TESTS = pathlib.Path(__file__).parent
LIBRARY = pathlib.Path(os.environ.get("TORCH_HRR_BUILD_DIR", ""), "tests/cpp/libexample_operators.so")

sys.path.insert(0, str(TESTS))


def blocks(language):
    """The code that CONTRIBUTING.md shows."""
    return re.findall(rf"```{language}\n(.*?)```", (TESTS.parent / "CONTRIBUTING.md").read_text(), re.DOTALL)


def load():
    """Loads the library of the examples once."""
    if not hasattr(torch.ops.torch_hrr, "involution"):
        from torch_hrr import _vmap

        torch.ops.load_library(str(LIBRARY))
        _vmap.register(LIBRARY)


def example_case():
    """The OpCase of CONTRIBUTING.md."""
    load()
    names = {}
    exec(blocks("python")[0], names)
    return names["CASE"]


def pytest_configure(config):
    """Before collection: then it is the only case."""
    import cases

    cases.ALL_CASES = cases.FLOATING_CASES = (example_case(),)
    cases.INTEGER_CASES = ()
