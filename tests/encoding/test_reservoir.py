"""The liquid state machine against NumPy: its reservoir, states, read-out, files and errors."""

import copy
import hashlib
import pickle
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr import IntegrityError
from torch_hrr.encoding import LiquidStateMachine, connections, reservoir
from torch_hrr.io import files

# A dense product, and a sparse one where torch has it.
UNITS = (40, 300)
# SHA-256 of connections and weights: programs rely on a seed's reservoir.
GOLDEN = {
    2**32 - 1: "2808d465c29b185ebdcebd3c16786c69f1ad50c8d1b57f2b5a42a52ca5932847",
    -1: "c65034e2f2b40e7829bb9530c7ce3713b488ea3e26b5057a8b788db72b513747",
}


def machine(units=40, **settings):
    return LiquidStateMachine(2, units, dtype=torch.float64, **{"density": 0.1, "seed": 3} | settings)


def forged(path, tensors, settings):
    """A file of a content, whether a machine has it or not."""
    files.save(path, tensors, settings, format="torch_hrr.liquid_state_machine", version=1)
    return path


def inputs(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal((*shape, 2))


def numpy_states(m, x):
    """The definition, step by step."""
    w, w_in, b = m.weights.numpy(), m.input_weights.numpy(), m.bias.numpy()
    state, states = np.zeros(len(b)), []
    for u in x:
        state = (1 - m.leak) * state + m.leak * np.tanh(w @ state + w_in @ u + b)
        states.append(state)
    return np.array(states)


@pytest.mark.parametrize("units", UNITS)
def test_states_are_those_of_the_definition(units, monkeypatch):
    m, x = machine(units), inputs(3, 50)
    expected = np.array([numpy_states(m, row) for row in x])
    for chunk in (2**20, 7 * units):
        monkeypatch.setattr(reservoir, "_CHUNK", chunk)
        np.testing.assert_allclose(m.run(torch.from_numpy(x)).numpy(), expected, atol=1e-12)
        np.testing.assert_allclose(m.run(x[1]).numpy(), expected[1], atol=1e-12)
    begins = [(begin, chunk.shape) for begin, chunk in m.chunks(x, steps=20)]
    assert begins == [(0, (3, 20, units)), (20, (3, 20, units)), (40, (3, 10, units))]


def test_states_continue_where_they_are_told_to():
    m, x = machine(leak=1.0), inputs(2, 30)
    whole = m.run(x)
    torch.testing.assert_close(m.run(x[:, 10:], state=whole[:, 9]), whole[:, 10:])
    torch.testing.assert_close(m.run(x[0, 10:], state=whole[0, 9]), whole[0, 10:])
    assert not torch.allclose(m.run(x[:, 10:]), whole[:, 10:])
    start = whole[0, 9].clone()
    m.run(x[0, 10:], state=start)
    assert torch.equal(start, whole[0, 9])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (2,), (40,), (3, 2)], ids=str)
@pytest.mark.parametrize("units", [37, 300])
def test_a_series_in_parts_has_the_values_of_one_call(units, shape, dtype, tmp_path):
    """Of odd sizes, at odd places, of one step, and with a load in between; up to rounding."""
    close = partial(torch.testing.assert_close, rtol=0, atol=1e-10 if dtype == torch.float64 else 1e-4)
    *batch, width = shape
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(*batch, 60, n, generator=generator, dtype=dtype) for n in (width, 5))
    m = LiquidStateMachine(width, units, dtype=dtype, device="cpu").fit(x, y)
    whole, states = m.predict(x), m.run(x)
    m.save(tmp_path / "m")
    parts, state = [], None
    for each, begin, end in ((m, 0, 1), (m, 1, 18), (LiquidStateMachine.load(tmp_path / "m"), 18, 59), (m, 59, 60)):
        part, state = each.predict(x[..., begin:end, :], state, return_state=True)
        parts.append(part)
        close(state, states[..., end - 1, :])
    close(torch.cat(parts, -2), whole)
    close(m.run(x[..., 17:, :], state=states[..., 16, :]), states[..., 17:, :])
    # No step leaves the state as it was.
    nothing, same = m.predict(x[..., :0, :], state, return_state=True)
    assert nothing.shape == (*batch, 0, 5) and torch.equal(same, state) and same is not state


def test_a_machine_goes_on_where_training_ended(tmp_path):
    """Forecasts of the Mackey-Glass series, with the state from training and from rest."""
    series = np.full(1500, 1.2)
    for t in range(17, 1499):
        series[t + 1] = 0.9 * series[t] + 0.2 * series[t - 17] / (1 + series[t - 17] ** 10)
    series = series[200:, None]
    m = LiquidStateMachine(1, 200, leak=0.5, dtype=torch.float64, seed=1).fit(series[:1000], series[1:1001], warmup=100)
    truth = series[1001:1101]
    on = m.predict(series[1000:1100], state=m.final_state)
    errors = [np.sqrt(np.mean((each.numpy() - truth) ** 2)) for each in (on, m.predict(series[1000:1100]))]
    assert 100 * errors[0] < errors[1]
    torch.testing.assert_close(on, m.predict(series[:1100])[1000:], rtol=0, atol=1e-3 * float(errors[1]))
    m.save(tmp_path / "m")
    loaded = LiquidStateMachine.load(tmp_path / "m")
    m.final_state.zero_()
    assert torch.equal(loaded.predict(series[1000:1100], state=m.final_state), on)
    assert torch.equal(loaded.final_state, m.final_state)
    # One sequence of a batch is a single series; several have no one end, nor have files of before a state.
    assert torch.equal(m.fit(series[None, :1000], series[None, 1:1001]).final_state, loaded.final_state)
    tensors, settings = m._content()
    del tensors["final_state"]
    old = LiquidStateMachine.load(forged(tmp_path / "m", tensors, settings))
    for other in (old, m.fit(np.zeros((2, 9, 1)), np.zeros((2, 9, 1)))):
        with pytest.raises(RuntimeError, match=r"^final_state: the machine must have learned from a single series"):
            other.final_state  # noqa: B018


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        (torch.zeros(2, 40), ValueError, r"shape \[3, 40\], got \[2, 40\]"),
        (torch.zeros(40), ValueError, r"shape \[3, 40\], got \[40\]"),
        (
            torch.zeros(3, 40, dtype=torch.float64),
            TypeError,
            r"of the machine's dtype, torch.float32, got torch.float64",
        ),
        (np.zeros((3, 40)), TypeError, r"of the machine's dtype, torch.float32, got torch.float64"),
        (torch.zeros(3, 40, device="meta"), ValueError, "data, got a meta tensor"),
        ([0.0], TypeError, "a torch.Tensor or a NumPy array, got list"),
    ],
)
def test_a_wrong_state_is_refused_before_any_work(state, error, text, monkeypatch):
    m = LiquidStateMachine(2, 40, device="cpu", dtype=torch.float32).fit(inputs(9), inputs(9))
    monkeypatch.setattr(m, "_chunks", None)
    for call, name in ((m.predict, "predict"), (m.run, "run"), (m.chunks, "chunks")):
        with pytest.raises(error, match=f"^{name}: state must (be|have|hold) {text}"):
            call(inputs(3, 9), state=state)


@pytest.mark.parametrize(("units", "density"), [(40, 0.2), (300, 0.1), (500, 0.02), (300, 1.0)])
def test_spectral_radius_and_connections(units, density):
    m = LiquidStateMachine(1, units, spectral_radius=0.7, density=density)
    weights = m.weights.double().numpy()
    assert np.abs(np.linalg.eigvals(weights)).max() == pytest.approx(0.7, rel=1e-6)
    assert set((weights != 0).sum(1)) == {round(density * units)}
    if density < 1:
        # Every unit is heard about as often as any other.
        heard = (weights != 0).sum(0)
        assert abs(heard - density * units).max() < 6 * (density * units) ** 0.5


def test_the_radius_of_a_matrix_whose_krylov_space_closes_early():
    """Pairs that hear each other: two different eigenvalues in 800 dimensions."""
    columns = torch.arange(800).view(-1, 2).flip(1).reshape(-1, 1)
    assert connections.spectral_radius(columns, torch.full((800, 1), 0.5, dtype=torch.float64)) == pytest.approx(0.5)


def test_a_reservoir_has_a_radius_however_sparse_it_is():
    for units in (1, 2, 5):
        m = LiquidStateMachine(1, units, density=1e-9, spectral_radius=0.5)
        assert np.abs(np.linalg.eigvals(m.weights.double().numpy())).max() == pytest.approx(0.5, rel=1e-6)
    assert not LiquidStateMachine(1, 20, spectral_radius=0).weights.any()


def test_the_reservoir_of_a_seed_never_changes():
    for seed, golden in GOLDEN.items():
        tensors, _ = LiquidStateMachine(3, 300, seed=seed)._content()
        digest = hashlib.sha256(b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors)))
        assert digest.hexdigest() == golden
    for other, same in ((2**64 - 1, True), (2**65 - 1, True), (0, False), (2**32 - 1, False)):
        assert torch.equal(tensors["values"], LiquidStateMachine(3, 300, seed=other).values) == same
    # torch's own generator is left alone.
    assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("chunk", [2**20, 17 * 40])
def test_the_readout_is_ridge_regression(batch, chunk, monkeypatch):
    """Normal equations with a constant that is not penalised, from states after the warmup alone."""
    monkeypatch.setattr(reservoir, "_CHUNK", chunk)
    m, x = machine(ridge=0.01), inputs(*batch, 80)
    y = np.random.default_rng(1).standard_normal((*batch, 80, 3)) + 100
    y[..., :25, :] = 1e9
    assert m.fit(x, y, warmup=25) is m
    states = m.run(x).numpy()[..., 25:, :].reshape(-1, 40)
    z = np.concatenate([states, np.ones((len(states), 1))], 1)
    penalty = 0.01 * np.eye(41)
    penalty[-1, -1] = 0
    expected = np.linalg.solve(z.T @ z + penalty, z.T @ y[..., 25:, :].reshape(-1, 3))
    weights, constant = m.readout
    np.testing.assert_allclose(weights.numpy(), expected[:-1], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(constant.numpy(), expected[-1], rtol=1e-9)
    predicted = m.run(x).numpy() @ expected[:-1] + expected[-1]
    np.testing.assert_allclose(m.predict(x).numpy(), predicted, rtol=1e-9)
    assert torch.equal(m.predict(x), m.predict(x))


def test_without_a_ridge_the_smallest_solution_is_found():
    """Forty weights from ten steps: an exact fit, with the weights of the pseudo-inverse."""
    m, x, y = machine(ridge=0), inputs(10), np.random.default_rng(1).standard_normal((10, 1))
    m.fit(x, y, warmup=0)
    states = m.run(x).numpy()
    np.testing.assert_allclose(m.predict(x).numpy(), y, atol=1e-5)
    expected = np.linalg.pinv(states - states.mean(0)) @ (y - y.mean(0))
    np.testing.assert_allclose(m.readout[0].numpy(), expected, rtol=1e-3, atol=1e-4 * abs(expected).max())


def test_a_series_of_one_number_a_step_needs_no_second_dimension(tmp_path):
    """Nor do targets, whose shape predictions have."""
    m, x = LiquidStateMachine(1, 40), inputs(60)[:, 0]
    wide = m.fit(x[:, None], x[:, None]).predict(x[:, None])
    flat = m.fit(x, x).predict(x)
    assert flat.shape == (60,) and [each.dim() for each in m.readout] == [1, 0]
    torch.testing.assert_close(flat, wide[:, 0])
    m.save(tmp_path / "m")
    assert torch.equal(LiquidStateMachine.load(tmp_path / "m").predict(x), flat)
    assert m.fit(np.stack([x, x])[..., None], np.stack([x, x])).predict(x).shape == (60,)
    assert m.fit(x, inputs(60)).predict(x).shape == (60, 2)


def test_it_is_a_module_of_one_dtype(tmp_path):
    """A model moves and copies it, its state is all that was drawn and learned, and no conversion changes it."""
    m, x = machine(300), torch.from_numpy(inputs(50))
    m.fit(x, x, warmup=1)
    expected, states = m.predict(x), m.run(x)
    model = torch.nn.Sequential(m, torch.nn.Linear(300, 2)).half().float()
    assert model[1].weight.dtype == torch.float32 and torch.equal(m(x), states) and torch.equal(m.predict(x), expected)
    other = LiquidStateMachine(2, 300, density=0.1, seed=4, device="meta", dtype=torch.float64)
    other.to_empty(device="cpu").load_state_dict(m.state_dict())
    other.leak = m.leak
    assert torch.equal(other.predict(x), expected) and torch.equal(other.final_state, m.final_state)
    # A state without a read-out takes it away.
    other.load_state_dict(machine(300).state_dict())
    assert not other.fitted and torch.equal(other.run(x), states)
    before = {name: tensor.clone() for name, tensor in m.state_dict().items()}
    for name, wrong in (
        ("end_state", torch.ones(3)),
        ("readout_constant", None),
        ("readout_weights", torch.ones(4, 1)),
        ("columns", before["columns"] + m.units),
    ):
        state = {key: tensor for key, tensor in (before | {name: wrong}).items() if tensor is not None}
        with pytest.raises(RuntimeError, match=rf"\n\t{name.removesuffix('_constant').removesuffix('_weights')}"):
            m.load_state_dict(state)
        assert all(torch.equal(tensor, before[key]) for key, tensor in m.state_dict().items())
    torch.testing.assert_close(torch.compile(m, backend="eager", fullgraph=True)(x), states, rtol=0, atol=1e-12)
    # What a copy learns is its own.
    copy.copy(m).fit(x, -x)
    assert torch.equal(m.predict(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(m)).predict(x), expected)


def test_a_seed_of_none_is_drawn_from_torchs_generator():
    torch.manual_seed(7)
    first, second = LiquidStateMachine(1, 9, seed=None), LiquidStateMachine(1, 9, seed=None)
    torch.manual_seed(7)
    assert first.seed == LiquidStateMachine(1, 9, seed=None).seed != second.seed
    assert torch.equal(LiquidStateMachine(1, 9, seed=first.seed).values, first.values)


def test_progress_is_told_and_may_end_a_fit(monkeypatch):
    monkeypatch.setattr(reservoir, "_CHUNK", 20 * 40)
    m, x, seen = machine(), inputs(50), []
    expected = m.fit(x, x, progress=lambda *now: seen.append(now)).predict(x)
    assert seen == [(20, 50), (40, 50), (50, 50)]

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        m.fit(x, -x, progress=interrupt)
    assert torch.equal(m.predict(x), expected)


class Largest(TorchDispatchMode):
    """Watches how many elements the largest result has."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.elements = max(self.elements, result.numel())
        return result


def test_a_long_series_is_fitted_without_holding_its_states(monkeypatch):
    monkeypatch.setattr(reservoir, "_CHUNK", 2**11)
    m, x = LiquidStateMachine(1, 64), torch.randn(5000, 1)
    with Largest() as seen:
        m.fit(x, x, warmup=100)
        predicted = m.predict(x)
    assert seen.elements == 5000
    assert float((predicted - x)[100:].square().mean().sqrt()) < 0.3


def test_arrays_of_any_real_kind_are_taken():
    m = LiquidStateMachine(1, 30)
    x = (np.arange(60) % 7)[:, None]
    m.fit(x, x.astype(np.float16), warmup=5)
    expected = m.predict(torch.from_numpy(x).float())
    swapped = x.astype(">f4")
    for given in (
        x,
        x.astype(np.uint8),
        x[::-1].copy()[::-1],
        torch.from_numpy(x),
        torch.from_numpy(x).half(),
        swapped,
    ):
        torch.testing.assert_close(m.predict(given), expected)
    assert m.predict(np.zeros((0, 1))).shape == (0, 1) and m.predict(np.zeros((2, 0, 1))).shape == (2, 0, 1)
    assert m.run(np.zeros((0, 5, 1))).shape == (0, 5, 30)


def test_modes_of_the_caller_change_nothing():
    """Autocast would compute products in bfloat16; inference mode would refuse gradients."""
    m, x = LiquidStateMachine(2, 300), torch.from_numpy(inputs(2, 40))
    expected, single = m.fit(x, x, warmup=1).predict(x), m.predict(x[0])
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        assert torch.equal(m.fit(x, x, warmup=1).predict(x), expected) and torch.equal(m.predict(x[0]), single)
    assert torch.equal(m.predict(x), expected)


def test_dtype_follows_the_call_and_then_torch():
    assert LiquidStateMachine(1, 5, dtype=torch.float64).run(torch.zeros(3, 1)).dtype == torch.float64
    assert LiquidStateMachine(1, 5).run(torch.zeros(3, 1).double()).dtype == torch.float32
    for default, own in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)):
        torch.set_default_dtype(default)
        assert LiquidStateMachine(1, 5).dtype == own


def test_a_file_brings_the_machine_back(tmp_path):
    m, x = LiquidStateMachine(2, 300, seed=2**64 - 5, leak=0.5), inputs(50)
    assert "fitted=False" in repr(m) and "fitted=True" in repr(m.fit(x, x, warmup=1))
    m.save(tmp_path / "m", key=b"k")
    state = torch.get_rng_state()
    loaded = LiquidStateMachine.load(tmp_path / "m", key=b"k")
    assert repr(loaded) == repr(m) and torch.equal(torch.get_rng_state(), state)
    assert torch.equal(loaded.run(x), m.run(x)) and torch.equal(loaded.predict(x), m.predict(x))


def test_a_forged_file_is_an_error(tmp_path):
    """Of one that has learned; tests/test_saveable.py forges others."""
    tensors, settings = LiquidStateMachine(2, 300).fit(inputs(20), inputs(20))._content()
    outside = tensors["columns"].clone()
    outside[5, -1] = 300
    for content in (
        (tensors | {"columns": outside}, settings),
        (tensors | {"columns": tensors["columns"].flip(1)}, settings),
        (tensors | {"bias": tensors["bias"].half()}, settings),
        (tensors | {"readout_weights": tensors["readout_weights"].float()}, settings),
        (tensors | {"final_state": tensors["final_state"][1:]}, settings),
        (tensors | {"final_state": tensors["final_state"].double()}, settings),
        ({name: value for name, value in tensors.items() if name != "readout_weights"}, settings),
        (tensors, settings | {"units": 299}),
        (tensors, settings | {"leak": 0}),
        (tensors, settings | {"seed": "x"}),
        (tensors, settings | {"embedder": 1}),
    ):
        with pytest.raises(IntegrityError, match="must describe a LiquidStateMachine"):
            LiquidStateMachine.load(forged(tmp_path / "m", *content))


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"dtype": torch.float16}, TypeError, "dtype must be torch.float32 or torch.float64, got torch.float16"),
        ({"dtype": "float32"}, TypeError, "dtype must be torch.float32 or torch.float64, got 'float32'"),
        ({"spectral_radius": 1e308}, ValueError, r"spectral_radius must give finite weights, got 1e\+308"),
        ({"input_scaling": 1e308}, ValueError, r"input_scaling must give finite weights, got 1e\+308"),
        ({"units": 10**6}, RuntimeError, r"units, .* got 1000000, 2 and 0\.1, which take 16,763\.9 GiB"),
        ({"input_dim": 10**12}, RuntimeError, r"units, .* got 10, 1000000000000 and 0\.1, which"),
    ],
)
def test_bad_settings(settings, error, text):
    with pytest.raises(error, match=f"^LiquidStateMachine: {text}"):
        LiquidStateMachine(**{"input_dim": 2, "units": 10} | settings)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda m, x: m.run([1.0]), TypeError, "run: x must be a torch.Tensor or a NumPy array, got list"),
        (lambda m, x: m.run(x.to_sparse()), TypeError, "run: x must be strided, got torch.sparse_coo"),
        (lambda m, x: m.run(x.bool()), TypeError, "run: x must hold real numbers, got torch.bool"),
        (lambda m, x: m.run(x + 1j), TypeError, "run: x must hold real numbers"),
        (lambda m, x: m.run(np.array([["a"]])), TypeError, "run: x must be an array of numbers that torch has, got"),
        (lambda m, x: m.run(np.float64(1)), ValueError, r"run: x must have shape \[T, 2\] or \[B, T, 2\], got \[\]"),
        (lambda m, x: m.run(x[:, :1]), ValueError, r"run: x must have shape \[T, 2\] or \[B, T, 2\], got \[20, 1\]"),
        (lambda m, x: m.run(x, state=torch.zeros(3, 10)), ValueError, r"run: state must have shape \[1, 10\]"),
        (lambda m, x: m.fit(x, x[:9]), ValueError, r"fit: x and y must have the same .* \[20, 2\] and \[9, 2\]"),
        (lambda m, x: m.fit(x, x[None]), ValueError, "fit: x and y must have the same leading"),
        (lambda m, x: m.fit(x, x[:, :0]), ValueError, "fit: y must have at least one column"),
        (lambda m, x: m.fit(x, x, warmup=20), ValueError, "fit: warmup must be below the number of steps, 20, got 20"),
        (lambda m, x: m.fit(x[:0], x[:0]), ValueError, "fit: x must have at least one step"),
        (lambda m, x: m.fit(x, x / 0, warmup=1), ValueError, "fit: y must be finite in torch.float64"),
        (lambda m, x: m.fit(x.double() * 1e300, x, warmup=1), ValueError, "fit: x must be finite in torch.float32"),
        (lambda m, x: m.fit(x, x, progress=5), TypeError, "fit: progress must be a function, a bool or None, got int"),
        (lambda m, x: m.to("meta").run(x), ValueError, "run: the machine must hold data, got a meta"),
        (lambda m, x: m.predict(x), RuntimeError, "predict: the machine must have a read-out: call fit first"),
        (lambda m, x: m.readout, RuntimeError, "readout: the machine must have a read-out: call fit first"),
        (lambda m, x: m.final_state, RuntimeError, "final_state: the machine must have a read-out: call fit first"),
    ],
)
def test_bad_calls_change_nothing(call, error, text):
    m = LiquidStateMachine(2, 10)
    with pytest.raises(error, match=f"^{text}"):
        call(m, torch.ones(20, 2))
    assert not m.fitted


class Rows(torch.nn.Module):
    """An embedder that remembers the positions that it was given."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(5, 2))

    def forward(self, tokens, positions):
        self.positions = positions
        return self.table[tokens]


def test_tokens_enter_through_the_embedder_at_position_zero(tmp_path):
    rows = Rows()
    m, plain = (LiquidStateMachine(2, 30, embedder=each) for each in (rows, None))
    tokens = torch.arange(40).view(2, 20) % 5
    states = m.run(tokens)
    torch.testing.assert_close(states, plain.run(rows.table[tokens]))
    assert rows.positions.tolist() == [0] and not states.requires_grad
    m.fit(tokens.numpy(), states[..., :1], warmup=0).save(tmp_path / "m")
    torch.testing.assert_close(m.predict(tokens[0]), states[0, :, :1], atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match=r"^load: embedder must be the one that the machine in .*m was saved with"):
        LiquidStateMachine.load(tmp_path / "m")
    assert torch.equal(LiquidStateMachine.load(tmp_path / "m", embedder=rows).predict(tokens), m.predict(tokens))
    # Files of before do not say.
    tensors, settings = m._content()
    del settings["embedder"]
    old = LiquidStateMachine.load(forged(tmp_path / "m", tensors, settings))
    torch.testing.assert_close(old.run(rows.table[tokens]), states)
    with pytest.raises(TypeError, match=r"^run: x must be integers, one a token, got torch\.float32"):
        m.run(torch.zeros(20))
    with pytest.raises(ValueError, match=r"^run: x must have shape \[T\] or \[B, T\], got \[1, 1, 20\]"):
        m.run(tokens[None, :1])
    with pytest.raises(ValueError, match=r"^run: embedder must give rows of width 3, got shape"):
        LiquidStateMachine(3, 30, embedder=rows).run(tokens)
