"""Registers, stack and occupancy of the compiled CUDA kernels stay within bench/tools/kernel_bounds.toml."""

import fcntl
import importlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from torch_hrr import _library

kernel_bounds = importlib.import_module("bench.tools.kernel_bounds")
kernel_code = importlib.import_module("bench.tools.kernel_code")
kernel_resources = importlib.import_module("bench.tools.kernel_resources")
markdown = importlib.import_module("bench.markdown")
occupancy = importlib.import_module("bench.tools.occupancy")

USAGE = """
Fatbin ptx code:
================
arch = sm_80
code version = [9,0]
compressed

Fatbin elf code:
================
arch = sm_90a
code version = [1,8]
compressed

Resource usage:
 Common:
  GLOBAL:0
 Function _ZN9torch_hrr7kernels16chirp_map_kernelILi12EEEvNS0_14ChirpMapParamsEPKNS0_12TwiddlePointIdEE:
  REG:128 STACK:712 SHARED:1024 LOCAL:0 CONSTANT[2]:216 CONSTANT[0]:712 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _ZN9torch_hrr7kernels19winner_keys_kernelIN3c104HalfEEEvPKT_lPl:
  REG:10 STACK:0 SHARED:1424 LOCAL:8 CONSTANT[0]:376 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def test_usage_is_read_from_what_cuobjdump_prints():
    assert kernel_code.parse_usage(USAGE) == [
        kernel_code.Usage(
            "_ZN9torch_hrr7kernels16chirp_map_kernelILi12EEEvNS0_14ChirpMapParamsEPKNS0_12TwiddlePointIdEE",
            "sm_90a",
            registers=128,
            stack=712,
            shared=0,
            local=0,
        ),
        kernel_code.Usage("_ZN9torch_hrr7kernels19winner_keys_kernelIN3c104HalfEEEvPKT_lPl", "sm_90a", 10, 0, 400, 8),
    ]


def test_the_reserved_shared_memory_is_counted_from_9_0_on_alone():
    (usage,) = kernel_code.parse_usage("arch = sm_89\n Function f:\n  REG:10 STACK:0 SHARED:1424 LOCAL:0\n")
    assert usage.shared == 1424


def test_a_line_that_reads_otherwise_is_not_skipped():
    with pytest.raises(ValueError, match="reads unlike any before: REG:10 STACK:0"):
        kernel_code.parse_usage("arch = sm_80\n Function f:\n  REG:10 STACK:0\n")


SASS = """
arch = sm_80
		Function : _Z1fv
	.headerflags	@"EF_CUDA_SM80"
        /*0000*/                   LDL.64 R2, [R1+0x10] ;    /* 0x00 */
        /*0010*/              @!P0 STL [R1], R4 ;            /* 0x00 */
        /*0020*/                   LDG.E R4, [R2.64] ;       /* 0x00 */
        /*0030*/                   LDL R5, [R1] ;            /* 0x00 */
		Function : _Z1gv
        /*0000*/                   STG.E [R2.64], R4 ;       /* 0x00 */
"""


def test_local_loads_and_stores_are_counted_in_machine_code(monkeypatch):
    monkeypatch.setattr(kernel_code, "sass_of", lambda file, symbols: SASS)
    usage = [kernel_code.Usage("_Z1fv", "sm_80", 32, 16, 0, 0)]
    assert kernel_code.local_accesses([Path("f")], usage) == {("f", "sm_80"): (2, 1), ("g", "sm_80"): (0, 0)}
    assert kernel_code.local_accesses([Path("f")], [kernel_code.Usage("_Z1fv", "sm_80", 32, 0, 0, 0)]) == {}


@pytest.mark.parametrize(
    ("symbol", "name", "family"),
    [
        (
            "_ZN9torch_hrr7kernels14product_kernelIN3c108BFloat16ELi9ELb0EEEvNS0_12RecordParamsENS0_7ProductE",
            "product_kernel<BFloat16, 9, false>",
            ("product_kernel", "float"),
        ),
        (
            "_ZN9torch_hrr7kernels15soft_cap_kernelILNS0_9CapResultE1ELNS0_8CapShapeE0EdEEvNS0_13SoftCapParamsE",
            "soft_cap_kernel<(CapResult)1, (CapShape)0, double>",
            ("soft_cap_kernel", "double"),
        ),
        ("_ZN9torch_hrr7kernels11fill_kernelIjEEvPT_lS2_", "fill_kernel<unsigned int>", ("fill_kernel", "uint32")),
        ("_ZN9torch_hrr7kernels10age_kernelENS0_5BatchENS0_4AreaE", "age_kernel", ("age_kernel", "")),
        ("plain_c", "plain_c", ("plain_c", "")),
    ],
)
def test_names(symbol, name, family):
    assert kernel_code.short_name(kernel_code.demangle(symbol)) == name
    assert kernel_code.template_and_type(name) == family


# (registers, threads, shared bytes) -> resident blocks on sm_80, sm_86, sm_89, sm_90, sm_100, sm_120, as
# cudaOccMaxActiveBlocksPerMultiprocessor of CUDA 13.0 has them.
PUBLISHED = {
    (32, 1024, 0): (2, 1, 1, 2, 2, 1),
    (32, 256, 0): (8, 6, 6, 8, 8, 6),
    (16, 32, 0): (32, 16, 24, 32, 32, 24),
    (40, 256, 0): (6, 6, 6, 6, 6, 6),
    (65, 256, 0): (3, 3, 3, 3, 3, 3),
    (96, 128, 0): (5, 5, 5, 5, 5, 5),
    (128, 512, 0): (1, 1, 1, 1, 1, 1),
    (129, 512, 0): (0, 0, 0, 0, 0, 0),
    (255, 32, 0): (8, 8, 8, 8, 8, 8),
    (32, 128, 48 * 1024): (3, 2, 2, 4, 4, 2),
    (32, 128, 99 * 1024): (1, 1, 1, 2, 2, 1),
    (32, 128, 99 * 1024 + 1): (1, 0, 0, 2, 2, 0),
    (32, 64, 9 * 1024): (16, 10, 10, 22, 22, 10),
    (90, 96, 1): (6, 6, 6, 6, 6, 6),
}
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.mark.parametrize("need", PUBLISHED, ids=str)
def test_blocks_of_an_sm_are_those_of_nvidias_calculator(need):
    assert tuple(occupancy.blocks_of_sm(name, *need) for name in ARCHITECTURES) == PUBLISHED[need]


def test_occupancy_is_the_share_of_warps():
    assert occupancy.occupancy("sm_80", 65, 256, 0) == 24 / 64
    assert occupancy.occupancy("sm_86", 65, 256, 0) == 24 / 48
    assert occupancy.occupancy("sm_90a", 32, 40, 0) == 1
    with pytest.raises(ValueError, match="sm_999"):
        occupancy.occupancy("sm_999", 32, 32, 0)


CALCULATOR = r"""
#include <cuda_occupancy.h>
#include <cstdio>
int main() {
  int major, minor, warps, shared, of_block, registers, threads, dynamic;
  while (std::scanf("%d %d %d %d %d %d %d %d", &major, &minor, &warps, &shared, &of_block, &registers, &threads,
                    &dynamic) == 8) {
    cudaOccDeviceProp device;
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = 32 * warps;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 * 1024;
    device.sharedMemPerMultiprocessor = shared;
    device.sharedMemPerBlockOptin = of_block;
    device.reservedSharedMemPerBlock = major < 8 ? 0 : 1024;
    device.numSms = 1;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.sharedSizeBytes = 0;
    kernel.maxDynamicSharedSizeBytes = of_block;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.numBlockBarriers = 1;
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    const cudaOccError error =
        cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, dynamic);
    std::printf("%d\n", error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -1);
  }
}
"""


def toolkit_include():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    return Path(nvcc).resolve().parents[1] / "include"


@pytest.mark.skipif(not (toolkit_include() / "cuda_occupancy.h").is_file(), reason="no CUDA toolkit")
def test_every_need_is_answered_as_by_nvidias_header(tmp_path):
    (tmp_path / "calculator.cpp").write_text(CALCULATOR)
    program = tmp_path / "calculator"
    include = toolkit_include()
    subprocess.run(["c++", "-w", "-I", include, tmp_path / "calculator.cpp", "-o", program], check=True)
    questions, ours = [], []
    for architecture, device in occupancy.DEVICES.items():
        number = int(architecture.removeprefix("sm_"))
        for registers in (0, 1, 16, 33, 64, 90, 127, 128, 129, 200, 255):
            for threads in (1, 32, 64, 96, 128, 256, 480, 512, 1000, 1024):
                for shared in (0, 1, 1000, 16 * 1024, 33333, 48 * 1024, 99 * 1024, 100 * 1024, 227 * 1024):
                    if shared > device.shared_of_block:
                        continue
                    facts = (number // 10, number % 10, device.warps, device.shared, device.shared_of_block)
                    questions.append((*facts, registers, threads, shared))
                    ours.append(occupancy.blocks_of_sm(architecture, registers, threads, shared))
    text = "\n".join(" ".join(map(str, question)) for question in questions)
    answers = subprocess.run([program], input=text, check=True, capture_output=True, text=True).stdout.split()
    theirs = [int(answer) for answer in answers]
    assert len(theirs) == len(questions)
    unknown = {question[:2] for question, answer in zip(questions, theirs, strict=True) if answer == -1}
    assert unknown <= {(11, 0), (12, 1), (10, 3)}, "an older header does not know all of DEVICES, but these it must"
    differing = [
        (question, answer, own)
        for question, answer, own in zip(questions, theirs, ours, strict=True)
        if answer not in (-1, own)
    ]
    assert not differing, differing[:5]


def kernel(name="product_kernel<float, 9>", **facts):
    usual = {"architecture": "sm_80", "registers": 60, "stack": 0, "shared": 0, "local": 0, "launches": [(256, 0)]}
    return kernel_code.Kernel(name, **(usual | facts))


FAMILY = """
architectures = ["sm_80", "sm_90"]

families = [[64, [0.2], "float", 'product_kernel\\b']]
"""
EXCEPTION = """
[[exception]]
kernels = 'product_kernel<float, 9>'
architectures = ["sm_80"]
registers = 100
stack = 16
reason = "a test"
"""


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"registers": 65}, "65 registers, the bound is 64"),
        ({"stack": 8}, "8 bytes of stack, the bound is 0"),
        ({"local": 8}, "8 bytes of stack, the bound is 0"),
        (
            {"launches": [(256, 0), (256, 100 * 1024)]},
            r"12% of the warps \(256 threads, 102400 bytes\), the bound is 20%",
        ),
        ({"launches": []}, "never launches it"),
        ({"name": "product_kernel<double, 9>"}, "0 families"),
        ({"name": "other_product_kernel<float, 9>"}, "0 families"),
    ],
)
def test_what_is_beyond_a_bound_is_named(facts, text):
    bounds = kernel_bounds.read_bounds(FAMILY)
    assert kernel_bounds.violations([kernel()], bounds) == []
    wrong = kernel_bounds.violations([kernel(), kernel(**facts)], bounds)
    assert len(wrong) == 1
    assert re.search(text, wrong[0]), wrong


def test_an_exception_replaces_what_it_states():
    bounds = kernel_bounds.read_bounds(FAMILY + EXCEPTION)
    assert kernel_bounds.violations([kernel(registers=80, stack=16)], bounds) == []
    assert kernel_bounds.violations([kernel(registers=101, launches=[(64, 0)])], bounds) == [
        "product_kernel<float, 9> on sm_80: 101 registers, the bound is 100"
    ]
    # What it does not state stays bounded by the family.
    few = kernel_bounds.violations([kernel(registers=80, launches=[(256, 100 * 1024)])], bounds)
    assert len(few) == 1 and "12% of the warps" in few[0]


def test_bounds_that_say_nothing_any_more_are_named():
    bounds = kernel_bounds.read_bounds(FAMILY + EXCEPTION)
    assert any("not needed any more" in line for line in kernel_bounds.violations([kernel()], bounds))
    assert any("no kernel is named" in line for line in kernel_bounds.violations([kernel("age_kernel")], bounds))
    # The exception is for another architecture than what is compiled: nothing can be said of it.
    assert kernel_bounds.violations([kernel(architecture="sm_90")], bounds) == []


def test_architectures_without_bounds_have_none():
    bounds = kernel_bounds.read_bounds(FAMILY)
    assert kernel_bounds.violations([kernel(architecture="sm_120", registers=255)], bounds) == []
    assert kernel_bounds.violations([kernel(), kernel(architecture="sm_120", registers=255)], bounds) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[exception]]\nkernels = 'f'\nstack = 8\n", "needs a reason"),
        ("[[exception]]\nkernels = 'f'\nstack = 8\nreason = ' '\n", "needs a reason"),
        ("[[exception]]\nkernels = 'f'\nregister = 8\n", "unknown keys"),
    ],
)
def test_bounds_are_read_strictly(text, message):
    with pytest.raises(ValueError, match=message):
        kernel_bounds.read_bounds("architectures = []\n" + text)


def test_bounds_that_just_hold_hold():
    kernels = [
        kernel(registers=90, stack=24),
        kernel("product_kernel<Half, 10>", launches=[(128, 4096), (64, 9999)]),
        kernel("product_kernel<double, 9>", architecture="sm_90", registers=255),
        kernel("age_kernel"),
    ]
    bounds = kernel_bounds.read_bounds(kernel_bounds.bounds_that_hold(kernels))
    assert len(bounds.families) == 3
    assert kernel_bounds.violations(kernels, bounds) == []


def test_only_the_table_of_the_document_is_replaced():
    text = "before\n<!-- families: begin -->\nold\n<!-- families: end -->\nafter\n"
    new = "before\n<!-- families: begin -->\nnew\n<!-- families: end -->\nafter\n"
    assert markdown.update_document(text, "families", "new\n") == new
    with pytest.raises(ValueError, match="lacks the marks of stacks"):
        markdown.update_document(text, "stacks", "new\n")


def test_bounds_of_the_project_can_be_read():
    bounds = kernel_bounds.read_bounds(kernel_bounds.BOUNDS.read_text())
    assert bounds.families
    # "No spills in float kernels": a family that computes in float has no stack, whatever else is allowed.
    assert all(bound.stack == 0 for bound in bounds.families if bound.compute == "float")


def missing(reason):
    if os.environ.get("TORCH_HRR_REQUIRE_CUDA") == "1":
        pytest.fail(f"TORCH_HRR_REQUIRE_CUDA=1, but {reason}")
    pytest.skip(reason=reason)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program cuda_launches of the build tree, built where it is not there."""
    if _library.build_info()["cuda"] == "none":
        missing("torch_hrr was built without CUDA")
    if kernel_code.cuobjdump() is None:
        missing("cuobjdump was not found: pip install nvidia-cuda-cuobjdump")
    tree = kernel_code.build_tree()
    if not (tree / "CMakeCache.txt").is_file():
        missing(f"the build tree {tree} is not there (TORCH_HRR_BUILD_DIR names another)")
    base = tmp_path_factory.getbasetemp()
    with open((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cuda_launches.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = tree / "cuda_launches"
        return built if built.is_file() else kernel_code.launches_program(tree)


@pytest.fixture(scope="module")
def kernels(program):
    launches = kernel_code.recorded_launches(program)
    return kernel_code.joined(kernel_code.usage_of([program]), launches)


def test_the_library_has_the_kernels_of_the_build_tree(program):
    installed = set(kernel_code.usage_of([_library.load()]))
    assert installed == set(kernel_code.usage_of([program])), (
        f"the installed library and {program} are not of one build: cmake --build {program.parent}"
    )


def test_every_kernel_is_within_its_bounds(kernels):
    bounds = kernel_bounds.read_bounds(kernel_bounds.BOUNDS.read_text())
    if not {kernel.architecture for kernel in kernels} & set(bounds.architectures):
        missing(f"nothing is compiled for {' or '.join(bounds.architectures)}, which have bounds")
    wrong = kernel_bounds.violations(kernels, bounds)
    assert not wrong, "\n".join(wrong)


def test_the_document_lists_every_family(kernels):
    text = kernel_resources.DOCUMENT.read_text()
    listed = re.findall(r"^\| `(\w+)` \| ([\w-]+) \|", text[: text.index("<!-- families: end -->")], re.MULTILINE)
    families = {(template, compute or "-") for template, compute in (one.family for one in kernels)}
    assert set(listed) == families, "python bench/tools/kernel_resources.py --update"


def test_the_command_prints_a_table_and_json(program, capsys):
    assert kernel_resources.main(["--no-launches", str(program)]) == 0
    assert "| `product_kernel` | float |" in capsys.readouterr().out
    assert kernel_resources.main(["--no-launches", "--json", str(program)]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"name", "registers", "stack", "launches"} <= listed[0].keys()
