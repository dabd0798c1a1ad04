"""TORCH_HRR_ISA chooses the instruction set: each one gives the values, all within a few ulp of each other."""

import functools
import os
import pathlib
import platform
import subprocess
import sys

import pytest
import torch
from cases import FLOATING_CASES
from cases.base import FLOATS, FULL, build, row_norm

ROOT = pathlib.Path(__file__).parents[1]
FLAGS = {
    "scalar": set(),
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"},
}
# Direct, padded and native transforms, below and above the width of every vector.
DIMS = (1, 7, 16, 17, 32, 64, 100, 256, 1000, 1024)
if FULL:
    DIMS = (1, 3, 7, 16, 17, 31, 32, 48, 64, 100, 128, 256, 512, 1000, 1024, 4096)
# Of the row's norm: sums have another order, and the half types round a sum that differs in its last place.
ULPS = {torch.float32: 4, torch.float64: 4, torch.float16: 1, torch.bfloat16: 1}
# Their formulas and the order of their sums are the same on every instruction set.
SAME_BITS = {
    "k_cap",
    "_k_cap_backward",
    "sinusoidal_encoding",
    "sinusoidal_features",
    "embed_positions",
    "rotate",
    "_sinusoidal_features_backward",
    "field_evolve",
    "field_evolve.Tensor",
    "_field_evolve_part",
    "_field_moments",
    "field_gradient",
    "_field_gradient_backward",
    "gradient_magnitude",
    "plastic_scan",
    "_plastic_scan_backward",
    "_plastic_scan_tangent",
}
RETURNING = [case for case in FLOATING_CASES if not case.is_out]

SAVE = """
import sys, torch
from torch_hrr import _library
import test_isa
assert _library.build_info()["isa"] == sys.argv[1]
torch.save(test_isa.results(), sys.argv[2])
"""


def results():
    """Every operator's results over dimensions and dtypes."""
    return {
        (case.id, dim, dtype): case.run(build(case.sized(2, 3, dim), dtype))
        for case in RETURNING
        for dim in DIMS
        for dtype in FLOATS
    }


@functools.cache
def scales(case, dim):
    """What an error in a row is relative to, of float64 arguments; those of other dtypes are the same ones, rounded."""
    arguments = build(case.sized(2, 3, dim), torch.float64)
    return case.scale(arguments, () if case.magnitude else case.expect(arguments))


def run_python(script, *arguments, isa):
    path = os.pathsep.join([str(ROOT / "tests"), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path, "TORCH_HRR_ISA": isa},
        capture_output=True,
        text=True,
    )


def processor_flags():
    if platform.machine() not in {"x86_64", "AMD64"}:
        return set()
    return set(pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split())


def is_available(isa):
    return FLAGS[isa] <= processor_flags()


@pytest.fixture(scope="module")
def scalar_results(tmp_path_factory):
    return saved_results("scalar", tmp_path_factory.mktemp("isa") / "scalar.pt")


def saved_results(isa, path):
    finished = run_python(SAVE, isa, path, isa=isa)
    assert finished.returncode == 0, finished.stderr
    return torch.load(path, weights_only=True)


def test_scalar_gives_the_values(scalar_results):
    for case in RETURNING:
        for dim in (7, 17, 64, 100, 1000, 1024):
            expected = case.expect(build(case.sized(2, 3, dim), torch.float64))
            results = scalar_results[case.id, dim, torch.float64]
            if case.selects:
                assert all(map(torch.equal, results, expected))
                continue
            for result, exact, scale in zip(results, expected, scales(case, dim), strict=True):
                assert (row_norm(result - exact) <= 1e-13 * scale).all()


@pytest.mark.parametrize("isa", ("avx2", "avx512"))
def test_an_instruction_set_agrees_with_scalar(isa, scalar_results, tmp_path):
    if not is_available(isa):
        pytest.skip(f"this processor has no {isa}")
    by_name = {case.id: case for case in RETURNING}
    for (name, dim, dtype), values in saved_results(isa, tmp_path / "values.pt").items():
        case = by_name[name]
        scalar = scalar_results[name, dim, dtype]
        if case.selects or name in SAME_BITS:
            assert all(map(torch.equal, values, scalar)), (name, dim, dtype)
            continue
        sizes = scales(case, dim) if case.magnitude else [row_norm(x.double()) for x in scalar]
        for result, exact, scale in zip(values, scalar, sizes, strict=True):
            limit = ULPS[dtype] * torch.finfo(dtype).eps * scale
            assert (row_norm(result.double() - exact.double()) <= limit).all(), (name, dim, dtype)


CALL = "import torch, torch_hrr; torch_hrr.hrr.bind(torch.ones(64), torch.ones(64)); print('ran')"
# Both in one process: a failed choice is made again at the next use.
CALL_AND_INFO = """
import torch, torch_hrr
from torch_hrr import _library
for use in (lambda: torch_hrr.hrr.bind(torch.ones(64), torch.ones(64)), _library.build_info):
    try:
        use()
    except RuntimeError as error:
        print(error)
"""
INFO = "from torch_hrr import _library; print(_library.build_info()['isa'])"


@pytest.mark.parametrize("isa", ("sse2", "AVX2", "avx512 "))
def test_an_unknown_instruction_set_is_an_error(isa):
    finished = run_python(CALL_AND_INFO, isa=isa)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count(f"TORCH_HRR_ISA must be scalar, avx2 or avx512, got {isa}") == 2


@pytest.mark.parametrize("isa", ("avx2", "avx512"))
def test_an_instruction_set_that_the_processor_lacks_is_an_error(isa):
    if is_available(isa):
        pytest.skip(f"this processor has {isa}")
    finished = run_python(CALL, isa=isa)
    assert finished.returncode != 0
    assert f"RuntimeError: TORCH_HRR_ISA: this processor has no {isa}" in finished.stderr


def test_the_best_available_instruction_set_is_the_default():
    finished = run_python(INFO, isa="")
    best = next(isa for isa in ("avx512", "avx2", "scalar") if is_available(isa))
    assert finished.stdout.strip() == best
