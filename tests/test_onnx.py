"""Programs in ONNX: the operators in plain torch, run by onnxruntime.

python tests/test_onnx.py --update    measures every public operator and writes the table of docs/onnx.md
"""

import logging
import pathlib
import re
import sys
import warnings

import pytest
import torch
from cases import ALL_CASES
from cases.base import build, tensors_of

import torch_hrr

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "onnx.md"
BATCH = torch.export.Dim("batch", min=2, max=64)
CASES = [case for case in ALL_CASES if not (case.id.startswith("_") or case.op._schema.is_mutable)]
# Lengths of rows, and their dtype.
COLUMNS = {"64": (64, torch.float32), "1000": (1000, torch.float32), "1000, float64": (1000, torch.float64)}
# What steps it takes depends on values; onnxruntime has no arctangent of float64.
EXCEPT = {"connectome_inputs": COLUMNS, "bind_power": ["1000, float64"], "bind_power.Tensor": ["1000, float64"]}


class Calls(torch.nn.Module):
    """Several operators in one program; tensors come in their order."""

    def __init__(self, cases, arguments):
        super().__init__()
        self.calls = [
            (
                case.op,
                [a.name for a in case.arguments],
                {k: v for k, v in each.items() if not isinstance(v, torch.Tensor)},
            )
            for case, each in zip(cases, arguments, strict=True)
        ]

    def forward(self, *tensors):
        tensors, results = list(tensors), []
        for op, names, options in self.calls:
            given = {name: tensors.pop(0) for name in names if options.get(name, True) is not None}
            result = op(**options, **given)
            results.extend((result,) if isinstance(result, torch.Tensor) else result)
        return tuple(results)


def tensors(cases, batch, dim, dtype):
    """Of all calls, as a program takes them; and the other arguments with them."""
    arguments = [build(case.sized(batch, 3, dim), dtype=dtype) for case in cases]
    return tuple(tensor for each in arguments for tensor in tensors_of(each).values()), arguments


def decomposed(cases, dim, dtype):
    """The calls as one program of torch's operators, for any number of rows."""
    inputs, arguments = tensors(cases, 3, dim, dtype)
    shapes = tuple(
        {0: BATCH} if argument.batched else None
        for case, each in zip(cases, arguments, strict=True)
        for argument in case.arguments
        if each[argument.name] is not None
    )
    program = torch.export.export(Calls(cases, arguments), inputs, dynamic_shapes=(shapes,))
    return program.run_decompositions(torch_hrr.io.onnx_decompositions())


def largest_errors(cases, dim, dtype=torch.float32):
    """Of onnxruntime's results beside ours, relative to the largest element of each, for every operator."""
    import onnxruntime

    exported = torch.onnx.export(decomposed(cases, dim, dtype), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(exported.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    largest = dict.fromkeys((case.id for case in cases), 0.0)
    for batch in (3, 5):
        inputs, arguments = tensors(cases, batch, dim, dtype)
        results = iter(
            session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs, strict=True)})
        )
        for case, each in zip(cases, arguments, strict=True):
            for expected in Calls([case], [each])(*tensors_of(each).values()):
                result = torch.from_numpy(next(results))
                assert result.shape == expected.shape and result.dtype == expected.dtype, case.id
                error = (result.double() - expected.double()).abs().max() / expected.double().abs().max()
                largest[case.id] = max(largest[case.id], float(error))
    return largest


def table():
    """A row an operator: the largest error for every length, or "no"."""
    columns = {}
    for column, (dim, dtype) in COLUMNS.items():
        cases = [case for case in CASES if dtype in case.dtypes and column not in EXCEPT.get(case.id, ())]
        columns[column] = largest_errors(cases, dim, dtype)
        print(columns[column], file=sys.stderr, flush=True)
    lines = ["| operator | " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for case in CASES:
        cells = [f"{errors[case.id]:.0e}" if case.id in errors else "no" for errors in columns.values()]
        lines.append(f"| `{case.id}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def rows_of_the_page():
    return dict(re.findall(r"^\| `(\S+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE))


def test_the_page_has_a_row_for_every_public_operator():
    rows = rows_of_the_page()
    assert list(rows) == [case.id for case in CASES]
    assert {name for name, cells in rows.items() if "no" in cells} == set(EXCEPT)
    errors = {name: cells.split(" | ")[0] for name, cells in rows.items()}
    assert all(float(error) < 2e-6 for error in errors.values() if error != "no")


def test_a_program_of_all_operators_runs_in_onnxruntime():
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        errors = largest_errors([case for case in CASES if case.id != "connectome_inputs"], 32)
    assert max(errors.values()) < 2e-6, errors


def test_a_decomposed_search_takes_any_number_of_queries_and_rows():
    class Program(torch.nn.Module):
        def forward(self, query, rows):
            return torch.ops.torch_hrr.quantized_cleanup(query, rows, *torch.ops.torch_hrr.quantize_rows(rows), None, 3)

    shapes = ({0: torch.export.Dim("queries")}, {0: torch.export.Dim("rows", min=3)})
    program = torch.export.export(Program(), (torch.randn(4, 512), torch.randn(20, 512)), dynamic_shapes=shapes)
    decomposed = program.run_decompositions(torch_hrr.io.onnx_decompositions()).module()
    # Outside of a graph such a search is cut into blocks.
    for queries, rows in ((4, 20), (3, 300), (600, 20)):
        inputs = torch.randn(queries, 512), torch.randn(rows, 512)
        for found, wanted in zip(decomposed(*inputs), Program()(*inputs), strict=True):
            torch.testing.assert_close(found, wanted)


def test_ties_and_a_search_are_the_same_in_onnxruntime():
    """ONNX's sort keeps the order of equal elements, as the operators promise; cosines pick the same rows."""
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(20, 32, generator=generator)
    query = rows[[3, 17, 5]] + 0.1 * torch.randn(3, 32, generator=generator)
    drives = torch.randint(3, (4, 30), generator=generator).float()

    class Program(torch.nn.Module):
        def forward(self, query, rows, drives):
            codes, bounds = torch.ops.torch_hrr.quantize_rows(rows)
            cosines, indices = torch.ops.torch_hrr.quantized_cleanup(query, rows, codes, bounds, None, 3)
            return cosines, indices, torch.ops.torch_hrr.k_winners(drives, 9)[1], torch.ops.torch_hrr.k_cap(drives, 9)

    tensors = {"query": query, "rows": rows, "drives": drives}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = tuple({0: torch.export.Dim(name, min=3)} for name in tensors)
        program = torch.export.export(Program(), tuple(tensors.values()), dynamic_shapes=shapes)
        program = program.run_decompositions(torch_hrr.io.onnx_decompositions())
        exported = torch.onnx.export(program, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(exported.model_proto.SerializeToString())
    for more in (tensors, {name: torch.cat([tensor, -tensor]) for name, tensor in tensors.items()}):
        got = session.run(None, {name: tensor.numpy() for name, tensor in more.items()})
        cosines, *exact = map(torch.from_numpy, got)
        expected, *want = Program()(*more.values())
        torch.testing.assert_close(cosines, expected)
        assert all(map(torch.equal, exact, want)) and exact[0][:3, 0].tolist() == [3, 17, 5]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from bench.markdown import update

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    made = table()
    if sys.argv[1:] == ["--update"]:
        update(PAGE, {"operators": made})
    else:
        print(made, end="")
