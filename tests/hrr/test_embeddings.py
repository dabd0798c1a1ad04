"""Encoders: their kernels are the formulas of their docstrings, their vectors those of a seed, in every lane."""

import copy
import io
import math
import pickle

import numpy as np
import pytest
import torch

import torch_hrr
from torch_hrr import hrr
from torch_hrr.hrr import embeddings

DIM = 4096
# Five standard deviations of a cosine of unrelated vectors.
NOISE = 5 / DIM**0.5
ROWS = torch.rand(5, 4, generator=torch.Generator().manual_seed(0))
PLACES = torch.arange(20).view(5, 4) % 7

# What makes one for rows of 4, and a batch of them.
RECORDS = {
    "RandomEncoder": (lambda **own: hrr.RandomEncoder(7, 64, features=4, **own), PLACES),
    "LevelEncoder": (lambda **own: hrr.LevelEncoder(7, 64, features=4, **own), ROWS),
    "ThermometerEncoder": (lambda **own: hrr.ThermometerEncoder(7, 64, features=4, **own), ROWS),
    "CircularEncoder": (lambda **own: hrr.CircularEncoder(7, 64, 0.7, features=4, **own), ROWS),
}
FUNCTIONS = {
    "ProjectionEncoder": (lambda **own: hrr.ProjectionEncoder(4, 64, **own), ROWS),
    "SinusoidEncoder": (lambda **own: hrr.SinusoidEncoder(4, 64, 0.5, **own), ROWS),
    "FractionalPowerEncoder": (lambda **own: hrr.FractionalPowerEncoder(4, 63, "gaussian", 0.5, **own), ROWS),
}
ENCODERS = RECORDS | FUNCTIONS
every = pytest.mark.parametrize(("make", "x"), ENCODERS.values(), ids=ENCODERS)
records = pytest.mark.parametrize(("make", "x"), RECORDS.values(), ids=RECORDS)
functions = pytest.mark.parametrize(("make", "x"), FUNCTIONS.values(), ids=FUNCTIONS)


def cosines(codes):
    units = codes / codes.norm(dim=-1, keepdim=True)
    return units @ units.mT


def distances(x):
    return (x.unsqueeze(-1) - x).abs()


def test_levels_fall_linearly_from_1_to_0():
    x = torch.linspace(-2, 6, 9)
    codes = hrr.LevelEncoder(9, DIM, -2, 6, seed=1)(x)
    torch.testing.assert_close(cosines(codes), 1 - distances(x) / 8, atol=NOISE, rtol=0)
    torch.testing.assert_close(codes.norm(dim=-1), torch.ones(9), atol=NOISE, rtol=0)
    # Elements are those of the ends, and each changes once.
    changes = (codes[1:] != codes[:-1]).sum(0)
    assert changes.eq(1).all() and (codes[1:] != codes[:-1]).sum(1).eq(DIM // 8).all()


def test_thermometers_fall_from_1_to_minus_1():
    codes = hrr.ThermometerEncoder(9, DIM, seed=1)(torch.linspace(0, 1, 9))
    torch.testing.assert_close(cosines(codes), 1 - 2 * distances(torch.linspace(0, 1, 9)), atol=1e-5, rtol=0)
    # A binding with one is no multiple of its other vector, as with a constant one.
    other = hrr.random(1, DIM, torch.Generator().manual_seed(0), device="cpu")
    assert torch.cosine_similarity(hrr.bind(codes[:1], other), other).abs() < NOISE


def test_a_circle_falls_to_0_halfway_round_and_rises_again():
    x = torch.arange(24) * (2 * math.pi / 12) - 7
    turns = distances(x).remainder(2 * math.pi) / (2 * math.pi)
    expected = 1 - 2 * torch.minimum(turns, 1 - turns)
    codes = hrr.CircularEncoder(12, DIM, seed=1)(x)
    # Places are the nearest of the twelve.
    torch.testing.assert_close(cosines(codes), expected, atol=NOISE, rtol=0)
    assert torch.equal(codes[:12], codes[12:]) and codes[:12].unique(dim=0).shape[0] == 12


@pytest.mark.parametrize("unitary", [False, True])
def test_random_vectors_are_unrelated(unitary):
    encoder = hrr.RandomEncoder(50, DIM, unitary, seed=3)
    codes = encoder(torch.arange(50))
    assert (cosines(codes) - torch.eye(50)).abs().max() < NOISE
    if unitary:
        torch.testing.assert_close(hrr.unitary(codes), codes, atol=1e-6, rtol=0)
    # sum_f bind(role_f, v): the cosine is the share of equal features.
    rows = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 9], [0, 8, 7, 3], [4, 5, 6, 7]])
    record = hrr.RandomEncoder(50, DIM, unitary, features=4, seed=3)(rows)
    expected = (rows.unsqueeze(1) == rows).float().mean(-1)
    torch.testing.assert_close(cosines(record), expected, atol=NOISE, rtol=0)


def test_a_projection_keeps_cosines_and_norms():
    x = torch.randn(12, 30, generator=torch.Generator().manual_seed(5)) + 0.5
    codes = hrr.ProjectionEncoder(30, DIM, seed=1)(x)
    torch.testing.assert_close(cosines(codes), cosines(x), atol=NOISE, rtol=0)
    torch.testing.assert_close(codes.norm(dim=-1) / x.norm(dim=-1), torch.ones(12), atol=NOISE, rtol=0)


@pytest.mark.parametrize("bandwidth", [0.3, 2.0])
def test_kernels_of_functions(bandwidth):
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(5))
    apart = bandwidth * (x.unsqueeze(1) - x)
    gaussian, sinc = (-apart.square().sum(-1) / 2).exp(), torch.sinc(apart).prod(-1)
    codes = hrr.SinusoidEncoder(3, DIM, bandwidth, seed=1)(x)
    torch.testing.assert_close(codes @ codes.mT, gaussian, atol=NOISE, rtol=0)
    for kernel, expected in (("gaussian", gaussian), ("sinc", sinc)):
        codes = hrr.FractionalPowerEncoder(3, DIM, kernel, bandwidth, seed=1)(x)
        torch.testing.assert_close(codes @ codes.mT, expected, atol=NOISE, rtol=0)


def test_phases_beyond_pi_do_not_wrap():
    """As they would in a vector: of phases of N(0, 5^2) half a unit has a kernel of .07 then, and not of .044."""
    encoder = hrr.FractionalPowerEncoder(1, DIM, "gaussian", 5.0, seed=0)
    code = encoder(torch.tensor([[0.0], [0.1], [0.5]]))
    expected = torch.tensor([1, math.exp(-0.125), math.exp(-3.125)])
    torch.testing.assert_close(code @ code[0], expected, atol=0.02, rtol=0)


@pytest.mark.parametrize("dim", [3, 8, 63, 1024])
@pytest.mark.parametrize("kernel", ["sinc", "gaussian"])
def test_powers_are_unitary_and_values_add_up(dim, kernel):
    encoder = hrr.FractionalPowerEncoder(2, dim, kernel, 0.7, seed=4, dtype=torch.float64)
    x = torch.randn(2, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    a, b = encoder(x[0]), encoder(x[1])
    torch.testing.assert_close(hrr.bind(a, b), encoder(x[0] + x[1]), atol=1e-12, rtol=0)
    torch.testing.assert_close(hrr.involution(a), encoder(-x[0]), atol=1e-12, rtol=0)
    torch.testing.assert_close(a.norm(dim=-1), torch.ones(5, dtype=torch.float64))
    if kernel == "sinc":
        vectors = encoder(torch.eye(2, dtype=torch.float64) / 0.7)
        torch.testing.assert_close(hrr.fractional_power_encoding(vectors, 0.7 * x[0]), a, atol=1e-10, rtol=0)


@records
def test_a_row_is_a_record_of_its_features(make, x, monkeypatch):
    """Against NumPy's Fourier transform, whether bound vectors are kept or not; bits of a row are its own."""
    encoder = make(seed=2)
    single = copy.deepcopy(encoder)
    single.features = single.roles = None
    fillers, roles = np.fft.fft(single(x).double().numpy()), np.fft.fft(encoder.roles.double().numpy())
    expected = torch.from_numpy(np.fft.ifft(fillers * roles).real.sum(1)).float()
    codes = encoder(x)
    torch.testing.assert_close(codes, expected, atol=1e-5, rtol=0)
    assert torch.equal(encoder(x[2]), codes[2]) and torch.equal(encoder(x.view(1, 5, 1, 4)), codes.view(1, 5, 1, -1))
    assert encoder(x[:0]).shape == (0, 64)
    monkeypatch.setattr(embeddings, "_MOST_BOUND", 0)
    lean = make(seed=2)
    assert lean.bound is None and encoder.bound.shape == (28, 64)
    torch.testing.assert_close(lean(x), expected, atol=1e-5, rtol=0)


def test_a_record_is_that_of_vectors_and_roles_edited_or_replaced_since():
    encoder = hrr.LevelEncoder(5, 16, features=4, seed=0)
    for change in (
        lambda: encoder.weight.div_(encoder.weight.norm(dim=-1, keepdim=True)),
        lambda: encoder.roles[2].neg_(),
        lambda: setattr(encoder, "roles", encoder.roles.flip(0)),
    ):
        encoder(ROWS)
        change()
        for each in (encoder, copy.deepcopy(encoder)):
            expected = hrr.bind_superpose(each.roles, each.weight[(ROWS.clamp(0, 1) * 4).round().long()])
            torch.testing.assert_close(each(ROWS), expected)


@pytest.mark.filterwarnings("ignore")
def test_a_copy_of_an_edited_encoder_is_exported_and_traced_as_it_is():
    encoder = hrr.LevelEncoder(5, 16, features=4, seed=0)
    encoder.weight.neg_()
    each = copy.deepcopy(encoder)
    exported = torch.export.export(each, (ROWS,)).module()
    torch.testing.assert_close(exported(ROWS), encoder(ROWS))
    # A trace is made twice and compared.
    for each in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert torch.equal(torch.jit.trace(each, (ROWS,))(ROWS), encoder(ROWS))


def test_values_take_the_nearest_level_and_the_ends_beyond():
    encoder = hrr.LevelEncoder(5, 32, -1, 1, seed=0)
    x = [-9, -1, -0.76, -0.74, -0.25, 0.25, 0.26, 1, 3, math.inf, -math.inf]
    wanted = [0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 0]
    for dtype in (torch.float32, torch.float64):
        assert torch.equal(encoder(torch.tensor(x, dtype=dtype)), encoder.weight[wanted])
    assert torch.equal(encoder(np.array([-3, 0, 1])), encoder.weight[[0, 2, 4]])
    assert torch.equal(encoder(torch.tensor([0, 1], dtype=torch.uint8)), encoder.weight[[2, 4]])
    # Integers are not rounded to float32.
    days = hrr.LevelEncoder(3, 32, 2**40, 2**40 + 2, seed=0)
    assert torch.equal(days(2**40 + torch.arange(3)), days.weight)
    x[4] = math.nan
    found = encoder(torch.tensor(x))
    assert found.isnan().any(-1).nonzero().tolist() == [[4]] and found[4].isnan().all()


@every
def test_a_row_with_nan_is_nan_and_leaves_others_alone(make, x):
    encoder = make(seed=0)
    if not x.is_floating_point():
        return
    bad = x.clone()
    bad[1, 2] = math.nan
    for call in (encoder, torch.jit.script(encoder)):
        found = call(bad)
        assert found[1].isnan().all() and torch.equal(found[[0, 2, 3, 4]], encoder(x)[[0, 2, 3, 4]])
    bad[1, 2] = math.inf
    assert encoder(bad)[1].isfinite().all() == (type(encoder) in (hrr.LevelEncoder, hrr.ThermometerEncoder))


@every
def test_vectors_are_those_of_the_seed(make, x):
    made = make(seed=7)
    assert torch.equal(made(x), make(seed=7)(x)) and not torch.allclose(made(x), make(seed=8)(x))
    assert torch.equal(make(seed=7 - 2**64)(x), made(x)) and not torch.allclose(make(seed=7 + 2**33)(x), made(x))
    # None draws one, another each time, that manual_seed sets.
    torch.manual_seed(0)
    drawn = [make(), make()]
    assert drawn[0].seed != drawn[1].seed and torch.equal(make(seed=drawn[1].seed)(x), drawn[1](x))
    torch.manual_seed(0)
    assert make().seed == drawn[0].seed
    exact = make(seed=7, dtype=torch.float64)
    for name, held in exact.state_dict().items():
        assert torch.equal(held.float(), made.state_dict()[name]), name
    # Roles are not the vectors of their seed.
    if "roles" in made.state_dict():
        assert not torch.equal(made.roles, made.weight[:4])


@pytest.mark.parametrize("dim", [5, 64, 100])
@pytest.mark.parametrize("unitary", [False, True])
def test_a_longer_list_begins_with_the_same_vectors(dim, unitary):
    whole = hrr.RandomEncoder(40, dim, unitary, features=3, seed=1)
    for count in (1, 7, 39):
        part = hrr.RandomEncoder(count, dim, unitary, features=2, seed=1)
        assert torch.equal(part.weight, whole.weight[:count]) and torch.equal(part.roles, whole.roles[:2])


def exported(strict):
    def export(encoder, x):
        shapes = {"x": {0: torch.export.Dim.AUTO}}
        return torch.export.export(encoder, (x,), dynamic_shapes=shapes, strict=strict).module()

    return export


def scripted(encoder, x):
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(encoder), file)
    file.seek(0)
    return torch.jit.load(file)


def saved(encoder, x, folder):
    encoder.save(folder / "it")
    return torch_hrr.load(folder / "it", device="cpu")


LANES = {
    "script": scripted,
    "strict export": exported(True),
    "export": exported(False),
    "compile": lambda encoder, x: torch.compile(encoder, fullgraph=True, backend="aot_eager"),
    "deepcopy": lambda encoder, x: copy.deepcopy(encoder),
    "pickle": lambda encoder, x: pickle.loads(pickle.dumps(encoder)),
    "meta": lambda encoder, x: type(encoder)(**encoder._summary(), device="meta").to_empty(device="cpu"),
}


@every
@pytest.mark.parametrize("lane", LANES)
def test_lanes(make, x, lane):
    encoder = make(seed=3)
    again = LANES[lane](encoder, x)
    if lane == "meta":
        again.reset_parameters()
    tolerance = {} if lane == "compile" else {"atol": 0, "rtol": 0}
    torch.testing.assert_close(again(x), encoder(x), **tolerance)
    torch.testing.assert_close(again(x.repeat(2, 1)), encoder(x.repeat(2, 1)), **tolerance)


@every
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes(make, x, dtype, tmp_path):
    encoder, expected = make(seed=3), make(seed=3)(x)
    # Products with matrices have last bits of their own in a half type.
    converted = make(seed=3).to(dtype)
    error = (converted(x) - expected).norm() / expected.norm()
    assert error < 4 * torch.finfo(max(dtype, torch.float32, key=lambda kind: torch.finfo(kind).eps)).eps
    is_table = type(encoder).__name__ in RECORDS
    given = x if is_table else x.to(dtype)
    assert converted(given).dtype == dtype
    # The bound vectors follow the others, in a file too.
    assert torch.equal(saved(converted, x, tmp_path)(x), converted(x))
    torch.set_default_dtype(dtype)
    try:
        assert next(make(seed=3).buffers()).dtype == dtype and make(seed=3)(given).dtype == dtype
    finally:
        torch.set_default_dtype(torch.float32)


@every
def test_a_state_an_array_autocast_and_inference_mode(make, x):
    encoder, other = make(seed=3), make(seed=4)
    assert not other.load_state_dict(encoder.state_dict()).missing_keys and torch.equal(other(x), encoder(x))
    assert not [*encoder.parameters()]
    assert torch.equal(encoder(x.numpy()), encoder(x))
    if x.is_floating_point():
        assert encoder(x.double().numpy()).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(encoder(x), encoder.double().float()(x)) and torch.equal(make(seed=3)(x), encoder(x))
    with torch.inference_mode():
        assert torch.equal(make(seed=3)(x), encoder(x))


@functions
def test_gradients(make, x):
    encoder = make(seed=3, dtype=torch.float64)
    assert torch.autograd.gradcheck(encoder, x.double().requires_grad_())
    torch.testing.assert_close(torch.vmap(encoder)(x.double()), encoder(x.double()))
    # Integers are values too.
    assert torch.equal(encoder(torch.arange(4)), encoder(torch.arange(4.0, dtype=torch.float64)))


@records
def test_a_table_has_no_gradient(make, x):
    if x.is_floating_point():
        assert not make(seed=0)(x.clone().requires_grad_()).requires_grad


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: hrr.LevelEncoder(1, 8), ValueError, "LevelEncoder: levels must be at least 2, got 1"),
        (lambda: hrr.LevelEncoder(3, 8, 1, 1), ValueError, "LevelEncoder: high must be above low = 1, got 1"),
        (lambda: hrr.LevelEncoder(3, 8, -1e308, 1e308), ValueError, "LevelEncoder: low and high must differ by 1e-37"),
        (lambda: hrr.LevelEncoder(3, 8, 0, 1e-320), ValueError, "LevelEncoder: low and high must differ by 1e-37"),
        (lambda: hrr.ThermometerEncoder(3, 8, 2, 1), ValueError, "ThermometerEncoder: high must be above low = 2"),
        (lambda: hrr.CircularEncoder(3, 8, 0), ValueError, "CircularEncoder: period must be a finite number > 0"),
        (lambda: hrr.FractionalPowerEncoder(3, 2), ValueError, "FractionalPowerEncoder: dim must be at least 3, got 2"),
        (lambda: hrr.FractionalPowerEncoder(3, 8, "box"), ValueError, "kernel must be 'sinc' or 'gaussian', got 'box'"),
        (lambda: hrr.SinusoidEncoder(3, 8, -1), ValueError, "SinusoidEncoder: bandwidth must be a finite number > 0"),
        (lambda: hrr.LevelEncoder(3, 8, features=2)(ROWS), ValueError, r"x must have shape \[..., 2\], got \[5, 4\]"),
        (lambda: hrr.ProjectionEncoder(3, 8)(ROWS), ValueError, r"x must have shape \[..., 3\], got \[5, 4\]"),
        (lambda: hrr.LevelEncoder(3, 8)(ROWS > 1), TypeError, "LevelEncoder: x must hold real numbers, got torch.bool"),
        (lambda: hrr.LevelEncoder(3, 8)([0.1]), TypeError, "LevelEncoder: x must be a torch.Tensor or a NumPy array"),
        (lambda: hrr.SinusoidEncoder(4, 8)(ROWS * 1j), TypeError, "x must hold real numbers, got torch.complex64"),
        (lambda: hrr.RandomEncoder(3, 8)(ROWS), TypeError, "RandomEncoder: x must be integers, got torch.float32"),
        (lambda: hrr.RandomEncoder(3, 8)(PLACES), IndexError, "RandomEncoder: x must be 0 to 2, got 6"),
        (lambda: hrr.RandomEncoder(3, 8, features=4)(-PLACES), IndexError, "RandomEncoder: x must be 0 to 2, got -6"),
        (lambda: hrr.LevelEncoder(3, 8)(ROWS.to("meta")), RuntimeError, "x must be on cpu, got meta"),
    ],
    ids=range(18),
)  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_script_refuses_an_integer_without_a_vector_too():
    """It must not be that of the next feature."""
    for features in (None, 4):
        script = torch.jit.script(hrr.RandomEncoder(3, 8, features=features))
        with pytest.raises((IndexError, RuntimeError), match=r"index out of range|takes value 21 "):
            script(torch.tensor([0, 1, 2, 3]).view(1, 4))
