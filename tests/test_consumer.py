"""C++ programs without Python: they find the installed CMake package, run exported models and learn."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from torch import Tensor

import torch_hrr
from torch_hrr.assembly import Brain

SOURCE = Path(__file__).parent / "cpp" / "consumer"
PIPELINES = Path(__file__).parents[1] / "examples" / "pipelines"
BATCH, ITEMS, DIM = 3, 4, 96
# A process that has not imported torch_hrr, and may do so afterwards.
IN_PYTHON = """
import sys, torch
folder = sys.argv[1]
package = torch._inductor.aoti_load_package(f"{folder}/digits.pt2")
images = torch.from_file(f"{folder}/images.f32", size=9 * 64).view(9, 64)
torch.testing.assert_close(package(images), torch.from_file(f"{folder}/expected.f32", size=90).view(9, 10))
assert "torch_hrr" not in sys.modules
import torch_hrr
assert torch.equal(package(images), torch._inductor.aoti_load_package(f"{folder}/digits.pt2")(images))
"""

pytestmark = [
    pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("ninja") is None, reason="cmake and ninja needed"),
    pytest.mark.skipif(
        not Path(torch_hrr.cmake_prefix_path).is_dir(),
        reason=f"the package was not installed: {torch_hrr.cmake_prefix_path} is missing",
    ),
]


class Encoder(torch.nn.Module):
    """Records of values in learnable roles, bundled with what they are made of."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.roles = torch.nn.Parameter(torch.randn(ITEMS, DIM, generator=generator) / DIM**0.5)

    def forward(self, values: Tensor, fillers: Tensor) -> Tensor:
        bound = torch.ops.torch_hrr.bind_normalize(self.roles, values)
        record = torch.ops.torch_hrr.bind_superpose(bound, fillers)
        bundle = torch.ops.torch_hrr.superpose(bound)
        return torch.ops.torch_hrr.superpose(torch.stack([record, bundle], -2), None, False)


def configure(build: Path, prefixes: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["cmake", "-G", "Ninja", "-S", SOURCE, "-B", build, f"-DCMAKE_PREFIX_PATH={';'.join(prefixes)}", *arguments],
        env=os.environ | {"TORCH_CUDA_ARCH_LIST": "8.0"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def run(*command: str | Path) -> str:
    finished = subprocess.run(command, capture_output=True, text=True, timeout=600, env=without_library_paths())
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def without_library_paths() -> dict[str, str]:
    """The environment of a user: programs must find their libraries by themselves."""
    return {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}


def write_models(directory: Path) -> None:
    encoder = Encoder()
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(BATCH, ITEMS, DIM, generator=generator)
    fillers = torch.randn(BATCH, ITEMS, DIM, generator=generator)
    expected = encoder(values, fillers)
    (roles_grad,) = torch.autograd.grad(expected.square().sum(), encoder.roles)
    tensors = {"values": values, "fillers": fillers, "expected": expected, "roles_grad": roles_grad}
    for name, tensor in tensors.items():
        (directory / name).write_bytes(tensor.detach().contiguous().numpy().astype("<f4").tobytes())
    torch.jit.script(encoder).save(str(directory / "encoder.pt"))


def test_programs_use_the_installed_package(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    models = tmp_path / "models"
    models.mkdir()
    write_models(models)
    build = tmp_path / "build"
    # --as-needed drops libraries that a program calls nothing of, and is the default of some distributions.
    configured = configure(
        build,
        [torch.utils.cmake_prefix_path, torch_hrr.cmake_prefix_path],
        "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed",
    )
    assert configured.returncode == 0, configured.stdout + configured.stderr
    run("cmake", "--build", build, "--parallel", "2")

    output = run(build / "consumer", models)
    assert output.splitlines()[-1] == "consumer ok"
    assert f"version={torch_hrr.__version__}" in output
    run_rounds(build / "examples" / "projection", tmp_path)
    lines = run(build / "examples" / "recover").splitlines()
    assert [line.split()[0] for line in lines] == ["hrr", "assembly", "encoding", "field", "hierarchy"]
    serve_digits(build / "examples" / "serve", build / "bare", tmp_path / "digits")
    # Of docs/cpp.md: the filler that the role was bound with resembles the answer, the other does not.
    near, other, *_, sizes = run(build / "record").splitlines()
    assert abs(float(near) - 0.6) < 0.1 > abs(float(other)) and sizes == "[2, 1024]"


def run_rounds(program: Path, directory: Path) -> None:
    """The example that runs the README's projection: Python's winners, and its file goes on where it was."""
    brain = Brain(p=0.01, seed=0)
    brain.add_stimulus("s", size=317)
    brain.add_area("A", n=100_000, k=317, beta=0.05)
    file, saved = directory / "projection.pt", directory / "saved.pt"
    torch.jit.script(brain.projection({"s": "A"}, {"A": "A"})).save(str(file))
    lines, before = [], torch.zeros(0, dtype=torch.int64)
    for number in range(1, 26):
        brain.project({"s": "A"}, {"A": "A"})
        winners = brain.winners("A")
        stay = int(torch.isin(before, winners).sum())
        lines.append(f"round {number}: {stay} of 317 winners stay, support {brain.support('A')}")
        before = winners
    assert run(program, file, "25", saved).splitlines() == lines
    brain.project({"s": "A"}, {"A": "A"}, rounds=3)
    assert torch.equal(torch.jit.load(saved)(3)["A"], brain.winners("A"))


def serve_digits(program: Path, bare: Path, directory: Path) -> None:
    """The example of digits: its exported files give in C++ what the model gives in Python, whatever the number.

    The package loads the operators by itself: in a program that is not linked to them, and in Python.
    """
    specification = importlib.util.spec_from_file_location("digits", PIPELINES / "digits.py")
    digits = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(digits)
    images, _ = digits.data()
    model = digits.RecordClassifier(32, 2, 8, torch.Generator().manual_seed(0))
    torch.nn.init.normal_(model.read_out, generator=torch.Generator().manual_seed(1))
    digits.export(model, images[:9], directory)
    with torch.no_grad():
        expected = model(images[:9])
    # No operator is left to what calls by name, with boxed arguments.
    assert not [name for name in zipfile.ZipFile(directory / "digits.pt2").namelist() if name.endswith("wrapper.json")]
    rows = directory / "images.f32"
    for server, file in ((program, "digits.pt"), (program, "digits.pt2"), (bare, "digits.pt2")):
        output = run(server, directory / file, rows, "64")
        classes, *logits = torch.tensor([[float(word) for word in line.split()] for line in output.splitlines()]).T
        torch.testing.assert_close(torch.stack(logits, -1), expected)
        assert torch.equal(classes.long(), expected.argmax(-1))
    (directory / "expected.f32").write_bytes(expected.numpy().tobytes())
    run(sys.executable, "-c", IN_PYTHON, directory)
    loaded = subprocess.run(
        [bare, directory / "digits.pt2", rows, "64"],
        env=without_library_paths() | {"LD_DEBUG": "files"},
        capture_output=True,
        text=True,
        timeout=60,
    ).stderr
    assert "libtorch_hrr.so [0]" in loaded and not re.search("libpython|libtorch_python", loaded)
    one = directory / "one.f32"
    one.write_bytes(rows.read_bytes()[: 64 * 4])
    assert len(run(program, directory / "digits.pt2", one, "64").splitlines()) == 1
    for arguments, message in {
        ("digits.pt", "none.f32", "64"): "none.f32 cannot be read",
        ("digits.pt", "images.f32", "0"): "WIDTH must be a whole number above 0, got 0",
        ("digits.pt", "images.f32", "50"): "images.f32 must hold rows of 50 floats, got 2304 bytes",
        ("digits.pt", "images.f32", "32"): "mat1 and mat2 shapes cannot be multiplied",
        ("digits.pt2", "images.f32", "32"): "unmatched dim value at 1, expected: 64, but got: 32",
        ("none.pt2", "images.f32", "64"): "file open failed",
    }.items():
        refused = subprocess.run([program, *arguments], cwd=directory, capture_output=True, text=True, timeout=60)
        assert refused.returncode == 1 and "serve: " in refused.stderr and message in refused.stderr


def test_another_torch_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "torch"
    for path, text in {
        "share/cmake/Torch/TorchConfig.cmake": "",
        "lib/libtorch_cpu.so": "",
        "version.py": "__version__ = '1.99.0'\n",
    }.items():
        (other / path).parent.mkdir(parents=True, exist_ok=True)
        (other / path).write_text(text)
    configured = configure(tmp_path / "build", [str(other), torch_hrr.cmake_prefix_path])
    assert configured.returncode != 0
    message = " ".join(configured.stderr.split())
    minor = ".".join(torch.__version__.split(".")[:2])
    assert f"torch_hrr has libraries for [torch-{minor}], found torch 1.99: reinstall torch_hrr" in message
