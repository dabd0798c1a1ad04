"""Machines that run free, one step at a time, and learn in parts or from series of several lengths."""

import copy
import itertools

import numpy as np
import pytest
import torch

from torch_hrr import IntegrityError
from torch_hrr.encoding import LiquidStateMachine, LSMClassifier, LSMRegressor, SinusoidalConfig, readout
from torch_hrr.io import files

T = np.arange(700)
SERIES = np.stack([np.sin(0.2 * T) * np.cos(0.031 * T), np.sin(0.05 * T)], 1)
CONFIG = SinusoidalConfig(vocab_size=5, embedding_dim=8, padding_id=None)


def machine(units=60, **settings):
    return LiquidStateMachine(2, units, leak=0.9, dtype=torch.float64, **settings)


def grown():
    return LiquidStateMachine(2, 60, spectral_radius=3.0, leak=1.0, activation="identity", dtype=torch.float64)


def fitted(units=60, count=600, **settings):
    return machine(units, **settings).fit(SERIES[: count - 1], SERIES[1:count], warmup=20)


def close(found, expected, atol=1e-9):
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def free(m, state, u, steps):
    """The loop in NumPy, from a state and the input that follows it."""
    w, w_in, b = m.weights.numpy(), m.input_weights.numpy(), m.bias.numpy()
    out, constant = (each.numpy() for each in m.readout)
    predictions = []
    for _ in range(steps):
        state = (1 - m.leak) * state + m.leak * np.tanh(w @ state + w_in @ u + b)
        u = state @ out + constant
        predictions.append(u)
    return np.array(predictions), (1 - m.leak) * state + m.leak * np.tanh(w @ state + w_in @ u + b)


@pytest.mark.parametrize("units", [60, 300])
def test_each_prediction_is_the_next_input(units):
    """From the end of training, after a series, and from a state: the same loop from other starts."""
    m = fitted(units, ridge=1e-3)
    expected, last = free(m, m.final_state.numpy(), SERIES[599], 30)
    found, state = m.forecast(30, return_state=True)
    close(found, expected, 1e-8)
    close(state, last, 1e-8)
    parts = [m.forecast(12, return_state=True)]
    parts.append(m.forecast(18, state=parts[0][1], return_state=True))
    close(torch.cat([part for part, _ in parts]), expected, 1e-8)
    close(parts[1][1], last, 1e-8)
    close(m.forecast(30, SERIES[599:600], m.final_state), expected, 1e-8)
    from_rest = m.run(SERIES[:100])[-1].numpy()
    close(m.forecast(30, SERIES[:101]), free(m, from_rest, SERIES[100], 30)[0], 1e-8)
    nothing, same = m.forecast(0, state=state, return_state=True)
    assert nothing.shape == (0, 2) and torch.equal(same, state) and same is not state


def test_batches_and_single_numbers_are_forecast_alike():
    m = fitted(ridge=1e-3)
    starts = np.stack([SERIES[:100], SERIES[50:150], SERIES[7:107]])
    found, state = m.forecast(20, starts, return_state=True)
    assert found.shape == (3, 20, 2) and state.shape == (3, 60)
    for row, start, last in zip(found, starts, state, strict=True):
        one, after = m.forecast(20, start, return_state=True)
        close(row, one, 1e-8)
        close(last, after, 1e-8)
    close(m.forecast(20, state=m.run(starts)[:, -1]), found, 1e-8)
    assert m.forecast(4, starts[:0]).shape == (0, 4, 2)
    x = SERIES[:, 1]
    flat = LiquidStateMachine(1, 40, leak=0.9, dtype=torch.float64, ridge=1e-3).fit(x[:-1], x[1:])
    wide = LiquidStateMachine(1, 40, leak=0.9, dtype=torch.float64, ridge=1e-3).fit(x[:-1, None], x[1:, None])
    close(flat.forecast(9), wide.forecast(9)[:, 0])
    assert flat.forecast(9, np.stack([x, x])[..., None]).shape == (2, 9)
    said, state = flat.step(np.float64(0.5))
    close(said, wide.step(np.array([0.5]))[0][0])
    assert said.shape == () and state.shape == (40,)


def mackey_glass(steps, tau=17):
    """Of the delay equation, by Euler's steps of a tenth."""
    values = np.full(10 * (steps + tau), 1.2)
    for t in range(10 * tau, len(values) - 1):
        late = values[t - 10 * tau]
        values[t + 1] = values[t] + 0.1 * (0.2 * late / (1 + late**10) - 0.1 * values[t])
    return values[10 * tau :: 10, None]


def test_a_chaotic_series_is_forecast_for_hundreds_of_steps():
    series = mackey_glass(2100)
    series = 2 * (series - series.min()) / np.ptp(series) - 1
    m = LiquidStateMachine(1, 200, dtype=torch.float64).fit(series[:1599], series[1:1600], warmup=100)
    errors = np.abs(m.forecast(300).numpy() - series[1600:1900])[:, 0]
    assert errors.max() < 0.1 < np.abs(m.forecast(300).numpy() - series[1599:1899]).max()


def test_single_precision_enters_as_it_leaves():
    """Each prediction is rounded before it is an input, so that a loop over `step` gives the same."""
    x = SERIES.astype(np.float32)
    m = LiquidStateMachine(2, 60, leak=0.9, ridge=1e-2).fit(x[:500], x[1:501])
    said, state, stepped = torch.from_numpy(x[500]), m.final_state, []
    for _ in range(5):
        said, state = m.step(said, state)
        stepped.append(said)
    found = m.forecast(5)
    assert found.dtype == torch.float32
    close(found, torch.stack(stepped), 1e-5)


@pytest.mark.parametrize("units", [60, 300])
@pytest.mark.parametrize("batch", [(), (3,)], ids=("one", "batch"))
def test_steps_are_a_series(units, batch):
    m = fitted(units)
    x = np.random.default_rng(0).standard_normal((*batch, 25, 2))
    expected, last = m.predict(x, return_state=True)
    state, said = None, []
    for t in range(25):
        each, state = m.step(x[..., t, :] if t % 2 else torch.from_numpy(x[..., t, :]).clone(), state)
        said.append(each)
    close(torch.stack(said, -2), expected)
    close(state, last)
    kept = state.clone()
    m.step(x[..., 0, :], state)
    assert torch.equal(state, kept)
    none, state = m.step(x[..., 0, :].reshape(-1, 2)[:0])
    assert none.shape == (0, 2) and state.shape == (0, units)


def test_tokens_are_stepped_through_too():
    embedder = torch.nn.Embedding(5, 8)

    class Rows(torch.nn.Module):
        def forward(self, tokens, positions):
            return embedder(tokens)

    tokens = torch.arange(40).view(2, 20) % 5
    m = LiquidStateMachine(8, 30, embedder=Rows()).fit(tokens, tokens.roll(1, 1).double())
    expected, state = m.predict(tokens), None
    for t in range(20):
        said, state = m.step(tokens[:, t], state)
        close(said, expected[:, t], 1e-4)
    one, state = m.step(tokens[0, 0])
    assert one.shape == () and state.shape == (30,) and not state.requires_grad
    with pytest.raises(TypeError, match=r"^forecast: the machine must hear numbers, got one with an embedder"):
        m.forecast(3)
    with pytest.raises(ValueError, match=r"^step: x must have shape \[\] or \[B\], got \[2, 20\]"):
        m.step(tokens)


def test_modes_of_the_caller_change_nothing():
    m, x = fitted(300), torch.from_numpy(SERIES)
    expected = (m.forecast(3), *m.step(x[0], m.final_state))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        found = (m.forecast(3), *m.step(x[0], m.final_state))
        learned = machine().partial_fit(x[:100], x[1:101])
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    with torch.inference_mode():
        loaded = machine()
        loaded.load_state_dict(learned.state_dict())
    for each in (learned, loaded):
        each.partial_fit(x[100:200], x[101:201])
        assert int(each.moments.count) == 200
    assert not m.step(x[0].clone().requires_grad_(), m.final_state)[0].requires_grad


def test_parts_are_one_fit():
    """Series apart, series that go on, and states and files in between; another ridge without running again."""
    whole = fitted(ridge=0.1)
    m = machine(ridge=0.1).partial_fit(SERIES[:200], SERIES[1:201], 20)
    m.partial_fit(SERIES[200:599], SERIES[201:600], resume=True)
    for found, expected in zip(m.readout, whole.readout, strict=True):
        close(found, expected, 1e-8)
    close(m.final_state, whole.final_state)
    close(m.forecast(5), whole.forecast(5), 1e-7)
    several = machine(ridge=0.1).fit([SERIES[:50], SERIES[300:420]], [SERIES[1:51], SERIES[301:421]], warmup=7)
    apart = machine(ridge=0.1)
    for begin, end in ((0, 50), (300, 420)):
        apart.partial_fit(SERIES[begin:end], SERIES[begin + 1 : end + 1], 7)
    close(apart.readout[0], several.readout[0], 1e-8)
    for ridge in (0.0, 10.0):
        expected = machine(ridge=ridge).fit([SERIES[:50], SERIES[300:420]], [SERIES[1:51], SERIES[301:421]], warmup=7)
        assert apart.refit(ridge) is apart and apart.ridge == ridge
        close(apart.predict(SERIES), expected.predict(SERIES), 1e-5)


def test_sums_go_through_files_states_and_copies(tmp_path):
    m = machine().partial_fit(SERIES[:200], SERIES[1:201])
    m.save(tmp_path / "m")
    built = torch.nn.ModuleList([machine(seed=5)])
    built.load_state_dict(torch.nn.ModuleList([m]).state_dict())
    on_meta = machine(device="meta")
    on_meta.load_state_dict(m.state_dict(), assign=True)
    others = [LiquidStateMachine.load(tmp_path / "m"), built.half()[0], on_meta, copy.deepcopy(m), copy.copy(m)]
    before = {name: tensor.clone() for name, tensor in m.state_dict().items()}
    for each in others:
        each.partial_fit(SERIES[200:400], SERIES[201:401], resume=True)
    assert all(torch.equal(tensor, before[name]) for name, tensor in m.state_dict().items())
    m.partial_fit(SERIES[200:400], SERIES[201:401], resume=True)
    for each in others:
        assert all(map(torch.equal, each.readout, m.readout)) and each.moments.gram.dtype == torch.float64
    # A state without sums takes them away, and `fit` drops them.
    others[0].load_state_dict(fitted().state_dict())
    assert others[0].moments is None and m.fit(SERIES, SERIES).moments is None
    for name, wrong in (("moments.cross", torch.ones(60, 3)), ("readout_constant", torch.ones(3))):
        with pytest.raises(RuntimeError, match=r"must (be|have)"):
            others[1].load_state_dict(before | {name: wrong})


def test_an_interrupted_call_leaves_the_sums():
    def interrupt(done, total):
        raise KeyboardInterrupt

    m = machine().partial_fit(SERIES[:200], SERIES[1:201])
    before = {name: tensor.clone() for name, tensor in m.state_dict().items()}
    with pytest.raises(KeyboardInterrupt):
        m.partial_fit(SERIES[:200], -SERIES[1:201], progress=interrupt)
    assert all(torch.equal(tensor, before[name]) for name, tensor in m.state_dict().items())


@pytest.mark.parametrize("chunk", [2**20, 4000])
def test_several_series_are_each_from_rest(chunk, monkeypatch):
    """Against states of each alone; what fills them up counts nowhere."""
    monkeypatch.setattr("torch_hrr.encoding.reservoir._CHUNK", chunk)
    m, ends = machine(ridge=0.01), (30, 11, 90, 26)
    x, y = [SERIES[:end] for end in ends], [SERIES[:end, ::-1] ** 2 for end in ends]
    ticks = []
    m.fit(x, y, warmup=10, progress=lambda done, total: ticks.append((done, total)))
    # 30 with 26, and the others apart: a short one does not run as long as the longest.
    assert ticks[-1] == (131, 131) and ticks == sorted(ticks)
    states = np.concatenate([m.run(each).numpy()[10:] for each in x])
    z = np.concatenate([states, np.ones((len(states), 1))], 1)
    penalty = np.diag([0.01] * 60 + [0])
    expected = np.linalg.solve(z.T @ z + penalty, z.T @ np.concatenate([each[10:] for each in y]))
    close(m.readout[0], expected[:-1], 1e-8)
    assert m.end_state is None and machine().fit(x[:1], y[:1]).end_state is not None
    flat = machine(ridge=0.01).fit(tuple(x), [each[:, 0] for each in y], warmup=10)
    close(flat.readout[0], expected[:-1, 0], 1e-8)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda m: m.forecast(3), RuntimeError, "forecast: the machine must have a read-out: call fit first"),
        (lambda m: m.step(SERIES[0]), RuntimeError, "step: the machine must have a read-out: call fit first"),
        (lambda m: m.refit(1.0), RuntimeError, "refit: the machine must hold sums: learn with partial_fit"),
        (lambda m: m.fit(SERIES, SERIES).refit(1.0), RuntimeError, "refit: the machine must hold sums"),
        (
            lambda m: m.fit(SERIES, SERIES[:, 0]).forecast(3),
            ValueError,
            "forecast: predictions must be inputs, 2 numbers, got 1",
        ),
        (
            lambda m: m.fit(SERIES[None].repeat(2, 0), SERIES[None].repeat(2, 0)).forecast(3),
            RuntimeError,
            "forecast: the machine must have learned from a single series",
        ),
        (lambda m: m.fit(SERIES, SERIES).forecast(-1), ValueError, "forecast: steps must be at least 0, got -1"),
        (lambda m: m.fit(SERIES, SERIES).forecast(2, SERIES[:, 0]), ValueError, r"forecast: x must have shape \[T, 2"),
        (
            lambda m: m.fit(SERIES, SERIES).forecast(2, state=torch.zeros(3).double()),
            ValueError,
            r"forecast: state must have shape \[1, 60\], got \[3\]",
        ),
        (lambda m: m.fit(SERIES, SERIES).step(SERIES[:, 0]), ValueError, r"step: x must have shape \[2\] or \[B, 2\]"),
        (
            lambda m: m.fit(SERIES, SERIES).step(SERIES[:3], torch.zeros(2, 60).double()),
            ValueError,
            r"step: state must have shape \[3, 60\], got \[2, 60\]",
        ),
        (
            lambda m: m.fit(SERIES, SERIES).step(SERIES[0], torch.zeros(60)),
            TypeError,
            "step: state must be of the machine's dtype",
        ),
        (lambda m: m.partial_fit(SERIES, SERIES, resume=True), RuntimeError, "partial_fit: the machine must have a"),
        (
            lambda m: m.fit(SERIES, SERIES).partial_fit([SERIES] * 2, [SERIES] * 2, resume=True),
            ValueError,
            "partial_fit: x must be a single series where resume is True, got 2",
        ),
        (lambda m: grown().fit(SERIES, SERIES), ValueError, "fit: states must be finite, and so must their squares"),
        (
            lambda m: m.partial_fit(SERIES, SERIES).partial_fit(SERIES, SERIES[:, 0]),
            ValueError,
            r"partial_fit: y must have the shape \[2\] of before at a step, got \[\]",
        ),
        (
            lambda m: m.partial_fit(SERIES, SERIES).partial_fit([SERIES], [SERIES[:, :1]]),
            ValueError,
            r"partial_fit: y must have the shape \[2\] of before at a step, got \[1\]",
        ),
        (lambda m: m.fit([], []), ValueError, "fit: x must have at least one series, got none"),
        (lambda m: m.fit([SERIES], SERIES), ValueError, "fit: y must be a list of 1, as x, got ndarray"),
        (lambda m: m.fit([SERIES], [SERIES] * 2), ValueError, "fit: y must be a list of 1, as x, got 2"),
        (lambda m: m.fit([SERIES] * 2, [SERIES, SERIES[:, :1]]), ValueError, "fit: x and y must be lists of single"),
        (lambda m: m.fit([SERIES[None].repeat(2, 0)], [SERIES[None].repeat(2, 0)]), ValueError, "fit: x and y must be"),
        (lambda m: m.fit([SERIES, SERIES[:0]], [SERIES, SERIES[:0]]), ValueError, "fit: x must have at least one step"),
        (lambda m: m.fit([SERIES, SERIES[:4]], [SERIES, SERIES[:4]], 4), ValueError, "fit: warmup must be below the"),
        (lambda m: m.fit([SERIES.tolist()], [SERIES]), TypeError, "fit: x must be a torch.Tensor or a NumPy array"),
    ],
)
def test_bad_calls(call, error, text):
    with pytest.raises(error, match=f"^{text}"):
        call(machine())


def test_the_regressor_forecasts_in_its_own_units():
    """As its machine does of columns scaled to -1 to 1, from the end of training and after a series."""
    x = 1000 + 50 * SERIES
    regressor = LSMRegressor(units=60, leak=0.9, ridge=1e-4).fit(x[:-1], x[1:], warmup=20)
    m, (middle, half) = regressor.machine, (each.numpy() for each in regressor._held)
    state, u, expected = m.final_state.numpy(), x[-1], []
    for _ in range(20):
        heard = m.weights.numpy() @ state + m.input_weights.numpy() @ ((u - middle) / half) + m.bias.numpy()
        state = 0.1 * state + 0.9 * np.tanh(heard)
        u = state @ m.readout[0].numpy() + m.readout[1].numpy()
        expected.append(u)
    close(regressor.forecast(20), expected, 1e-6)
    close(regressor.forecast(20, x[-1:], regressor.final_state), expected, 1e-6)
    tensors, state = regressor.forecast(20, torch.from_numpy(x[-1:]), regressor.final_state, return_state=True)
    assert isinstance(tensors, torch.Tensor) and isinstance(regressor.forecast(20), np.ndarray)
    assert isinstance(regressor.forecast(20, state=state), torch.Tensor)
    close(regressor.forecast(2, np.stack([x[:90], x[5:95]]))[1], regressor.forecast(2, x[5:95]), 1e-6)
    series = [x[:90], x[5:60]]
    parts, states = regressor.forecast(2, series, return_state=True)
    close(parts[1], regressor.forecast(2, series[1]), 1e-6)
    close(regressor.forecast(2, series, states)[0], regressor.forecast(2, series[0], states[0]), 1e-6)
    with pytest.raises(ValueError, match=r"^forecast: x must be finite, got NaN or infinity"):
        regressor.forecast(2, x * np.nan)
    for call in (lambda: LSMRegressor().forecast(3), lambda: LSMRegressor().refit(3.0)):
        with pytest.raises(RuntimeError, match=r"^(forecast|refit): the regressor must have a read-out"):
            call()


def test_the_regressor_learns_in_parts_and_from_several(tmp_path):
    """The first part has the largest range, so that the scale is that of all."""
    x = 1000 + 50 * SERIES
    whole = LSMRegressor(units=60, leak=0.9, ridge=1e-3).fit(x[:-1], x[1:])
    parts = LSMRegressor(units=60, leak=0.9, ridge=1e-3).partial_fit(x[:400], x[1:401])
    parts.save(tmp_path / "r")
    parts = LSMRegressor.load(tmp_path / "r").set_params(leak=0.5).partial_fit(x[400:-1], x[401:], resume=True)
    close(parts.predict(x), whole.predict(x), 1e-4)
    expected = LSMRegressor(units=60, leak=0.9, ridge=5.0).fit(x[:-1], x[1:])
    close(parts.refit(5.0).predict(x), expected.predict(x), 1e-4)
    assert parts.ridge == 5.0
    # After a fit the first part is a first call again.
    with pytest.raises(RuntimeError, match=r"^partial_fit: resume must be False in a first call"):
        whole.partial_fit(x[:-1], x[1:], resume=True)
    close(
        whole.partial_fit(x[:-1], -x[1:]).predict(x),
        -LSMRegressor(units=60, leak=0.9, ridge=1e-3).fit(x[:-1], x[1:]).predict(x),
        1e-4,
    )
    series, y = [x[:300], x[200:350], x[9:99]], [x[:300, 0], x[200:350, 0], x[9:99, 0]]
    several = LSMRegressor(units=60, ridge=1e-3).fit(series, y, warmup=5)
    found = several.predict(series)
    assert [each.shape for each in found] == [(300,), (150,), (90,)] and several.n_features_in_ == 2
    close(found[1], several.predict(series[1]))
    predictions, states = several.predict(series, return_state=True)
    again = several.predict(series, states)
    close(again[2], several.predict(series[2], states[2]))
    truth, guess = np.concatenate(y), np.concatenate(predictions)
    assert several.score(series, y) == pytest.approx(1 - ((truth - guess) ** 2).sum() / truth.var() / len(truth))
    tensors = [torch.from_numpy(each) for each in series]
    assert isinstance(several.predict(tensors)[0], torch.Tensor)
    for call, text in (
        (lambda: several.predict(series, states[0]), "predict: state must be a list of 3, as x, or None"),
        (lambda: several.score(series, y[0]), "score: y must be a list of 3, as x, got ndarray"),
        (lambda: several.fit(series, y[:2]), "fit: y must be a list of 3, as x, got 2"),
        (lambda: several.fit([x, x[:, :1]], [x, x]), r"fit: x must have shape \[T, 2\] or \[B, T, 2\], got \[700, 1\]"),
    ):
        with pytest.raises(ValueError, match=f"^({text})"):
            call()


def test_tokens_of_several_lengths_are_regressed():
    tokens = np.arange(300) % 5
    sequences, y = [tokens[:100], tokens[3:203]], [np.roll(tokens[:100], 1), np.roll(tokens[3:203], 1)]
    regressor = LSMRegressor(CONFIG, units=50).fit(sequences, y, warmup=5)
    assert np.abs(regressor.predict(sequences)[1] - y[1])[5:].max() < 0.1


@pytest.fixture
def short_fits(monkeypatch):
    monkeypatch.setattr(readout, "_STEPS", 80)


def waves(lengths):
    """Slow and fast ones in turn."""
    return [np.sin(np.arange(n)[:, None] * (0.2, 0.4)[i % 2] + i) for i, n in enumerate(lengths)]


def test_sequences_of_several_lengths_are_classified(short_fits):
    """Each has the features that it has alone; what fills it up counts nowhere."""
    lengths = [20 + 3 * (i % 7) for i in range(60)]
    x, y = waves(lengths), ["slow", "fast"] * 30
    classifier = LSMClassifier(units=40).fit(x[:40], y[:40])
    assert classifier.score(x[40:], y[40:]) > 0.9 and classifier.n_features_in_ == 1
    chances = classifier.predict_proba(x[40:])
    for row, each in zip(chances, x[40:], strict=True):
        close(row, classifier.predict_proba(each[None])[0], 1e-9)
    assert isinstance(classifier.predict_proba([torch.from_numpy(each) for each in x]), torch.Tensor)
    tokens = [np.arange(n) % 5 if i % 2 else -np.arange(n) % 5 for i, n in enumerate(lengths)]
    words = LSMClassifier(CONFIG, units=40).fit(tokens, y)
    assert words.score(tokens, y) == 1.0
    wide, empty = np.zeros((4, 2)), np.zeros((0, 1))
    for wrong, text in ((wide, "x must be sequences of one width"), (empty, "x must have at least one step")):
        with pytest.raises(ValueError, match=f"^fit: {text}"):
            classifier.fit([*x[:3], wrong], y[:4])


def test_classifiers_learn_in_parts(short_fits, tmp_path):
    x, y = np.stack(waves([30] * 60)), np.array(["slow", "fast"] * 30)
    whole = LSMClassifier(units=40).fit(x, y)
    parts = LSMClassifier(units=40).partial_fit(x[:1], y[:1], classes=["slow", "fast"])
    assert parts.predict(x).tolist() == ["slow"] * 60
    parts.partial_fit(x[1:31], y[1:31]).save(tmp_path / "c")
    parts = LSMClassifier.load(tmp_path / "c").partial_fit(x[31:], y[31:])
    close(parts.predict_proba(x), whole.predict_proba(x), 1e-3)
    expected = parts.predict_proba(x)
    for call, text in (
        (lambda: parts.partial_fit(x[:1], ["new"]), "y must be of the classes of the first call, got 'new'"),
        (lambda: parts.partial_fit(x[:, :, [0, 0]], y), r"x must have shape \[B, T, 1\]"),
        (lambda: LSMClassifier(units=9).partial_fit(x, y, ["slow", "slower"]), "y must be of the classes"),
    ):
        with pytest.raises(ValueError, match=f"^partial_fit: {text}"):
            call()
    assert np.array_equal(parts.predict_proba(x), expected)
    # After a fit the first part is a first call again.
    whole.partial_fit(x[:4], ["a", "b"] * 2)
    assert whole.classes_.tolist() == ["a", "b"]
    tensors, facts = files.load(tmp_path / "c", format="torch_hrr.lsm_classifier")
    for name, wrong in itertools.product(("learned.features", "learned.labels"), (torch.ones(3), torch.full((31,), 9))):
        files.save(tmp_path / "c", tensors | {name: wrong}, facts, format="torch_hrr.lsm_classifier", version=1)
        with pytest.raises(IntegrityError):
            LSMClassifier.load(tmp_path / "c")


def test_many_series_go_through_a_search():
    """scikit-learn splits lists of series, each from rest."""
    selection = pytest.importorskip("sklearn.model_selection")
    x = [SERIES[begin : begin + 90 + begin // 9] for begin in range(0, 540, 60)]
    y = [np.roll(each, 1, 0) for each in x]
    search = selection.GridSearchCV(LSMRegressor(units=40), {"leak": [0.01, 0.9]}, cv=3).fit(x, y, warmup=10)
    assert search.best_params_ == {"leak": 0.9} and search.best_score_ > 0.9
