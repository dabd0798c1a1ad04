"""The Python functions: dtypes that nobody named, out, and the formulas that other libraries and books give."""

import math

import pytest
import torch

from torch_hrr import encoding


def test_dtype_of_integer_positions_is_the_default_one_or_autocasts():
    positions, frequencies = torch.arange(4), torch.ones(3)

    def results():
        return (
            encoding.sinusoidal_encoding(positions, 6).dtype,
            encoding.sinusoidal_features(positions, frequencies).dtype,
        )

    assert results() == (torch.float32,) * 2
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert results() == (torch.bfloat16,) * 2
    for default in (torch.float64, torch.bfloat16):
        torch.set_default_dtype(default)
        assert results() == (default,) * 2
    torch.set_default_dtype(torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert results() == (torch.float64,) * 2


def test_dtype_of_out_is_asked_for():
    positions, table = torch.arange(4), torch.randn(9, 6)
    tokens = torch.tensor([3, 0, 8, 3])
    calls = {
        "encoding": lambda **options: encoding.sinusoidal_encoding(positions, 6, **options),
        "features": lambda **options: encoding.sinusoidal_features(positions, torch.ones(3), **options),
        "embed": lambda **options: encoding.embed_positions(tokens, table, **options),
    }
    for call in calls.values():
        for dtype in (torch.float64, torch.float16):
            out = torch.empty(4, 6, dtype=dtype)
            assert call(out=out) is out
            assert torch.equal(out, call(dtype=dtype))
        with pytest.raises((RuntimeError, TypeError)):
            call(dtype=torch.float32, out=torch.empty(4, 6, dtype=torch.float64))


def test_positions_that_are_no_tensor():
    for call, arguments in ((encoding.sinusoidal_encoding, (4,)), (encoding.sinusoidal_features, (torch.ones(2),))):
        with pytest.raises(
            TypeError, match=f"{call.__name__}: positions must be a torch.Tensor or a NumPy array, got list"
        ):
            call([1, 2], *arguments)


@pytest.mark.parametrize("layout", ("interleaved", "half"))
def test_geometry(layout):
    """Rows have norm^2 = dim / 2, and their products depend on the distance alone, at positions of any size."""
    dim, distances = 64, torch.tensor([0, 1, 7, 100, 5000])
    start = torch.tensor([0, 10**6, 2**31 - 6000])
    rows = encoding.sinusoidal_encoding(start.unsqueeze(-1) + distances, dim, layout=layout, dtype=torch.float64)
    frequencies = 10000.0 ** (-2 * torch.arange(dim // 2, dtype=torch.float64) / dim)
    gram = ((distances.unsqueeze(-1) - distances).unsqueeze(-1) * frequencies).cos().sum(-1)
    torch.testing.assert_close(rows @ rows.mT, gram.expand(3, -1, -1), atol=1e-9, rtol=0)
    assert torch.equal(gram.diagonal(), torch.full((5,), dim / 2, dtype=torch.float64))


def test_the_usual_formula_below_position_1000():
    """As fairseq and Hugging Face write it, which is right there."""
    dim, half = 32, 16
    steps = torch.exp(torch.arange(half) * -(math.log(10000) / half))
    angles = torch.arange(1000).float().unsqueeze(1) * steps
    ours = encoding.sinusoidal_encoding(torch.arange(1000), dim, layout="half")
    # The angles of float32 are what errs.
    assert (ours - torch.cat((angles.sin(), angles.cos()), 1)).abs().max() < 1e-4
    exact = torch.arange(1000).double().unsqueeze(1) * 10000.0 ** (-torch.arange(half).double() / half)
    assert (ours - torch.cat((exact.sin(), exact.cos()), 1)).abs().max() < 1.5e-7


def test_a_large_out_at_an_odd_address():
    """Where no element begins a line of memory, nothing can be streamed."""
    rows, dim = 8193, 1024
    memory = bytearray(4 * rows * dim + 4)
    out = torch.frombuffer(memory, dtype=torch.float32, count=rows * dim, offset=1).view(rows, dim)
    encoding.sinusoidal_encoding(torch.arange(rows), dim, out=out)
    assert torch.equal(out[-3:].clone(), encoding.sinusoidal_encoding(torch.arange(rows - 3, rows), dim))


def test_a_temperature_that_is_zero_in_float32():
    tokens, table = torch.zeros(2, dtype=torch.int32), torch.ones(3, 4)
    with pytest.raises(ValueError, match="finite and not 0, got 1e-50, which is not so in float32"):
        encoding.embed_positions(tokens, table, temperature=1e-50)
    assert encoding.embed_positions(tokens, table, temperature=1e-50, dtype=torch.float64).isfinite().all()


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_backward_pass_inside_autocast_is_not_in_half_types(layout):
    """The gradients of float32 arguments are sums of products, which autocast would round."""
    positions = torch.arange(0.0, 100.0, 0.25, requires_grad=True)
    frequencies = torch.tensor([1.0, 0.3, 0.01], requires_grad=True)
    weight = torch.randn(400, 6, generator=torch.Generator().manual_seed(0))

    def gradients(casts: bool) -> tuple[torch.Tensor, ...]:
        result = encoding.sinusoidal_features(positions, frequencies, None, layout, torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=casts):
            return torch.autograd.grad(result, (positions, frequencies), weight)

    for ours, plain in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(ours, plain)


def test_arguments_of_the_wrong_type():
    tokens, table = torch.zeros(2, dtype=torch.int32), torch.ones(3, 4)
    for call, message in (
        (
            lambda: encoding.embed_positions([1, 2], table),
            "embed_positions: tokens must be a torch.Tensor or a NumPy array, got list",
        ),
        (
            lambda: encoding.embed_positions(tokens, table, [0, 1]),
            "positions must be a torch.Tensor or a NumPy array, got list",
        ),
        (lambda: encoding.embed_positions(tokens, [[1.0]]), "table must be a torch.Tensor or a NumPy array, got list"),
        (lambda: encoding.sinusoidal_encoding([1], 4), "positions must be a torch.Tensor or a NumPy array, got list"),
        (lambda: encoding.sinusoidal_encoding(tokens, 4.0), "sinusoidal_encoding: dim must be an int, got float"),
        (
            lambda: encoding.sinusoidal_features(tokens, [1.0]),
            "frequencies must be a torch.Tensor or a NumPy array, got list",
        ),
        (
            lambda: encoding.sinusoidal_features(tokens, table[0], 0.5),
            "phase must be a torch.Tensor or a NumPy array, got float",
        ),
    ):
        with pytest.raises(TypeError, match=message):
            call()
