"""Errors of a native library that is not there say what mends them where they are."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from torch_hrr import _library


@pytest.fixture
def bare(tmp_path):
    """The package as a clone or a damaged installation has it: without the library."""
    package = pathlib.Path(_library.__file__).parent
    shutil.copytree(package, tmp_path / "torch_hrr", ignore=shutil.ignore_patterns("lib", "__pycache__"))
    return tmp_path


def import_error(directory):
    program = "try:\n import torch_hrr\nexcept ImportError as error:\n print(error)"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True, timeout=300).stdout


def test_the_source_tree_says_that_it_is_one(bare):
    (bare / "CMakeLists.txt").touch()
    assert import_error(bare) == (
        f"torch_hrr: {bare} is the source tree, whose native library is not built; "
        "leave this directory, or run: python setup.py build_ext --inplace\n"
    )


def test_an_installation_wants_to_be_built_again(bare):
    assert import_error(bare).startswith(
        "torch_hrr: the native library is not built; mend it with: pip install --no-build-isolation --force-reinstall"
    )
