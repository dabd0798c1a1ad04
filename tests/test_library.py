"""Errors of a native library that is not there say what mends them where they are."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch
from torch._dynamo.utils import counters

from torch_hrr import _library


@pytest.fixture
def bare(tmp_path):
    """The package as a clone or a damaged installation has it: without the library."""
    package = pathlib.Path(_library.__file__).parent
    shutil.copytree(package, tmp_path / "torch_hrr", ignore=shutil.ignore_patterns("lib", "__pycache__"))
    return tmp_path


def import_error(directory):
    program = "try:\n import torch_hrr\nexcept ImportError as error:\n print(error)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(directory), *sys.path])}
    command = [sys.executable, "-c", program]
    finished = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    return finished.stdout


def test_the_source_tree_says_that_it_is_one(bare):
    (bare / "CMakeLists.txt").touch()
    start, end = f"torch_hrr: {bare} is the source tree, whose native library ", "; leave this directory, or run: "
    end += "python setup.py build_ext --inplace\n"
    assert import_error(bare) == f"{start}is not built{end}"
    other = bare / "torch_hrr" / "lib" / "torch-1.99" / _library.load().name
    other.parent.mkdir(parents=True)
    other.touch()
    assert import_error(bare) == f"{start}is built for torch 1.99, not for {torch.__version__}{end}"


def test_an_installation_wants_to_be_built_again(bare):
    assert import_error(bare).startswith(
        "torch_hrr: the native library is not built; mend it with: pip install --no-build-isolation --force-reinstall"
    )


def test_the_import_brings_no_compiler_and_no_optional_package():
    program = (
        "import sys, torch\nbefore = set(sys.modules)\nimport torch_hrr\n"
        "slow = ('torch._dynamo', 'torch._inductor', 'sympy', 'scipy', 'sklearn', 'matplotlib')\n"
        "print(sorted(name for name in set(sys.modules) - before if name in slow))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert finished.stdout == "[]\n"


class Binding(torch.nn.Module):
    def forward(self, a, b):
        return torch.ops.torch_hrr.bind(a, b)


LOADING = """
for load, path in ((torch.jit.load, "scripted.pt"), (lambda path: torch.export.load(path).module(), "exported.pt2")):
    try:
        print(load(path)(torch.ones(8), torch.ones(8))[0].item())
    except Exception:
        print("refused")
"""


def test_a_process_imports_the_package_before_it_loads_a_program(tmp_path):
    module, inputs = Binding(), (torch.ones(8), torch.ones(8))
    torch.jit.script(module).save(tmp_path / "scripted.pt")
    torch.export.save(torch.export.export(module, inputs), tmp_path / "exported.pt2")
    for first, expected in (("import torch, torch_hrr", ["8.0", "8.0"]), ("import torch", ["refused", "refused"])):
        command = [sys.executable, "-W", "ignore", "-c", first + LOADING]
        finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
        assert finished.stdout.split() == expected


def test_compiled_graphs_on_disk_are_those_of_one_build_of_the_library(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    a = torch.randn(2, 8, requires_grad=True)

    def is_read_from_disk(build):
        with torch.compiler.config.patch(cache_key_tag="mine"):
            _library._mark_compile_caches(build)
            assert torch.compiler.config.cache_key_tag.startswith("mine")
            torch._dynamo.reset()
            counters.clear()
            torch.compile(lambda a: torch.ops.torch_hrr.unbind(a, a))(a).sum().backward()
            torch._dynamo.reset()
            return counters["inductor"]["fxgraph_cache_hit"] > 0

    other = tmp_path / "another_build.so"
    other.write_bytes(b"another build")
    build = _library.load()
    assert [is_read_from_disk(found) for found in (build, build, other)] == [False, True, False]


def test_the_hash_of_the_library_is_in_the_keys_of_compiled_graphs():
    digest = hashlib.sha256(_library.load().read_bytes()).hexdigest()
    assert torch.compiler.config.cache_key_tag.count(f";torch_hrr={digest[:16]}") == 1


def test_a_library_without_kernels_for_this_processor_is_told_to_be_slow(monkeypatch):
    monkeypatch.delenv("TORCH_HRR_ISA", raising=False)
    monkeypatch.setattr(_library, "_mark_compile_caches", lambda library: None)
    for isas, processor in (("scalar,avx2", "avx512"), ("scalar", "avx2")):
        told = {"isas": isas, "processor": processor}
        monkeypatch.setattr(_library, "_info", lambda library, told=told: told)
        with pytest.warns(RuntimeWarning, match=f"no CPU kernels for this processor's {processor}.* mend it with: pip"):
            _library.load.__wrapped__()
    # The instruction set was chosen, or the library is older than what tells of them.
    monkeypatch.setenv("TORCH_HRR_ISA", "scalar")
    _library.load.__wrapped__()
    monkeypatch.setenv("TORCH_HRR_ISA", "")
    monkeypatch.setattr(_library, "_info", lambda library: {})
    _library.load.__wrapped__()
