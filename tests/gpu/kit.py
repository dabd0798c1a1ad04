"""Packs the library, the tests and the benchmarks for a machine with a GPU into one folder: make gpu-kit.

The library is built here, against the torch of that machine, which then compiles nothing. A binary serves one minor
version of torch and any Python. docs/dev/gpu.md says what the folder is for.
"""

import argparse
import hashlib
import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT), str(ROOT / "tests")]

import minors  # noqa: E402
from stages import PTX, PTX_ARCHIVE, TORCH_BRAINS  # noqa: E402

from bench.run import commit_of_tree  # noqa: E402
from bench.tools import gpu_counts  # noqa: E402

MOST_BYTES = 60 * 2**20
# What the tests of tests/gpu import or run; the dry run shows whether something is missing.
PARTS = (
    "pyproject.toml", "LICENSE", "docs/dev/gpu.md", "bench/*.py", "bench/tools/*", "tests/conftest.py",
    "tests/cases/*.py", "tests/gpu/*", "tests/assembly/brain_programs.py", TORCH_BRAINS,
)  # fmt: skip


def build(minor: str, architecture: str, part: Path) -> Path:
    """Puts the package into `part`, and one with CUDA code for an older GPU and PTX, packed; returns torch's folder."""
    site = minors.unpacked(minor)
    if architecture == "none":
        minors.build_for_cpu(site)
    else:
        # The tree keeps all but the kernels from one to the other.
        minors.build(site, "cuda", site, TORCH_HRR_ISAS="all", TORCH_HRR_CUDA="1", TORCH_CUDA_ARCH_LIST=PTX)
        copy_package(site, part / "ptx")
        # Packed, since few stages need it: two libraries would take nearly all of the space.
        shutil.make_archive(str(part / "ptx"), "xztar", part / "ptx")
        shutil.rmtree(part / "ptx")
        minors.build(site, "cuda", site, TORCH_HRR_ISAS="all", TORCH_HRR_CUDA="1", TORCH_CUDA_ARCH_LIST=architecture)
    copy_package(site, part)
    return site / "torch"


def copy_package(site: Path, where: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "benchmarks", "include", "share")
    shutil.copytree(site / "torch_hrr", where / "torch_hrr", ignore=ignored)


def copy_parts(part: Path) -> None:
    for pattern in PARTS:
        for source in ROOT.glob(pattern):
            if source.is_file():
                target = part / source.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)


def add_counts(program: Path, part: Path) -> None:
    """counts.json, and predictions.json where there are CUDA kernels."""
    gpu_counts.counted(program)
    (library,) = part.glob("torch_hrr/lib/*/*.so")
    counts = part / "counts.json"
    shutil.copy2(program.with_name("counts.json"), counts)
    if (part / PTX_ARCHIVE).exists():
        command = ["bench/gpu_headlines.py", "--predict", str(part / "predictions.json")]
        command += ["--counts", str(counts), "--code", str(library)]
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True)


def files_below(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default="2.11", metavar="MINOR", help="of the machine with the GPU (default: 2.11)")
    parser.add_argument("--architecture", default="9.0", help="of its GPU, or none for a dry run (default: 9.0)")
    parser.add_argument("--build", type=Path, help="a build tree with cuda_on_host_profile: adds counts and the model")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    folder = options.folder.resolve()
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    torch = runpy.run_path(str(build(options.torch, options.architecture, part) / "version.py"))
    copy_parts(part)
    if options.build and (program := gpu_counts.counts_program(options.build)).is_file():
        add_counts(program, part)
    manifest = {
        "torch": torch["__version__"],
        "cuda": torch["cuda"],
        "architectures": [] if options.architecture == "none" else [options.architecture],
        "commit": commit_of_tree(12) or "unknown",
        "files": {
            str(path.relative_to(part)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files_below(part)
        },
    }
    (part / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    size = sum(path.stat().st_size for path in files_below(part))
    if size > MOST_BYTES:
        sys.exit(f"torch_hrr: the kit has {size / 2**20:.0f} MiB, more than {MOST_BYTES // 2**20}: {part}")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    print(f"torch_hrr: {folder}, {size / 2**20:.1f} MiB: copy it to the machine and run tests/gpu/run there, in it")


if __name__ == "__main__":
    main()
