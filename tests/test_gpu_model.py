"""The arithmetic of bench/gpu_model.py on counts made by hand; docs/dev/gpu_model.md lists every counted operator."""

import dataclasses
import importlib
import os
import re
import statistics

import pytest
import torch

from torch_hrr import _library

gpu_counts = importlib.import_module("bench.tools.gpu_counts")
gpu_headlines = importlib.import_module("bench.gpu_headlines")
gpu_model = importlib.import_module("bench.gpu_model")
gpu_torch = importlib.import_module("bench.gpu_torch")
kernel_code = importlib.import_module("bench.tools.kernel_code")
machine_code = importlib.import_module("bench.tools.machine_code")

A100 = gpu_model.GPUS[0]
EXPLAINED = ("bind_normalize", "superpose", "k_winners float", "philox_fill")
CHOSEN = (*EXPLAINED, "bind", "sinusoidal_encoding float", "field_evolve float")
NONE = {"requests": 0, "lanes": 0, "bytes": 0, "units": 0, "least": 0, "deepest": 0}


def requests(count, width, units=None, least=None):
    """`count` requests of whole warps, `width` bytes a lane."""
    size = 32 * width * count
    return {
        "requests": count, "lanes": 32 * count, "bytes": size, "deepest": 0,
        "units": size // 32 if units is None else units, "least": size // 32 if least is None else least,
    }  # fmt: skip


def profile(launches, buffers, op="copy", shape="64x1024"):
    """An entry of cuda_on_host_profile's output. A launch is (blocks, threads, requests by kind)."""
    return {
        "op": op,
        "shape": shape,
        "launches": [
            {
                "name": op, "symbol": "_Z4copyPfS_", "grid": [blocks, 1, 1], "block": [threads, 1, 1],
                "shared_bytes": 0, "barriers": 0, "warp_operations": 0,
                **dict.fromkeys(gpu_counts.RATIOS + gpu_counts.ATOMICS, NONE), **kinds,
            }
            for blocks, threads, kinds in launches
        ],
        "buffers": [
            {
                "name": role, "role": role, "bytes": size, "loaded_once": loaded, "stored_once": stored,
                "load": loaded * times, "store": stored * times, "atomic": 0,
            }
            for role, size, loaded, stored, times in buffers
        ],
    }  # fmt: skip


def counted_of(entries):
    return list(map(gpu_model.counted_of, gpu_counts.read_counts(entries)))


def copy(size, times=1, launches=1):
    """A copy of `size` bytes, every sector read and written `times` over, a block for every 4 KiB."""
    warps = size // 128
    kinds = {"global_load": requests(warps * times, 4), "global_store": requests(warps * times, 4)}
    buffers = [("argument", size, size // 32, 0, times), ("result", size, 0, size // 32, times)]
    (counted,) = counted_of([profile([(size // 4096, 1024, kinds)] * launches, buffers)])
    return counted


def test_a_large_copy_is_bounded_by_bandwidth():
    time = gpu_model.modelled(copy(1 << 30), A100)
    assert time.bound == "traffic"
    assert time.total == pytest.approx(2 * (1 << 30) / 2.039e12)
    assert time.share == pytest.approx(1)


def test_a_tiny_copy_is_bounded_by_its_launch():
    time = gpu_model.modelled(copy(4096), A100)
    assert time.bound == "launch"
    assert time.total == gpu_model.LAUNCH_SECONDS
    assert time.share == pytest.approx(2 * 4096 / 2.039e12 / gpu_model.LAUNCH_SECONDS)
    assert gpu_model.modelled(copy(4096, launches=7), A100).total == pytest.approx(7 * gpu_model.LAUNCH_SECONDS)


def test_what_is_read_again_comes_from_memory_only_if_it_does_not_fit_into_l2():
    small, large = 1 << 20, 1 << 30
    assert copy(small, times=3).bytes_from_memory(A100.l2_bytes) == 2 * small
    assert copy(large, times=3).bytes_from_memory(A100.l2_bytes) == 3 * 2 * large
    assert gpu_model.modelled(copy(large, times=3), A100).share == pytest.approx(1 / 3)


def test_a_table_is_read_once_and_a_workspace_stays_in_l2():
    kinds = {"global_load": requests(8, 4)}
    buffers = [("argument", 4096, 128, 0, 1), ("table", 1024, 32, 0, 100), ("workspace", 4096, 128, 128, 2)]
    (one,) = counted_of([profile([(1, 32, kinds)], buffers)])
    assert one.least_bytes == 4096
    assert one.bytes_from_memory(1 << 20) == 4096 + 1024
    assert one.bytes_from_memory(1) == 4096 + 1024 + 2 * 2 * 4096


def test_an_argument_that_is_not_read_is_not_asked_of_memory():
    (one,) = counted_of([profile([(1, 32, {})], [("argument", 4096, 0, 0, 1), ("result", 4096, 0, 128, 1)])])
    assert one.least_bytes == 4096


@pytest.mark.parametrize(("conflicts", "blocks", "busiest"), [(1, 108, 1), (32, 108, 1), (32, 109, 2), (32, 1, 1)])
def test_conflicts_are_bounded_by_wavefronts_of_the_busiest_sm(conflicts, blocks, busiest):
    each = 100_000
    shared = requests(each * blocks, 4, units=conflicts * each * blocks, least=each * blocks)
    (one,) = counted_of([profile([(blocks, 256, {"shared_load": shared})], [("result", 32, 0, 1, 1)])])
    time = gpu_model.modelled(one, A100)
    assert time.bound == "wavefronts"
    assert time.total == pytest.approx(conflicts * each * busiest / 1.41e9)


def test_issue_slots_are_shared_by_four_schedulers():
    one = copy(1 << 20)
    launch = dataclasses.replace(one.launches[0], issued=machine_code.Issued(10_000.0, 1.0))
    time = gpu_model.modelled(dataclasses.replace(one, launches=(launch,)), A100)
    assert time.bound == "issue"
    # 256 blocks of 32 warps on 108 SMs: the busiest has three.
    assert time.total == pytest.approx(10_000 * 32 * 3 / (4 * 1.41e9))
    assert gpu_model.modelled(one, A100).issue is None


def test_blocks_are_repeated_for_more_rows():
    entry = profile(
        [(32, 128, {"shared_load": requests(640, 4, units=1280)})],
        [("argument", 1 << 18, 1 << 13, 0, 2), ("table", 1024, 32, 0, 9)],
        op="bind",
    )
    (one,) = counted_of([entry])
    more = gpu_model.repeated(one, 1000)
    assert (more.shape, more.counted_rows, more.launches[0].blocks) == ("1000x1024", 64, 500)
    assert more.launches[0].wavefronts == 1280 * 500 / 32
    assert [buffer.bytes for buffer in more.buffers] == [4096 * 1000, 1024]
    assert more.buffers[0].all == 2 * more.buffers[0].once == 2 * 128 * 1000
    # Two launches, a batch that is larger already, and blocks that do not take rows.
    assert gpu_model.repeated(dataclasses.replace(one, launches=one.launches * 2), 1000) is None
    assert gpu_model.repeated(one, 64) is None
    assert gpu_model.repeated(dataclasses.replace(one, shape="1x1024"), 1000) is None
    assert gpu_model.repeated(dataclasses.replace(one, op="philox_fill", shape="65536"), 1000) is None


def test_the_nearest_code_is_not_newer():
    built = ["sm_90", "sm_80", "sm_100"]
    assert gpu_model.nearest_architecture("sm_89", built) == "sm_80"
    assert gpu_model.nearest_architecture("sm_90", built) == "sm_90"
    assert gpu_model.nearest_architecture("sm_75", built) == "sm_80"


def test_code_is_found_by_symbol_or_by_name():
    names = ("_ZN9torch_hrr7kernels10age_kernelENS0_4AreaE", "_Z4copyPfS_")
    usage = {name: kernel_code.Usage(name, "sm_80", 32, 0, 0, 0) for name in names}
    code = gpu_model.Code("sm_80", usage, {})
    assert code.symbol_of("_Z4copyPfS_") == "_Z4copyPfS_"
    # age_kernel(Batch, Area), as it was before a parameter went.
    assert code.symbol_of("_ZN9torch_hrr7kernels10age_kernelENS0_5BatchENS0_4AreaE") == names[0]
    assert code.symbol_of("_Z5otherv") is None


def sass(*lines):
    """A function of these instructions, 16 bytes each, as cuobjdump prints it."""
    text = "arch = sm_80\n\t\tFunction : f\n"
    for i, line in enumerate(lines):
        text += f"        /*{16 * i:04x}*/                   {line} ;    /* 0x00 */\n"
    return machine_code.parse_sass(text)["f", "sm_80"]


Asked = machine_code.Asked
LOOP = (
    "MOV R1, c[0x0][0x28]",
    "@P0 BRA 0x50",
    "LDG.E R4, [R2.64]",
    "FADD R5, R5, R4",
    "@!P1 BRA 0x20",
    "STG.E [R2.64], R5",
    "EXIT",
    "BRA 0x70",
)


def test_sass_is_read():
    first, branch, load, *_ = sass(*LOOP)
    assert (first.name, first.predicate, first.address) == ("MOV", "", 0)
    assert (branch.name, branch.predicate, branch.target, branch.conditional) == ("BRA", "P0", 0x50, True)
    assert (load.name, load.width, load.conditional) == ("LDG", 4, False)
    (wide, half, two) = sass("LDS.U.128 R4, [R2]", "STG.E.U16 [R2.64], R1", "BRA !P1, 0x0")
    assert (wide.width, half.width, two.conditional) == (16, 2, True)


@pytest.mark.parametrize("trips", [0, 1, 31, 0.5])
def test_a_loop_is_passed_as_often_as_it_loads(trips):
    asked = {"global_load": Asked(trips, 128 * trips), "global_store": Asked(1, 128)}
    issued = machine_code.issued_by_warp(sass(*LOOP), asked)
    assert issued.instructions == pytest.approx(2 + 3 * trips + 2)
    assert issued.explained == pytest.approx(1)


def test_requests_that_no_way_through_the_code_makes_are_left_unexplained():
    asked = {"global_store": Asked(3, 3 * 128), "global_load": Asked(0)}
    issued = machine_code.issued_by_warp(sass(*LOOP), asked)
    assert issued.instructions == pytest.approx(4)
    assert issued.explained == pytest.approx(1 / 3)


def test_bytes_tell_the_sides_of_a_branch_apart():
    # One 16-byte load and six more instructions, or four of 4 bytes.
    code = sass(
        "@P0 BRA 0x50", "LDG.E R4, [R2.64]", "LDG.E R4, [R2.64]", "LDG.E R4, [R2.64]", "BRA 0x90",
        "LDG.E.128 R4, [R2.64]", "MOV R1, R2", "MOV R1, R2", "MOV R1, R2", "EXIT",
    )  # fmt: skip
    assert machine_code.issued_by_warp(code, {"global_load": Asked(1, 512)}).instructions == pytest.approx(6)
    assert machine_code.issued_by_warp(code, {"global_load": Asked(3, 384)}).instructions == pytest.approx(6)
    half = machine_code.issued_by_warp(code, {"global_load": Asked(0.5 * 1 + 0.5 * 3, 0.5 * 512 + 0.5 * 384)})
    assert half.explained == pytest.approx(1)


def test_a_loop_is_entered_from_outside():
    # Without an entry the loop would go round for itself, and the way to it be left out: `@P0 EXIT` leaves at once.
    code = sass("@P0 EXIT", "MOV R1, R2", "MOV R1, R2", "LDS R4, [R2]", "@P1 BRA 0x30", "EXIT")
    issued = machine_code.issued_by_warp(code, {"shared_load": Asked(10, 1280)})
    assert issued.instructions == pytest.approx(1 + 2 + 10 * 2 + 1)


def test_a_guarded_access_may_ask_for_nothing_and_a_generic_one_asks_either_memory():
    code = sass("@P0 LDS R4, [R2]", "LD.E R4, [R2.64]", "EXIT")
    none = machine_code.issued_by_warp(code, {"shared_load": Asked(0), "global_load": Asked(1, 128)})
    both = machine_code.issued_by_warp(code, {"shared_load": Asked(2, 256), "global_load": Asked(0)})
    assert none.explained == both.explained == pytest.approx(1)


def test_a_synchronised_warp_may_or_may_not_show_in_the_code():
    code = sass("SHFL.BFLY PT, R1, R2, 0x1, 0x1f", "NOP", "EXIT")
    for count in (1, 2):
        assert machine_code.issued_by_warp(code, {"warp_operations": Asked(count)}).explained == pytest.approx(1)
    assert machine_code.issued_by_warp(code, {"warp_operations": Asked(4)}).explained == pytest.approx(0.5)


def test_a_subroutine_is_passed_by_every_call_of_it():
    code = sass(
        "CALL.REL.NOINC 0x50", "MOV R1, R2", "@P0 CALL.REL.NOINC 0x50", "MOV R1, R2", "EXIT",
        "LDG.E R4, [R2.64]", "MOV R3, R4", "RET.REL.NODEC R20 0x0",
    )  # fmt: skip
    once = machine_code.issued_by_warp(code, {"global_load": Asked(1, 128)})
    twice = machine_code.issued_by_warp(code, {"global_load": Asked(2, 256)})
    assert once.instructions == pytest.approx(5 + 3)
    assert twice.instructions == pytest.approx(5 + 2 * 3)


def test_a_call_that_never_returns_is_a_jump():
    code = sass("CALL.REL.NOINC 0x30", "LDG.E R4, [R2.64]", "EXIT", "MOV R1, R2", "EXIT")
    issued = machine_code.issued_by_warp(code, {"global_load": Asked(1, 128)})
    assert issued.instructions == pytest.approx(3)
    assert issued.explained == 0


def names(kernels):
    return [kernel.name for kernel in kernels]


def test_the_kernels_of_the_torch_form_of_bind():
    kernels = gpu_torch.case_of("bind", "4x16").kernels()
    assert names(kernels) == ["_fft_r2c", "_fft_r2c", "mul", "clone", "_fft_c2r", "mul_"]
    real, spectrum = 4 * 16 * 4, 4 * 9 * 8
    assert (kernels[0].read, kernels[0].written) == (real, spectrum)
    assert (kernels[2].read, kernels[2].written) == (2 * spectrum, spectrum)
    assert (kernels[5].read, kernels[5].written) == (real, real)
    assert gpu_torch.launches(kernels) == 6
    normalized = names(gpu_torch.case_of("bind_normalize", "4x16").kernels())
    assert normalized == [*names(kernels), "linalg_vector_norm", "clamp_min", "div"]


def test_expanded_operands_are_read_once():
    assert gpu_torch.bytes_of(torch.zeros(3, 1).expand(3, 100)) == 12
    assert gpu_torch.bytes_of(torch.zeros(())) == 4


@pytest.mark.parametrize(("rows", "n", "launches"), [(8, 4096, 1), (1, 100_000, 21), (1000, 4096, 21), (5000, 300, 1)])
def test_topk_takes_one_block_a_row_or_several(rows, n, launches):
    kernels = gpu_torch.topk_kernels(torch.empty(rows, n))
    assert gpu_torch.launches(kernels) == launches
    assert gpu_torch.traffic(kernels) == 4 * rows * n * (18 if launches == 1 else 5)


def test_every_counted_operator_has_a_torch_form_and_a_call():
    backwards = {"bind_backward", "bind_normalize_backward", "k_cap soft backward"}
    shapes = {"superpose": "2x3x16", "bind_superpose": "2x3x16", "philox_fill": "64"}
    winners = [f"k_winners {name}" for name in gpu_torch.TYPES]
    shapes |= dict.fromkeys((*winners, "k_cap soft", "k_cap soft backward"), "2x100 k5")
    halves = {"bind_normalize bfloat16"}
    for op in ("bind", "bind_normalize", "bind_normalize double", *halves, *backwards, *shapes):
        case = gpu_torch.case_of(op, shapes.get(op, "2x16"))
        kernels = case.kernels()
        assert kernels and kernels == gpu_torch.case_of(op, shapes.get(op, "2x16"), "meta").kernels(), op
        ours = case.ours() if case.ours else None
        if op not in backwards and not op.startswith("k_winners") and ours is not None:
            tolerance = 1e-2 if op in halves else 1e-4
            torch.testing.assert_close(ours, case.form(), atol=tolerance, rtol=tolerance)
    assert gpu_torch.case_of("brain's round", "2000") is None


def test_the_torch_form_is_bounded_by_launches_or_traffic():
    kernel = gpu_torch.TorchKernel("mul", 1 << 30, 1 << 30, launches=1)
    time = gpu_model.modelled_torch([kernel] * 3, 1 << 31, A100)
    assert time == pytest.approx(6 * (1 << 30) / 2.039e12)
    small = gpu_torch.TorchKernel("mul", 1 << 20, 1 << 20, launches=1)
    assert gpu_model.modelled_torch([small] * 3, 1 << 21, A100) == pytest.approx(3 * gpu_model.LAUNCH_SECONDS)


def lines_of(table):
    """The cells of a table's lines, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_tables_have_a_line_for_every_shape_and_dashes_for_what_is_not_known():
    entries = [
        profile([(2, 32, {})], [("argument", 256, 8, 0, 1)], op="bind", shape="4x16"),
        profile([(1, 32, {})], [("result", 64, 0, 2, 1)], op="brain's round", shape="2000"),
    ]
    counted = counted_of(entries)
    rows = gpu_model.rows_of(counted, gpu_model.Code("sm_80", {}, {}), gpu_model.forms_of(counted))
    times = lines_of(gpu_model.table_of_times(rows, A100))
    assert [line[:3] for line in times] == [
        ["bind", "4x16", "-"],
        ["bind", "1000x16 *", "-"],
        ["brain's round", "2000", "-"],
    ]
    assert [line[6:9] for line in times] == [["-", "2.50", "launch"]] * 3
    assert [line[-2:] for line in times] == [["15.00", "6.0"], ["15.00", "6.0"], ["-", "-"]]
    assert lines_of(gpu_model.table_of_code([row.counted for row in rows], "sm_80")) == []
    assert lines_of(gpu_counts.table(gpu_counts.read_counts(entries))) == [
        ["bind", "4x16", "1", "0.2", "1.00", "1.00", "- / -", "- / -", "-"],
        ["brain's round", "2000", "1", "0.1", "1.00", "1.00", "- / -", "- / -", "-"],
    ]
    assert [line[2] for line in lines_of(gpu_model.table_of_forms(rows))] == [
        "`_fft_r2c`", "`mul`", "`clone`", "`_fft_c2r`", "`mul_`",
    ]  # fmt: skip


def test_measured_times_are_of_the_same_shapes():
    counted = counted_of([profile([(2, 32, {})], [("argument", 256, 8, 0, 1)], op="bind", shape="4x16")])
    measured = lines_of(gpu_model.measured_table(counted, "cpu", gpu_model.CpuClock))
    assert [line[:2] for line in measured] == [["bind", "4x16"], ["bind", "1000x16"]]
    for _, _, ours, form, ratio in measured:
        assert float(ratio) == pytest.approx(float(form) / float(ours), rel=0.01, abs=0.06)


def missing(reason):
    if os.environ.get("TORCH_HRR_REQUIRE_CUDA") == "1":
        pytest.fail(f"TORCH_HRR_REQUIRE_CUDA=1, but {reason}")
    pytest.skip(reason=reason)


@pytest.fixture(scope="module")
def counted():
    program = gpu_counts.counts_program(kernel_code.build_tree())
    if not program.is_file():
        # make builds it with the C++ tests where clang is found; cuobjdump is not needed to count.
        pytest.skip(reason=f"{program} is not built")
    return list(map(gpu_model.counted_of, gpu_counts.counted(program)))


def test_the_page_lists_every_counted_operator_and_shape(counted):
    text = gpu_model.DOCUMENT.read_text()
    for name in ("counts", *(gpu.name for gpu in gpu_model.GPUS)):
        part = text[text.index(f"<!-- {name}: begin -->") : text.index(f"<!-- {name}: end -->")]
        listed = set(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", part, re.MULTILINE)[1:])
        assert {(one.op, one.shape) for one in counted} <= listed, f"{name}: python bench/gpu_model.py --update"


@pytest.fixture(scope="module")
def code(counted):
    """The machine code of the installed library for the kernels that were counted."""
    if _library.build_info()["cuda"] == "none":
        missing("torch_hrr was built without CUDA")
    if kernel_code.cuobjdump() is None:
        missing("cuobjdump was not found: pip install nvidia-cuda-cuobjdump")
    # Disassembling takes long: all of it in a full run.
    chosen = [one for one in counted if one.op in CHOSEN or os.environ.get("TORCH_HRR_TEST_ALL") == "1"]
    return gpu_model.code_of(_library.load(), chosen, gpu_model.GPUS)


def explain_what_was_counted(counted, code):
    operators = {one.op: one for one in counted}
    if os.environ.get("TORCH_HRR_TEST_ALL") != "1":
        operators = {op: operators[op] for op in EXPLAINED}
    for one in operators.values():
        explained = {}
        for launch in code[A100.architecture].joined(one).launches:
            assert launch.issued is not None, f"{launch.counted.symbol}: the library has no such kernel"
            assert launch.issued.instructions > 0
            explained.setdefault(launch.counted.symbol, []).append(launch.issued.explained)
        # Of a kernel's launches together: one of them may find nothing to do.
        for symbol, shares in explained.items():
            assert statistics.fmean(shares) > 0.5, f"{one.op} {one.shape}: {symbol}"


def bind_normalize_takes_at_most_one_and_a_half_of_its_launch_or_traffic(counted, code, gpu):
    (one,) = (one for one in counted if (one.op, one.shape) == ("bind_normalize", "64x1024"))
    time = gpu_model.modelled(gpu_model.repeated(code[gpu.architecture].joined(one), 1000), gpu)
    assert time.issue is not None
    assert time.total <= 1.5 * max(time.launch, time.traffic), time


def headline_shapes_are_modelled(counted, code):
    hopper = [gpu for gpu in gpu_model.GPUS if gpu.architecture == "sm_90"]
    found = gpu_headlines.predictions(counted, code, hopper)
    assert sorted(found) == ["H100", "H200"]
    for gpu in hopper:
        times = found[gpu_headlines.short(gpu)]
        assert list(times) == [one.entry.name for one in gpu_headlines.HEADLINES if one.counted is not None]
        for headline in gpu_headlines.HEADLINES:
            if headline.counted is not None:
                least = headline.entry.traffic / gpu.bytes_per_second
                # What stays in L2 may be read again for nothing, and small kernels are bounded by their launch.
                assert 0.99 * least <= times[headline.entry.name] <= 4 * max(least, gpu_model.LAUNCH_SECONDS)


def test_the_compiled_kernels(counted, code):
    """One test, since every process that has one of several would disassemble the library."""
    explain_what_was_counted(counted, code)
    for gpu in gpu_model.GPUS:
        bind_normalize_takes_at_most_one_and_a_half_of_its_launch_or_traffic(counted, code, gpu)
    headline_shapes_are_modelled(counted, code)
