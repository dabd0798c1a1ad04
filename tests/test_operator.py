"""What one trait gives an operator (csrc/operator.h): the example of CONTRIBUTING.md in every lane, several results,
versions and Meta of operators that write in place.
"""

import os
import pathlib
import subprocess
import sys

import example_operators
import pytest
import torch
from cases import ALL_CASES
from cases.base import build, tensors_of
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad, gradcheck, gradgradcheck

from torch_hrr import hrr

TESTS = pathlib.Path(__file__).parent
LANES = ["values", "errors", "gradients", "func", "lanes", "layouts", "determinism", "script"]
built = pytest.mark.skipif(not example_operators.LIBRARY.is_file(), reason="make test-cpp builds the example")


@built
def test_the_example_runs_in_every_lane():
    files = [str(TESTS / f"test_ops_{lane}.py") for lane in LANES]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "example_operators", "-p", "no:cacheprovider", *files],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout[-5000:] + finished.stderr[-2000:]


@built
def test_the_example_compiles_in_one_graph():
    example_operators.load()
    involution = torch.ops.torch_hrr.involution
    compiled = torch.compile(lambda a: involution(a) * 2, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (2, 5):
        a = torch.randn(rows, 7, requires_grad=True)
        expected = involution(a) * 2
        assert torch.equal(compiled(a), expected)
        assert torch.equal(
            torch.autograd.grad(compiled(a).square().sum(), a)[0], torch.autograd.grad(expected.square().sum(), a)[0]
        )


def test_the_example_is_short():
    code = example_operators.blocks("cpp")[0].splitlines()
    lines = [line for line in code if line.strip() and not line.lstrip().startswith(("//", "#include"))]
    assert len(lines) <= 20, "\n".join(lines)


@pytest.fixture
def polar():
    if not example_operators.LIBRARY.is_file():
        pytest.skip(reason="make test-cpp builds the example")
    example_operators.load()
    return torch.ops.torch_hrr._polar


def points(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def test_several_results_have_derivatives_in_every_mode(polar):
    arguments = (points(3, 4), points(4))
    differentiable = lambda x, y: polar(x, y)[:2]  # noqa: E731
    assert gradcheck(differentiable, arguments, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(differentiable, arguments, check_fwd_over_rev=True, check_batched_grad=True)
    results = polar(*arguments)
    assert [result.requires_grad for result in results] == [True, True, False]
    assert results[0].grad_fn is results[1].grad_fn
    torch.testing.assert_close(torch.polar(results[0], results[1]).real, arguments[0].expand(3, 4))


def test_a_result_that_is_not_used_has_a_gradient_of_zero(polar):
    x, y = points(5), points(5)
    for used, exact in ((0, torch.hypot), (1, lambda x, y: torch.atan2(y, x))):
        ours = torch.autograd.grad(polar(x, y)[used].sum(), (x, y))
        torch.testing.assert_close(ours, torch.autograd.grad(exact(x, y).sum(), (x, y)))


def test_one_tangent_moves_both_results(polar):
    x, y, direction = points(5).detach(), points(5).detach(), points(5).detach()
    with forward_ad.dual_level():
        radius, angle, quadrant = polar(forward_ad.make_dual(x, direction), y)
        moved = [forward_ad.unpack_dual(result).tangent for result in (radius, angle)]
        assert forward_ad.unpack_dual(quadrant).tangent is None
    torch.testing.assert_close(moved[0], x * direction / torch.hypot(x, y))
    torch.testing.assert_close(moved[1], -y * direction / torch.hypot(x, y).square())


def test_several_results_under_vmap(polar):
    x, y = points(3, 4).detach(), points(4).detach()
    batched = torch.vmap(polar, (0, None))(x, y)
    assert all(torch.equal(result, whole) for result, whole in zip(batched, polar(x, y), strict=True))


# The arguments that backward reads where only the named one needs a gradient.
READS = [
    ("bind", {"a": "b", "b": "a"}),
    ("unbind", {"bound": "role", "role": "bound"}),
    ("bind_normalize", {"a": "a b", "b": "a b"}),
    ("bind_spectrum", {"a": "spectrum", "spectrum": "a"}),
    ("unbind_spectrum", {"bound": "spectrum", "spectrum": "bound"}),
    ("permute", {"a": ""}),
    ("spectrum", {"a": ""}),
    ("from_spectrum", {"spectrum": ""}),
    ("inverse", {"a": "a"}),
    ("k_cap", {"inputs": "inputs"}),
    ("superpose", {"vectors": "weights", "weights": "vectors"}),
    ("bind_superpose", {"a": "b weights", "b": "a weights", "weights": "a b"}),
]


@pytest.mark.parametrize(("name", "argument", "read"), [(n, a, r) for n, table in READS for a, r in table.items()])
def test_a_call_keeps_only_what_backward_reads(name, argument, read):
    """A saved tensor costs memory, and an error where it is changed in place before backward."""
    case = next(case for case in ALL_CASES if case.id == name)
    arguments = build(case.sized(2, 3, 24)) | ({"normalize": False} if "superpose" in name else {})
    arguments[argument].requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.data_ptr()), lambda _: None):
        case.run(arguments)
    names = {tensor.data_ptr(): name for name, tensor in tensors_of(arguments).items()}
    assert sorted(names[address] for address in kept) == sorted(read.split())


@pytest.mark.parametrize(
    "call",
    [
        lambda x: hrr.superpose(x, normalize=False),
        lambda x: hrr.multibind(x[:, :1]),
        lambda x: torch.ops.torch_hrr.k_cap(x, 2, 1.0, "ste"),
        lambda x: torch.ops.torch_hrr.k_cap(x, 2, 1.0, "none"),
    ],
    ids=["sum", "product of one", "straight-through", "no surrogate"],
)
def test_a_call_keeps_nothing(call):
    vectors = torch.randn(2, 3, 24, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda tensor: tensor):
        result = call(vectors)
    assert not kept
    result.sum().backward()
    assert vectors.grad.shape == vectors.shape


def test_every_kernel_belongs_to_a_schema():
    """A misspelt name registers a kernel that nothing calls, without a word."""
    assert torch._C._dispatch_find_dangling_impls() == []


COUNTS = torch.ops.torch_hrr._stimulus_counts_


def counts_of(*shape, **options):
    return torch.zeros(shape, dtype=torch.int32, **options)


def test_writing_in_place_bumps_the_version():
    counts = counts_of(1, 50)
    before = counts._version
    COUNTS(counts, 20, 0.3, 0, 0)
    assert counts._version == before + 1
    kept = counts.clone()
    view = counts[:, :0]
    with torch.no_grad():
        COUNTS(counts, 20, 0.3, 1, 0)
    assert view._version == counts._version == before + 2
    assert not torch.equal(kept, counts)


def test_writing_in_place_bumps_the_version_in_inference_mode_too():
    counts = counts_of(1, 50)
    with torch.inference_mode():
        COUNTS(counts, 20, 0.3, 0, 0)
        COUNTS(counts_of(1, 50), 20, 0.3, 0, 0)
    assert counts._version == 1


def test_an_out_form_bumps_the_version_in_inference_mode_too():
    a, out = torch.randn(2, 8), torch.empty(2, 8)
    with torch.inference_mode():
        torch.ops.torch_hrr.bind.out(a, a, out=out)
    assert out._version == 1


def test_inference_tensors_are_written_in_inference_mode_alone():
    a = torch.randn(2, 8)
    with torch.inference_mode():
        out, counts = torch.zeros(2, 8), counts_of(1, 50)
    with pytest.raises(RuntimeError, match="bind: out must not be an inference tensor outside inference mode"):
        torch.ops.torch_hrr.bind.out(a, a, out=out)
    with pytest.raises(RuntimeError, match="_stimulus_counts_: counts must not be an inference tensor"):
        COUNTS(counts, 20, 0.3, 0, 0)
    assert not out.any() and not counts.any()
    with torch.inference_mode():
        torch.ops.torch_hrr.bind.out(a, a, out=out)
    assert torch.equal(out, hrr.bind(a, a))


def test_negation_hides_no_shared_memory():
    a, b = torch.randn(2, 8), torch.randn(2, 8)
    before = a.clone()
    for first, out in ((a, torch._neg_view(a)), (torch._neg_view(a), a)):
        with pytest.raises(RuntimeError, match="bind: out must not share memory with a"):
            torch.ops.torch_hrr.bind.out(first, b, out=out)
    with pytest.raises(RuntimeError, match="bind: out must not overlap itself"):
        torch.ops.torch_hrr.bind.out(a, b, out=torch._neg_view(torch.zeros(8).expand(2, 8)))
    assert torch.equal(a, before)


def test_vmap_names_the_argument():
    rows = torch.randn(3, 8)
    with pytest.raises(ValueError, match="bind: a must have at least 1 dimension within vmap, got 0"):
        torch.vmap(lambda x: torch.ops.torch_hrr.bind(x, rows))(torch.randn(3))
    with pytest.raises(RuntimeError, match="_stimulus_counts_: counts must not be batched by vmap"):
        torch.vmap(lambda x: COUNTS(x, 20, 0.3, 0, 0))(counts_of(2, 1, 8))


def test_exponents_under_vmap_and_autocast():
    rows, exponents = torch.randn(3, 8), torch.tensor([0.5, 1.5], dtype=torch.float64)
    for dtype in (torch.bfloat16, torch.float32):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            powers = torch.vmap(lambda e: torch.ops.torch_hrr.bind_power(rows, e))(exponents)
            alone = [torch.ops.torch_hrr.bind_power(rows, e) for e in exponents]
        # Within vmap exponents of float64 take the rows along: that result is rounded from float64.
        assert powers.dtype == dtype
        torch.testing.assert_close(powers, torch.stack(alone))


def test_a_state_that_autograd_keeps_is_not_changed_in_silence():
    factor = torch.ones(1, 50, requires_grad=True)
    counts = counts_of(1, 50)
    product = factor * counts
    COUNTS(counts, 20, 0.3, 0, 0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_meta_checks_and_writes_nothing():
    assert COUNTS(counts_of(2, 50, device="meta"), 20, 0.3, 0, 0) is None
    for device in ("cpu", "meta"):
        with pytest.raises(ValueError, match=r"_stimulus_counts_: p must be in \[0, 1\], got 2"):
            COUNTS(counts_of(1, 5, device=device), 20, 2.0, 0, 0)
        with pytest.raises(RuntimeError, match="counts must be a contiguous int32 tensor"):
            COUNTS(torch.zeros(5, device=device), 20, 0.5, 0, 0)
    with FakeTensorMode():
        COUNTS(counts_of(1, 5), 20, 0.3, 0, 0)


def test_writing_in_place_is_traced():
    def fill(counts):
        COUNTS(counts, 20, 0.3, 5, 0)
        return counts + 1

    compiled = torch.compile(fill, fullgraph=True, backend="aot_eager")
    ours, theirs = counts_of(1, 64), counts_of(1, 64)
    assert torch.equal(fill(ours), compiled(theirs))
    assert torch.equal(ours, theirs)
