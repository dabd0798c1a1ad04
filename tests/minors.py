"""A wheel for several minor versions of torch (make wheel), and a part of the tests on each of them (make test-minors).

A wheel of torch is unpacked into a folder of its own under build/, beside a link to the NVIDIA libraries that the
environment's torch came with, which spares their five gigabytes. What is built is the source distribution, unpacked,
so that a file it lacks is seen. For the tests, kernels are compiled for this processor's best instruction set and
without any, with less optimisation, and the wheel is unpacked beside torch.
"""

import argparse
import functools
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "minors"
PACKAGES = pathlib.Path(sysconfig.get_path("purelib"))
# Import, signatures, every operator's values beside plain torch, promotion and errors, every class, the calls of the
# seed programs, tensors divided among ranks.
TESTS = ("test_library", "test_api", "test_ops_values", "test_ops_errors", "test_plain", "test_saveable")
TESTS += ("test_seed_samples", "distributed/test_sharding", "distributed/test_distributed_guide")
# The kernels are the same: what tries their arithmetic at all lengths and sizes sees no difference between minors. The
# guide to ranks runs on one here.
LEFT_OUT = "not test_equals_the_direct_sum and not of_unlike_size and not of_torchrun"


def unpacked(minor: str) -> pathlib.Path:
    """The folder that holds this minor of torch, as site-packages would."""
    site = FOLDER / minor / "site"
    if importlib.metadata.version("torch").startswith(f"{minor}."):
        site.mkdir(parents=True, exist_ok=True)
        if not (site / "torch").exists():
            (site / "torch").symlink_to(PACKAGES / "torch")
    elif (site / "torch").is_symlink():
        # The environment's torch was of this minor once.
        shutil.rmtree(site)
    if not (site / "torch").is_dir():
        site.parent.mkdir(parents=True, exist_ok=True)
        download = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")
        subprocess.run([*download, "--dest", str(site.parent), f"torch=={minor}.*"], check=True)
        (wheel,) = site.parent.glob("torch-*.whl")
        unpack(wheel, site.with_name("part"))
        # Whole or not at all, whatever interrupts it.
        site.with_name("part").rename(site)
        wheel.unlink()
    # Without CUDA there are none.
    if (PACKAGES / "nvidia").is_dir() and not (site / "nvidia").exists():
        (site / "nvidia").symlink_to(PACKAGES / "nvidia")
    return site


# The library of the tests.
TESTED = {
    "TORCH_HRR_CUDA": "0",
    "TORCH_HRR_ISAS": "native",
    "TORCH_HRR_CMAKE_ARGS": "-DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1",
}


@functools.cache
def source() -> pathlib.Path:
    """The source distribution, unpacked; what has not changed keeps its times, so that ninja leaves it alone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for archive in FOLDER.glob("torch_hrr-*.tar.gz"):
        archive.unlink()
    command = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", str(FOLDER)]
    subprocess.run(command, cwd=ROOT, check=True)
    (archive,) = FOLDER.glob("torch_hrr-*.tar.gz")
    whole, part = FOLDER / "source", FOLDER / "part"
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(archive) as content:
        content.extractall(part, filter="data")
    shutil.rmtree(whole, ignore_errors=True)
    (part / archive.name.removesuffix(".tar.gz")).rename(whole)
    return whole


def environment(site: pathlib.Path) -> dict[str, str]:
    """What a process needs to find this torch, and the torch_hrr that lies beside it."""
    # Without the last, the clone, whose library is for another torch, would be found first.
    return os.environ | {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}


def build(site: pathlib.Path, tree: str, package: pathlib.Path, *further: str, **settings: str) -> None:
    """Builds torch_hrr into the folder `package`, for the torch of `site`, in a build tree of this name beside it.

    `further` are more commands of setuptools.
    """
    base = site.parent
    command = ["setup.py", "--quiet", "build", "--build-base", str(base / "base"), "--build-lib", str(package)]
    settings |= {"TORCH_HRR_BUILD_DIR": str(base / tree)}
    subprocess.run([sys.executable, *command, *further], cwd=source(), env=environment(site) | settings, check=True)


def build_for_cpu(site: pathlib.Path) -> None:
    """The library of the tests, beside torch."""
    build(site, "cpu", site, **TESTED)


def wheel(minors: list[str], tree: str, folder: pathlib.Path, **settings: str) -> pathlib.Path:
    """One wheel with a library for each of these minor versions of torch; its path in `folder`."""
    whole = FOLDER / "wheel"
    shutil.rmtree(whole, ignore_errors=True)
    for minor in minors:
        single, package = FOLDER / minor / "dist", FOLDER / minor / "package"
        for old in (single, package):
            shutil.rmtree(old, ignore_errors=True)
        build(unpacked(minor), tree, package, "bdist_wheel", "--dist-dir", str(single), **settings)
        # They differ in the library alone.
        unpack(next(single.glob("*.whl")), whole)
    if {path.name for path in whole.glob("torch_hrr/lib/*")} != {f"torch-{minor}" for minor in minors}:
        raise RuntimeError(f"{whole} must have a library for each of torch {', '.join(minors)}")
    part = FOLDER / "packed"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest-dir", str(part), str(whole)], check=True)
    (packed,) = part.glob("*.whl")
    folder.mkdir(parents=True, exist_ok=True)
    return packed.replace(folder / packed.name)


def unpack(archive: pathlib.Path, folder: pathlib.Path) -> None:
    with zipfile.ZipFile(archive) as content:
        content.extractall(folder)


def check(minor: str, packed: pathlib.Path) -> int:
    """Tests the wheel beside this torch; the exit status of pytest."""
    start = time.monotonic()
    site = unpacked(minor)
    shutil.rmtree(site / "torch_hrr", ignore_errors=True)
    unpack(packed, site)
    tests = [f"tests/{name}.py" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-n", os.environ.get("JOBS", "1"), "-k", LEFT_OUT, *tests]
    status = subprocess.call(command, cwd=ROOT, env=environment(site) | {"OMP_NUM_THREADS": "1"})
    print(f"torch {minor}: {time.monotonic() - start:.0f} s of tests", flush=True)
    return status


def main() -> int | str:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=pathlib.Path, metavar="FOLDER", help="packs a wheel for any machine; no tests")
    parser.add_argument("minors", nargs="+", help="such as 2.11")
    options = parser.parse_args()
    start = time.monotonic()
    if options.wheel:
        packed = wheel(options.minors, "wheel", options.wheel.resolve(), TORCH_HRR_ISAS="all")
        print(f"torch_hrr: {packed}, {packed.stat().st_size / 2**20:.1f} MiB, for torch {', '.join(options.minors)}")
        return 0
    packed = wheel(options.minors, "cpu", FOLDER / "dist", **TESTED)
    print(f"torch {', '.join(options.minors)}: {time.monotonic() - start:.0f} s to build", flush=True)
    failed = [minor for minor in options.minors if check(minor, packed)]
    return f"torch_hrr: tests failed on torch {', '.join(failed)}" if failed else 0


if __name__ == "__main__":
    sys.exit(main())
