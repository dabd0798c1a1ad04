"""What CUDA kernels ask of a GPU's memory stays within bench/tools/gpu_bounds.toml."""

import importlib
import json
import os
import re

import pytest

gpu_counts = importlib.import_module("bench.tools.gpu_counts")

NONE = {"requests": 0, "lanes": 0, "bytes": 0, "units": 0, "least": 0, "deepest": 0}


def counts_of(**kinds):
    launch = {
        "name": "copy",
        "symbol": "_ZN9torch_hrr7kernels11copy_kernelIfEEvPKT_PS1_",
        "grid": [1, 1, 1],
        "block": [32, 1, 1],
        "shared_bytes": 0,
        "barriers": 0,
        "warp_operations": 0,
    }
    for memory in ("global", "shared"):
        for action in ("load", "store", "atomic"):
            launch[f"{memory}_{action}"] = NONE | kinds.get(f"{memory}_{action}", {})
    buffers = [
        {"name": "in", "role": "argument", "bytes": 128, "loaded_once": 4, "stored_once": 0, "load": 4}
        | {"store": 0, "atomic": 0},
        {"name": "work", "role": "workspace", "bytes": 128, "loaded_once": 4, "stored_once": 4, "load": 40}
        | {"store": 40, "atomic": 0},
    ]
    entry = {"op": "copy", "shape": "1x32", "launches": [launch, launch], "buffers": buffers}
    return gpu_counts.read_counts([entry])


def bounds(*exceptions, reason="a test"):
    most = "\n".join(f"{kind} = 1.1" for kind in gpu_counts.RATIOS)
    rows = [[*exception, reason] for exception in exceptions]
    return gpu_counts.read_bounds(f"exceptions = {json.dumps(rows)}\n[most]\n{most}\npile_up = 16\npasses = 1.05\n")


def test_launches_of_a_kernel_are_summed():
    (counts,) = counts_of(global_load={"requests": 2, "lanes": 64, "bytes": 256, "units": 10, "least": 8})
    assert counts.launches[0].kernel == "copy_kernel<float>"
    assert counts.of("global_load").units == 20
    assert counts.of("global_load").ratio == 1.25
    assert counts.least_bytes == 128
    assert counts.bytes_once == 3 * 128
    assert counts.bytes_all == 21 * 128
    assert gpu_counts.violations([counts], bounds()) == [
        "copy 1x32: copy_kernel<float>: global_load is 1.250, the bound is 1.1"
    ]


def test_an_exception_holds_for_what_it_names_and_must_be_needed():
    counts = counts_of(shared_atomic={"requests": 1, "lanes": 32, "bytes": 128, "units": 1, "least": 1, "deepest": 32})
    (wrong,) = gpu_counts.violations(counts, bounds())
    assert "pile_up is 32.000, the bound is 16" in wrong
    assert gpu_counts.violations(counts, bounds(("copy .*", "copy_kernel", "pile_up", 32))) == []
    assert "the bound is 20" in gpu_counts.violations(counts, bounds(("copy .*", "copy_kernel", "pile_up", 20)))[0]
    wrong = gpu_counts.violations(counts, bounds(("copy", "copy_kernel", "pile_up", 32), ("copy.*", "in", "passes", 2)))
    assert [line for line in wrong if "not needed any more" in line] == wrong[1:]
    assert len(wrong) == 3


@pytest.mark.parametrize(("measure", "reason"), [("speed", "a test"), ("passes", " ")])
def test_an_exception_needs_a_reason_and_a_measure(measure, reason):
    with pytest.raises(ValueError, match=f"a reason and a measure of .* are needed, got {measure}"):
        bounds(("a", "b", measure, 2), reason=reason)


@pytest.fixture(scope="module")
def counts():
    program = gpu_counts.counts_program(gpu_counts.build_tree())
    if not program.is_file():
        reason = f"{program} is not built: it needs clang++-14 and opt-14"
        if os.environ.get("TORCH_HRR_REQUIRE_COUNTS") == "1":
            pytest.fail(f"TORCH_HRR_REQUIRE_COUNTS=1, but {reason}")
        pytest.skip(reason=reason)
    return gpu_counts.counted(program)


def test_every_kernel_is_within_its_bounds(counts):
    wrong = gpu_counts.violations(counts, gpu_counts.read_bounds(gpu_counts.BOUNDS.read_text()))
    assert not wrong, "\n".join(wrong)


def test_every_launch_names_its_kernel(counts):
    for one in counts:
        for launch in one.launches:
            assert launch.kernel.partition("<")[0].endswith("_kernel"), f"{one.name}: {launch.symbol}"


def test_every_kernel_is_counted(counts):
    counted = {launch.kernel.partition("<")[0] for one in counts for launch in one.launches}
    sources = (gpu_counts.ROOT / "kernels").rglob("*.cuh")
    defined = {
        name for source in sources for name in re.findall(r"__global__[^;{]*?\b(\w+_kernel)\(", source.read_text())
    }
    assert counted and sorted(defined - counted) == []
