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

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = pathlib.Path(sysconfig.get_path("purelib"))
# Import, signatures, every operator's values beside plain torch, promotion and errors, every class, the calls of the
# seed programs.
TESTS = ("test_library", "test_api", "test_ops_values", "test_ops_errors", "test_plain", "test_saveable")
TESTS += ("test_seed_samples",)
# The kernels are the same: what tries their arithmetic at all lengths and sizes sees no difference between minors.
LEFT_OUT = "not test_equals_the_direct_sum and not of_unlike_size"


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


def environment(site: pathlib.Path) -> dict[str, str]:
    """What a process needs to find this torch, and the torch_hrr that is built beside it."""
    # Without the last, the clone, whose library is for another torch, would be found first.
    return os.environ | {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}


def build(site: pathlib.Path, tree: str, **settings: str) -> None:
    """Builds torch_hrr into `site`, in a build tree of this name beside it."""
    base = site.parent
    command = ("setup.py", "--quiet", "build", "--build-base", str(base / "base"), "--build-lib", str(site))
    settings |= {"TORCH_HRR_BUILD_DIR": str(base / tree)}
    subprocess.run([sys.executable, *command], cwd=ROOT, env=environment(site) | settings, check=True)


def build_for_cpu(site: pathlib.Path) -> None:
    """The library without CUDA kernels, for this processor."""
    build(site, "tree", TORCH_HRR_CUDA="0", TORCH_HRR_ISAS="native")


def check(minor: str) -> int:
    """Builds and tests; the exit status of pytest."""
    start = time.monotonic()
    site = unpacked(minor)
    build_for_cpu(site)
    built = time.monotonic()
    tests = [f"tests/{name}.py" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-n", os.environ.get("JOBS", "1"), "-k", LEFT_OUT, *tests]
    status = subprocess.call(command, cwd=ROOT, env=environment(site) | {"OMP_NUM_THREADS": "1"})
    print(f"torch {minor}: {built - start:.0f} s to build, {time.monotonic() - built:.0f} s of tests", flush=True)
    return status


if __name__ == "__main__":
    failed = [minor for minor in sys.argv[1:] if check(minor)]
    sys.exit(f"torch_hrr: tests failed on torch {', '.join(failed)}" if failed else 0)
