"""The wheel of this tree: complete, without rests of the build, usable from elsewhere, clear when it does not fit."""

import fcntl
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

import torch_hrr
from torch_hrr import _library

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = Path(_library.load()).relative_to(Path(torch_hrr.__file__).parent)

pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="the source tree is needed")

BIND = """
import torch, torch_hrr
a, delta = torch.randn(3, 64), torch.nn.functional.one_hot(torch.tensor(0), 64).float()
torch.testing.assert_close(torch_hrr.hrr.bind(a, delta), a)
print(torch_hrr.__file__)
"""


def call(*command: str | Path, **arguments: object) -> subprocess.CompletedProcess[str]:
    finished = subprocess.run(command, capture_output=True, text=True, timeout=1200, **arguments)  # type: ignore[call-overload]
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished


def tree_status() -> str | None:
    """What git sees of the tree, ignored files aside; None outside a checkout."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return None
    return call("git", "-C", ROOT, "status", "--porcelain").stdout


def build(directory: Path) -> Path:
    before = tree_status()
    # The same kind of build as the one that is installed, so that its objects serve again.
    built = _library.build_info()
    kind = {
        "TORCH_HRR_CUDA": "0" if built["cuda"] == "none" else "1",
        "TORCH_HRR_ISAS": built["isas"].replace(",", ";"),
    }
    environment = os.environ | kind | {"MAX_JOBS": os.environ.get("MAX_JOBS", "2")}
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    call(*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", directory, ROOT, env=environment)
    (wheel,) = directory.glob("torch_hrr-*.whl")
    call(*pip, "install", "--no-deps", "--target", directory / "site", wheel)
    assert tree_status() == before, "the build left something in the tree"
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, beside it the folder `site` it is installed in; built once, whatever the number of test processes."""
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel"
    directory.mkdir(exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = directory / "done"
        if not done.exists():
            build(directory)
            done.touch()
    return next(directory.glob("torch_hrr-*.whl"))


def run_python(site: Path, directory: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(site)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=directory, env=environment, capture_output=True, text=True, timeout=300
    )


def test_contents_are_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    metadata = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert any(name.endswith("licenses/LICENSE") for name in metadata)
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "torch_hrr").rglob("*.py")}
    benchmarks = {f"torch_hrr/benchmarks/bench/{path.name}" for path in (ROOT / "bench").glob("*.py")}
    assert names - metadata == sources | benchmarks | {
        "torch_hrr/_ops.pyi",
        "torch_hrr/py.typed",
        f"torch_hrr/{LIBRARY}",
        "torch_hrr/include/torch_hrr/torch_hrr.h",
        "torch_hrr/share/cmake/TorchHRR/TorchHRRConfig.cmake",
        "torch_hrr/share/cmake/TorchHRR/TorchHRRConfigVersion.cmake",
    }


def test_name_tells_the_platform_and_is_for_any_python(wheel: Path) -> None:
    version, *tags, platform = wheel.stem.split("-")[1:]
    assert version == torch_hrr.__version__ and tags == ["py3", "none"]
    assert "linux" in platform, "a wheel with a library is not for any platform"


def test_works_from_elsewhere(wheel: Path, tmp_path: Path) -> None:
    site = wheel.parent / "site"
    finished = run_python(site, tmp_path, BIND)
    assert finished.returncode == 0, finished.stderr
    assert Path(finished.stdout.strip()).is_relative_to(site)


def needed(requirements: list[str], extras: frozenset[str] = frozenset()) -> dict[str, importlib.metadata.Distribution]:
    """The installed distributions that requirements ask for, and what these ask for, by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    asked = [(text, extras) for text in requirements]
    seen = set()
    while asked:
        text, extras = asked.pop()
        requirement = Requirement(text)
        here = requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in extras or {""})
        if not here or (requirement.name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((requirement.name, frozenset(requirement.extras)))
        distribution = importlib.metadata.distribution(requirement.name)
        found[requirement.name] = distribution
        asked += [(more, frozenset(requirement.extras)) for more in distribution.requires or ()]
    return found


def test_installs_and_works_where_there_is_nothing_but_what_it_asks_for(wheel: Path, tmp_path: Path) -> None:
    """A fresh environment with links to torch, safetensors and what these need: no NumPy, nothing of the tests."""
    call(sys.executable, "-m", "venv", "--without-pip", tmp_path / "clean")
    python = tmp_path / "clean" / "bin" / "python"
    packages = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        asked = importlib.metadata.PathDistribution(zipfile.Path(archive, str(Path(metadata).parent) + "/")).requires
    distributions = needed([text for text in asked or () if "extra ==" not in text])
    assert {"torch", "safetensors"} <= distributions.keys() and "numpy" not in distributions
    for distribution in distributions.values():
        for name in {path.parts[0] for path in distribution.files or ()} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(distribution.locate_file(name))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    # It would name the clone, which pip would take for what is asked for.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Without an index what is missing is an error.
    call(*pip, "install", "--no-index", wheel, env=environment)
    call(*pip, "check", env=environment)
    # Isolated: neither the clone nor the environment of the tests is on the path.
    finished = call(python, "-I", "-c", BIND, cwd=tmp_path)
    assert Path(finished.stdout.strip()).is_relative_to(packages)
    assert call(python, "-I", "-m", "torch_hrr", "doctor", cwd=tmp_path).stdout.endswith("nothing is wrong\n")


def test_an_installed_package_has_its_benchmarks(wheel: Path, tmp_path: Path) -> None:
    # A folder of the user's, which is first on the path.
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").write_text("raise RuntimeError")
    program = "import sys; from torch_hrr.__main__ import main; sys.exit(main(sys.argv[1:]))"
    arguments = ("bench", "hrr", "--quick", "--filter", "^unbind 100x512$", "--json", str(tmp_path / "report.json"))
    environment = os.environ | {"PYTHONPATH": str(wheel.parent / "site")}
    call(sys.executable, "-c", program, *arguments, cwd=tmp_path, env=environment)
    report = json.loads((tmp_path / "report.json").read_text())
    assert [entry["op"] for entry in report["entries"]] == ["unbind"]
    assert report["machine"]["commit"] is None


def test_the_source_distribution_has_what_a_build_needs(tmp_path: Path) -> None:
    """`make test-minors` builds from it; this sees a file that it lacks."""
    if tree_status() is None:
        pytest.skip("git says which files belong to the tree")
    call(sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", tmp_path, cwd=ROOT)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        packed = {member.name.partition("/")[2] for member in archive if member.isfile()}
    tracked = set(call("git", "-C", ROOT, "ls-files").stdout.splitlines())
    assert {name for name in tracked - packed if not name.startswith(".")} == set()
    metadata = {name for name in packed if name.startswith("torch_hrr.egg-info/")} | {"PKG-INFO", "setup.cfg"}
    assert packed - tracked - metadata == set()


def import_error_of(site: Path, directory: Path) -> str:
    """The one line that a failing import of the package ends with."""
    finished = run_python(site, directory, "import torch\ntry:\n import torch_hrr\nexcept ImportError as e:\n print(e)")
    assert finished.returncode == 0, finished.stderr
    (line,) = finished.stdout.splitlines()
    return line


@pytest.fixture
def damaged(wheel: Path, tmp_path: Path) -> Path:
    site = tmp_path / "site"
    shutil.copytree(wheel.parent / "site" / "torch_hrr", site / "torch_hrr")
    return site


def test_the_library_for_the_torch_at_hand_is_chosen(damaged: Path, tmp_path: Path) -> None:
    ours = damaged / "torch_hrr" / LIBRARY
    other = ours.parent.with_name("torch-1.99")
    other.mkdir()
    (other / ours.name).write_text("not even a library")
    finished = run_python(damaged, tmp_path, "from torch_hrr import _library; print(_library.load())")
    assert finished.stdout.strip() == str(ours), finished.stderr
    shutil.rmtree(ours.parent)
    line = import_error_of(damaged, tmp_path)
    assert line.startswith(f"torch_hrr: the native library is built for torch 1.99, not for {torch.__version__}; mend ")
    assert "pip install --no-build-isolation" in line


def test_a_missing_library_is_an_import_error_that_names_the_cure(damaged: Path, tmp_path: Path) -> None:
    (damaged / "torch_hrr" / LIBRARY).unlink()
    line = import_error_of(damaged, tmp_path)
    assert line.startswith("torch_hrr: the native library is not built")
    assert "pip install --no-build-isolation" in line
