"""Builds the CPU library for other minor versions of torch and runs a part of the tests on each: make test-minors.

A wheel of torch is unpacked into a folder of its own under build/, beside a link to the NVIDIA libraries that the
environment's torch came with, which spares their five gigabytes. The kernels are compiled for this processor's best
instruction set and without any.
"""

import os
import pathlib
import subprocess
import sys
import sysconfig
import time
import zipfile

from torch_hrr._library import build_info

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = pathlib.Path(sysconfig.get_path("purelib"))
# Import, every operator's values and errors, every class, the calls of the seed programs.
TESTS = ("test_library", "test_ops_values", "test_ops_errors", "test_reference", "test_saveable", "test_seed_samples")


def unpacked(minor: str) -> pathlib.Path:
    """The folder that holds this minor of torch, as site-packages would."""
    site = ROOT / "build" / "minors" / minor / "site"
    if not (site / "torch").is_dir():
        site.parent.mkdir(parents=True, exist_ok=True)
        download = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")
        subprocess.run([*download, "--dest", str(site.parent), f"torch=={minor}.*"], check=True)
        (wheel,) = site.parent.glob("torch-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site.with_name("part"))
        # Whole or not at all, whatever interrupts it.
        site.with_name("part").rename(site)
        wheel.unlink()
    if not (site / "nvidia").exists():
        (site / "nvidia").symlink_to(PACKAGES / "nvidia")
    return site


def check(minor: str) -> int:
    """Builds and tests; the exit status of pytest."""
    start = time.monotonic()
    site = unpacked(minor)
    isas = sorted({"scalar", build_info()["isa"]})
    environment = os.environ | {
        "PYTHONPATH": str(site),
        # Otherwise the clone, whose library is for another torch, would be found first.
        "PYTHONSAFEPATH": "1",
        "OMP_NUM_THREADS": "1",
        "TORCH_HRR_CUDA": "0",
        "TORCH_HRR_BUILD_DIR": str(site.parent / "tree"),
        "TORCH_HRR_CMAKE_ARGS": f"'-DTORCH_HRR_ISAS={';'.join(isas)}'",
    }
    build = ("setup.py", "--quiet", "build", "--build-base", str(site.parent / "base"), "--build-lib", str(site))
    subprocess.run([sys.executable, *build], cwd=ROOT, env=environment, check=True)
    built = time.monotonic()
    tests = [f"tests/{name}.py" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-n", os.environ.get("JOBS", "1"), *tests]
    status = subprocess.call(command, cwd=ROOT, env=environment)
    print(f"torch {minor}: {built - start:.0f} s to build, {time.monotonic() - built:.0f} s of tests", flush=True)
    return status


if __name__ == "__main__":
    failed = [minor for minor in sys.argv[1:] if check(minor)]
    sys.exit(f"torch_hrr: tests failed on torch {', '.join(failed)}" if failed else 0)
