"""Regressor, classifier and generator do what they are for, keep it in files, and refuse what makes no sense."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch

from torch_hrr import IntegrityError
from torch_hrr.encoding import (
    GPUConfig,
    LiquidStateMachine,
    LSMClassifier,
    LSMGenerator,
    LSMRegressor,
    SinusoidalConfig,
    readout,
)
from torch_hrr.encoding import generator as generation
from torch_hrr.io import files

CONFIG = SinusoidalConfig(vocab_size=5, embedding_dim=8, padding_id=None)
TOKENS = torch.zeros(200, dtype=torch.int64)
SHAPE = r"must have shape \[T, {0}\] or \[B, T, {0}\], got \["
LARGE = r"must be above -2\^63 and below 2\^63, got "


def series(steps):
    """A sum of two sines, far from zero and large."""
    t = np.arange(steps)
    return 100 + 10 * np.sin(0.3 * t) + 5 * np.sin(0.11 * t)


def interrupt(done, total):
    raise KeyboardInterrupt


def cycles(count, length, seed=0):
    """Tokens 0, 1, 2, 3, 4, 0, ... of which a tenth is drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.arange(length).expand(count, -1) % 5
    drawn = torch.randint(5, (count, length), generator=generator)
    return torch.where(torch.rand(count, length, generator=generator) < 0.1, drawn, tokens)


@pytest.fixture
def short_fits(monkeypatch):
    monkeypatch.setattr(readout, "_STEPS", 40)


@pytest.fixture(scope="module")
def generator():
    return LSMGenerator(CONFIG, units=60, seed=1).fit(cycles(1, 6000)[0])


def test_a_series_is_predicted_whatever_its_range():
    x = series(700)
    regressor = LSMRegressor(units=100, leak=0.9).fit(x[:500], x[1:501])
    predicted = regressor.predict(x[:699])
    assert predicted.shape == (699,) and predicted.dtype == np.float64
    assert np.abs(predicted[500:] - x[501:]).max() < 0.1
    # Columns of a constant and of another scale change nothing; they have weights of their own.
    columns = np.stack([1e6 * x, np.full(700, 3.0)], 1)
    wide = LSMRegressor(units=100, leak=0.9).fit(columns[None, :500], x[None, 1:501, None])
    assert np.abs(wide.predict(columns[:699])[500:, 0] - x[501:]).max() < 0.1
    assert wide.n_features_in_ == 2 and wide.score(columns[:700], x[:, None]) < wide.score(columns[:699], x[1:, None])


def test_the_regressor_is_a_machine_over_scaled_inputs():
    x = series(200)
    scaled = torch.from_numpy((2 * x - x.max() - x.min()) / (x.max() - x.min())).unsqueeze(-1)
    machine = LiquidStateMachine(1, 40, seed=2, dtype=torch.float64).fit(scaled, x, warmup=10)
    regressor = LSMRegressor(units=40, seed=2).fit(x, x, warmup=10)
    np.testing.assert_allclose(regressor.predict(x), machine.predict(scaled).numpy())
    assert torch.equal(regressor.machine.values, machine.values)


def test_tensors_give_tensors_and_everything_else_arrays(short_fits):
    x = torch.sin(torch.arange(90.0))
    kinds = {"tensor": x, "float32": x.numpy(), "float64": x.double().numpy(), "list": x.tolist()}
    found = {name: LSMRegressor(units=20).fit(each, each).predict(each) for name, each in kinds.items()}
    assert isinstance(found["tensor"], torch.Tensor) and found["tensor"].dtype == torch.float32
    assert [found[name].dtype for name in ("float32", "float64", "list")] == [np.float32, np.float64, np.float64]
    assert np.array_equal(found["float32"], found["tensor"].numpy())
    assert np.array_equal(found["float64"], found["list"])
    regressor = LSMRegressor(units=20, dtype=torch.float64).fit(x, x)
    predicted, state = regressor.predict(kinds["float64"][:40], return_state=True)
    assert isinstance(state, np.ndarray) and regressor.predict(x).dtype == torch.float64
    rest = regressor.predict(kinds["float64"][40:], state)
    np.testing.assert_allclose(np.concatenate([predicted, rest]), regressor.predict(x).numpy(), atol=1e-9)
    rows = x.view(30, 3)
    for labels in (["up", "down"] * 15, np.array([True, False] * 15), np.array([2.0, 1.0] * 15), [7, -7] * 15):
        classifier = LSMClassifier(units=20).fit(rows.tolist(), labels)
        assert np.array_equal(classifier.classes_, np.unique(labels))
        assert classifier.predict(rows.numpy()).dtype == np.asarray(labels).dtype
        assert isinstance(classifier.predict(rows), torch.Tensor) == (np.asarray(labels).dtype.kind in "bi")
        chances = classifier.predict_proba(rows)
        assert isinstance(chances, torch.Tensor) and isinstance(classifier.predict_proba(rows.numpy()), np.ndarray)
        assert classifier.score(rows, labels) == np.mean(classifier.predict(rows.numpy()) == np.asarray(labels))


def test_a_half_default_dtype_is_not_that_of_states(short_fits):
    x = torch.sin(torch.arange(90.0))
    rows, labels = x.view(30, 3), torch.arange(30) // 10

    def fitted():
        bits = LSMGenerator(CONFIG, units=20).fit(TOKENS).bits(TOKENS)
        chances = LSMClassifier(units=20).fit(rows, labels).predict_proba(rows)
        return [LSMRegressor(units=20).fit(x, x).predict(x), chances, bits]

    expected = fitted()
    torch.set_default_dtype(torch.bfloat16)
    torch.testing.assert_close(fitted(), expected, rtol=0, atol=0)


def test_faces_go_on_from_a_state(generator, tmp_path):
    """The regressor with its scale, from the end of training and in a file; the generator in a batch of streams."""
    x = series(300)
    regressor = LSMRegressor(units=41, leak=0.9).fit(x[:200], x[1:201])
    whole = regressor.predict(x)
    regressor.save(tmp_path / "r")
    loaded = LSMRegressor.load(tmp_path / "r")
    part, state = loaded.predict(x[200:233], loaded.final_state, return_state=True)
    close = partial(torch.testing.assert_close, rtol=0, atol=1e-5)
    close(np.concatenate([part, regressor.predict(x[233:], state=state)]), whole[200:])
    tokens = cycles(3, 50)
    first, state = generator.predict_proba(tokens[:, :19], return_state=True)
    second, last = generator.predict_proba(tokens[:, 19:], state, return_state=True)
    close(torch.cat([first, second], 1), generator.predict_proba(tokens))
    close(last, generator.machine.run(tokens)[:, -1])


def test_tokens_are_regressed_through_the_embedder():
    """What the token before was."""
    tokens = torch.randint(5, (4, 400), generator=torch.Generator().manual_seed(0))
    regressor = LSMRegressor(CONFIG, GPUConfig(enable_gpu=False), units=150)
    y = tokens.roll(1, 1).double()
    predicted = regressor.fit(tokens[:3], y[:3], warmup=5).predict(tokens[3])
    assert predicted.shape == (400,) and float((predicted[5:] - y[3, 5:]).abs().mean()) < 0.35
    assert regressor.embedder.config.gpu_config == GPUConfig(enable_gpu=False)
    assert not any(parameter.requires_grad for parameter in regressor.embedder.parameters())


def test_softmax_regression_finds_the_probabilities_of_its_data():
    """Two Gaussians of one covariance: the log odds are linear, with known weights."""
    generator = torch.Generator().manual_seed(0)
    label = (torch.rand(40_000, generator=generator) < 0.3).long()
    # One direction hardly varies, and all are far from 0: whitening must undo both.
    spread = torch.tensor([1.0, 0.02, 5.0], dtype=torch.float64)
    z = torch.randn(40_000, 3, generator=generator, dtype=torch.float64)
    z[:, 0] += label
    z[:, 1] -= label
    z = z * spread + 7
    parts = list(zip(z.split(2048), label.split(2048), strict=True))
    seen = []
    weights, constant = readout.fit_softmax(
        lambda: parts, len(parts), 3, 2, torch.device("cpu"), lambda done, total: seen.append((done, total))
    )
    odds = (weights[:, 1] - weights[:, 0]) * spread
    torch.testing.assert_close(odds, torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64), atol=0.1, rtol=0)
    share = torch.softmax(z @ weights + constant, -1)[:, 1].mean()
    assert float(share) == pytest.approx(float(label.double().mean()), abs=0.01)
    assert seen[-1][0] == seen[-1][1] == len(seen) and len(seen) % len(parts) == 0


def test_sequences_are_classified_by_their_order(tmp_path):
    """Words of the same tokens forwards and backwards, padded to one length."""
    draw = torch.Generator().manual_seed(0)
    start, length = torch.randint(4, (600, 1), generator=draw), torch.randint(4, 9, (600, 1), generator=draw)
    step = torch.arange(8)
    way = torch.arange(600).unsqueeze(-1) % 2 * 2 - 1
    tokens = torch.where(step < length, 1 + (start + way * step) % 4, 0)
    labels = 7 * way.squeeze(-1)
    config = SinusoidalConfig(vocab_size=5, embedding_dim=8)
    seen = []
    progress = lambda *now: seen.append(now)  # noqa: E731
    classifier = LSMClassifier(config, units=50).fit(tokens[:400], labels[:400], progress)
    # The steps of the sequences, then those of the read-out.
    assert seen[0] == (8, seen[-1][1]) and seen[-1][0] == seen[-1][1] == len(seen) + 7
    with pytest.raises(KeyboardInterrupt):
        classifier.set_params(seed=3).fit(tokens, -labels, progress=interrupt)
    classifier.set_params(seed=0)
    classifier.classes.zero_()
    assert classifier.classes.tolist() == [-7, 7]
    assert float((classifier.predict(tokens[400:]) == labels[400:]).double().mean()) > 0.97
    probabilities = classifier.predict_proba(tokens[400:])
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(200, dtype=torch.float64))
    # More padding is nothing, and nothing but padding is no NaN.
    padded = torch.nn.functional.pad(tokens[400:], (0, 5))
    torch.testing.assert_close(classifier.predict_proba(padded), probabilities, atol=1e-4, rtol=0)
    assert bool(classifier.predict_proba(torch.zeros(1, 3, dtype=torch.int64)).isfinite().all())
    classifier.save(tmp_path / "c")
    loaded = LSMClassifier.load(tmp_path / "c")
    assert torch.equal(loaded.predict_proba(tokens[400:]), probabilities)
    assert loaded.predict(tokens[400:401]).tolist() == classifier.predict(tokens[400:401]).tolist()


def test_series_are_classified():
    t = torch.arange(40) * torch.linspace(0.2, 0.4, 60).unsqueeze(-1)
    x, y = t.sin().unsqueeze(-1).numpy(), (np.arange(60) >= 30).astype(np.int16)
    classifier = LSMClassifier(units=40).fit(x[::2], y[::2])
    assert (classifier.predict(x[1::2]) == y[1::2]).mean() > 0.9
    # One number a step needs no third dimension; the rows of a table are of one length then.
    table = LSMClassifier(units=40).fit(x[::2, :, 0], y[::2])
    assert np.array_equal(table.predict_proba(x[1::2]), classifier.predict_proba(x[1::2]))
    assert table.predict(x[1::2, :30]).shape == (30,) and table.n_features_in_ == 40
    with pytest.raises(
        ValueError, match=r"^predict: x must have shape \[B, 40\], got \[30, 30\]: X has 30 features, but"
    ):
        table.predict(x[1::2, :30, 0])
    classifier.predict(x[1::2, :30, 0])


class Frame:
    """What a data frame is to NumPy: square brackets name its columns."""

    def __init__(self, values):
        self.values, self.ndim, self.shape = values, values.ndim, values.shape

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype or self.values.dtype)

    def __getitem__(self, name):
        raise KeyError(name)


@pytest.mark.parametrize("tokens", [False, True])
def test_several_data_frames_are_classified_as_their_arrays(tokens, short_fits):
    draw = np.random.default_rng(0)
    given = [draw.integers(0, 5, length) if tokens else draw.random((length, 3)) for length in (6, 9, 6, 7)]
    classifier = LSMClassifier(CONFIG if tokens else None, units=10)
    wanted = classifier.fit(given, [0, 1, 0, 1]).predict_proba(given)
    frames = [Frame(one) for one in given]
    assert np.array_equal(classifier.fit(frames, [0, 1, 0, 1]).predict_proba(frames), wanted)


def test_the_next_token_has_the_probability_of_its_source(generator):
    entropy = -0.92 * math.log2(0.92) - 0.08 * math.log2(0.02)
    test = cycles(8, 500, seed=5)
    # Who knows the place in the cycle for sure needs the entropy, one that goes by the token before nearly twice that.
    assert 0.9 * entropy < generator.bits(test, warmup=10) < 1.3 * entropy
    probabilities = generator.predict_proba(test[0])
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(500, dtype=torch.float64))
    logs = probabilities[:-1].gather(-1, test[0, 1:, None]).log2()
    assert generator.bits(test[0], warmup=10) == pytest.approx(-float(logs[10:].mean()))


def test_generated_tokens_follow_seed_temperature_and_prompt(generator):
    written = generator.generate(300, seed=3, prompt=torch.arange(25) % 5)
    assert torch.equal(written, generator.generate(300, seed=3, prompt=np.arange(25) % 5))
    assert not torch.equal(written, generator.generate(300, seed=4, prompt=torch.arange(25) % 5))
    in_turn = (written[1:] == (written[:-1] + 1) % 5).double().mean()
    assert 0.7 < float(in_turn) < 0.98
    sure = generator.generate(20, temperature=0, seed=9, prompt=torch.arange(25) % 5)
    assert sure.tolist() == (torch.arange(20) % 5).tolist()
    counts = torch.bincount(generator.generate(400, temperature=1e6), minlength=5)
    assert counts.min() > 40
    assert generator.generate(0).shape == (0,) and generator.generate(3).dtype == torch.int64


def test_states_beyond_what_is_kept_are_computed_again(monkeypatch, short_fits):
    tokens = cycles(1, 900)[0]
    kept = LSMGenerator(CONFIG, units=9).fit(tokens).predict_proba(tokens)
    monkeypatch.setattr(generation, "_KEPT", 0)
    assert torch.equal(LSMGenerator(CONFIG, units=9).fit(tokens).predict_proba(tokens), kept)


def test_modes_of_the_caller_change_nothing(generator):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        tokens = cycles(1, 6000)[0]
        again = LSMGenerator(CONFIG, units=60, seed=1).fit(tokens)
        assert torch.equal(again.machine.run(cycles(1, 30)), generator.machine.run(cycles(1, 30)))
        probabilities = again.predict_proba(cycles(8, 500, seed=5))
        # One stream, whose labels are a view of the tokens.
        LSMGenerator(CONFIG, units=5).fit(tokens[:100], streams=1)
        x, y = torch.linspace(0, 1, 60).view(20, 3, 1).clone(), torch.arange(20) // 10
        classified = LSMClassifier(units=20).fit(x, y).predict(x)
        regressor = LSMRegressor(units=20).fit(x, x, warmup=1)
        regressed = regressor.predict(x)
    # Nor are the embedder's rows rounded.
    assert torch.equal(probabilities, generator.predict_proba(cycles(8, 500, seed=5)))
    assert classified.tolist() == LSMClassifier(units=20).fit(x.clone(), y.clone()).predict(x).tolist()
    assert torch.equal(regressed, LSMRegressor(units=20).fit(x.clone(), x.clone(), warmup=1).predict(x))
    assert torch.equal(copy.deepcopy(regressor).predict(x), regressed)


@pytest.mark.parametrize("last", [0, 1])
def test_what_never_changes_is_no_measure_of_what_does(last):
    """Tokens 0, and at most one other at the end: their own beginning is no surprise, others are a bounded one."""
    tokens = torch.zeros(3000, dtype=torch.int64)
    tokens[-1] = last
    constant = LSMGenerator(CONFIG, units=60, seed=1).fit(tokens, streams=1)
    assert constant.bits(tokens[:400]) < 0.1
    assert constant.bits(cycles(1, 400)[0]) < 20


def test_series_of_small_amplitude_are_classified():
    t = torch.arange(40) * torch.linspace(0.2, 0.4, 60).unsqueeze(-1)
    x, y = 1e-3 * t.sin().unsqueeze(-1), torch.arange(60) // 30
    assert float((LSMClassifier(units=40).fit(x[::2], y[::2]).predict(x[1::2]) == y[1::2]).double().mean()) > 0.9


def test_integers_of_any_dtype_are_tokens_and_labels(generator, short_fits):
    tokens = cycles(2, 60)
    expected = generator.predict_proba(tokens)
    labels = torch.tensor([2**62, 1])
    classifier = LSMClassifier(SinusoidalConfig(vocab_size=5, embedding_dim=8), units=20).fit(tokens, labels)
    for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int16):
        assert torch.equal(generator.predict_proba(tokens.to(dtype)), expected)
        assert torch.equal(generator.machine.run(tokens.to(dtype)), generator.machine.run(tokens))
        assert torch.equal(classifier.predict_proba(tokens.to(dtype)), classifier.predict_proba(tokens))
    for kind in (">i8", ">u2", "<u8"):
        assert np.array_equal(generator.predict_proba(tokens.numpy().astype(kind)), expected.numpy())
    for given in (tokens.tolist(), tokens.numpy().astype(object)):
        assert np.array_equal(generator.predict_proba(given), expected.numpy())
    large = torch.tensor([1, 2**63 + 7], dtype=torch.uint64)
    for name, call in (
        ("bits: tokens", lambda: generator.bits(large)),
        ("run: x", lambda: generator.machine.run(large)),
        ("fit: y", lambda: classifier.fit(tokens, large)),
    ):
        with pytest.raises(ValueError, match=f"^{name} {LARGE}{2**63 + 7}"):
            call()


def test_numbers_that_are_none_are_refused_where_they_cannot_be_seen(short_fits):
    """A label says nothing of NaN, nor a number of infinity; probabilities are NaN themselves."""
    x = torch.linspace(0, 1, 60).view(20, 3, 1)
    bad = x.clone()
    bad[3, 1] = math.nan
    classifier = LSMClassifier(units=20).fit(x, torch.arange(20) // 10)
    assert classifier.predict_proba(bad).isnan().any(-1).nonzero().squeeze(-1).tolist() == [3]
    with pytest.raises(ValueError, match=r"^predict: x must be finite, got NaN or infinity"):
        classifier.predict(bad)
    for value in (math.nan, math.inf):
        bad[3, 1] = value
        with pytest.raises(ValueError, match=r"^fit: x must be finite, got NaN or infinity"):
            classifier.fit(bad, torch.arange(20) // 10)
    regressor = LSMRegressor(units=20).fit(x, x, warmup=1)
    for call in (regressor.predict, classifier.predict):
        with pytest.raises(ValueError, match=r"^predict: x must be finite, got NaN or infinity"):
            call(bad)
    for call in (lambda: regressor.score(x, x + math.nan), lambda: regressor.score(x[:0], x[:0]),
                 lambda: classifier.score(x[:0], [])):  # fmt: skip
        with pytest.raises(ValueError, match=r"^score: y must "):
            call()


def test_copies_are_what_they_are_copies_of(generator, short_fits):
    x = torch.linspace(0, 1, 60).view(20, 3, 1)
    regressor = LSMRegressor(units=300).fit(x, x, warmup=1)
    classifier = LSMClassifier(units=300).fit(x, torch.arange(20) // 10)
    wide = LSMGenerator(CONFIG, units=300)
    for copied in (copy.deepcopy, copy.copy):
        assert torch.equal(copied(regressor).predict(x), regressor.predict(x))
        assert torch.equal(copied(regressor.machine).run(x), regressor.machine.run(x))
        assert torch.equal(copied(classifier).predict_proba(x), classifier.predict_proba(x))
        assert torch.equal(copied(generator).generate(9), generator.generate(9))
        again = copied(wide)
        assert torch.equal(again.machine.run(cycles(1, 9)), wide.machine.run(cycles(1, 9)))
        assert again.machine.embedder is again.embedder


def test_a_read_out_is_seen_in_the_name(generator):
    x = torch.linspace(0, 1, 60).view(20, 3, 1)
    assert repr(generator).endswith("seed=1, fitted=True)")
    classifier = LSMClassifier(units=20)
    assert repr(classifier).endswith("fitted=False)")
    assert repr(classifier.fit(x, torch.arange(20) // 10)).endswith("fitted=True)")


def test_the_seed_draws_the_table_too():
    tables = [LSMGenerator(CONFIG, units=10, seed=seed).embedder.weight for seed in (0, 2**64, 1)]
    assert torch.equal(tables[0], tables[1]) and not torch.equal(tables[0], tables[2])


def test_files_bring_estimators_back(generator, tmp_path, short_fits):
    generator.save(tmp_path / "g", key=b"k")
    loaded = LSMGenerator.load(tmp_path / "g", key=b"k")
    assert torch.equal(loaded.generate(50), generator.generate(50)) and repr(loaded) == repr(generator)
    x = series(100)
    regressor = LSMRegressor(units=20).fit(x, x, warmup=5)
    regressor.save(tmp_path / "r")
    again = LSMRegressor.load(tmp_path / "r")
    assert np.array_equal(again.predict(x), regressor.predict(x)) and again.n_features_in_ == 1
    assert repr(again.fit(x, x)) == repr(regressor)
    LSMClassifier(units=20).save(tmp_path / "c")
    assert LSMClassifier.load(tmp_path / "c").classes.tolist() == []
    rows = x.reshape(20, 5)
    for labels in (["b", "a"] * 10, [True, False] * 10, [0.0, -2.0] * 10, [2**62, 1] * 10, np.eye(20, dtype="int8")[3]):
        classifier = LSMClassifier(units=20).fit(rows, labels)
        classifier.save(tmp_path / "c")
        again = LSMClassifier.load(tmp_path / "c")
        assert again.predict(rows).tolist() == classifier.predict(rows).tolist()
        assert again.n_features_in_ == 5 and again.classes_.dtype == classifier.classes_.dtype
    with pytest.raises(IntegrityError, match=r"must hold version 1 of 'torch_hrr\.lsm_classifier'"):
        LSMClassifier.load(tmp_path / "r")


def test_files_keep_which_settings_are_left_to_fit(tmp_path):
    told = {
        "input_dim": 8,
        "spectral_radius": 0.5,
        "leak": 0.8,
        "input_scaling": 0.5,
        "seed": 4,
        "dtype": torch.float64,
    }
    for kind in (LSMRegressor, LSMClassifier, partial(LSMGenerator, CONFIG)):
        for given in ({"seed": None}, told):
            estimator = kind(units=5, **given)
            estimator.save(tmp_path / "e")
            loaded = type(estimator).load(tmp_path / "e").get_params()
            assert {name: loaded[name] for name in told} == dict.fromkeys(told) | given
    LSMRegressor(units=5, seed=None, random_state=4).save(tmp_path / "e")
    assert LSMRegressor.load(tmp_path / "e").seed == 4
    x = series(60)
    two = np.stack([x, -x], 1).astype("float32")
    regressor = LSMRegressor(units=5).fit(x, x)
    regressor.save(tmp_path / "e")
    again = LSMRegressor.load(tmp_path / "e").fit(two, two).predict(two)
    assert again.dtype == np.float32 and np.array_equal(again, regressor.fit(two, two).predict(two))


def test_files_keep_settings_that_were_changed_after_a_fit(tmp_path):
    x = series(60)
    changed = {"input_dim": 1, "units": 6, "leak": 0.5, "ridge": 0.25, "seed": 2**64 - 1, "dtype": torch.float32}
    regressor = LSMRegressor(units=5).fit(x, x).set_params(**changed)
    regressor.save(tmp_path / "e")
    again = LSMRegressor.load(tmp_path / "e")
    assert again.get_params() == regressor.get_params()
    assert again.machine.units == 5 and np.array_equal(again.predict(x), regressor.predict(x))
    assert np.array_equal(again.fit(x, x).predict(x), regressor.fit(x, x).predict(x))
    again.save(tmp_path / "e")
    assert "changed" not in files.load(tmp_path / "e", format="torch_hrr.lsm_regressor")[1]
    with pytest.raises(ValueError, match=r"^save: units must be at least 1"):
        again.set_params(units=0).save(tmp_path / "e")


def test_fits_start_anew_and_leave_what_is_there_when_they_fail(generator):
    x = series(100)
    regressor = LSMRegressor(units=20).fit(x, x)
    expected = regressor.predict(x)
    with pytest.raises(KeyboardInterrupt):
        regressor.set_params(seed=3, leak=0.5).fit(x, -x, progress=interrupt)
    assert np.array_equal(regressor.predict(x), expected) and regressor.machine.leak == 0.3
    other = regressor.fit(np.stack([x, x], 1), x).predict(np.stack([x, x], 1))
    assert regressor.n_features_in_ == 2 and not np.allclose(other, expected)
    assert np.array_equal(regressor.set_params(seed=0, leak=None).fit(x, x).predict(x), expected)
    with pytest.raises(KeyboardInterrupt):
        copy.copy(generator).fit(cycles(1, 6000)[0], progress=interrupt)


def test_what_is_not_told_is_taken_from_the_data_and_the_seed():
    x = np.zeros((9, 3))
    assert LSMRegressor(units=5).fit(x, x).machine.input_dim == 3
    assert LSMRegressor(units=5).machine.input_dim == LSMRegressor(units=5).fit(x[:, 0], x).machine.input_dim == 1
    values = [LSMRegressor(units=5, **drawn).machine.values for drawn in ({}, {"seed": 4}, {"random_state": 4})]
    assert torch.equal(values[1], values[2]) and not torch.equal(values[0], values[1])
    for kind in (np.random.RandomState, np.random.default_rng):
        drawn = LSMRegressor(units=5, random_state=kind(0))
        seed = drawn.fit(x, x).machine.seed
        assert seed != drawn.fit(x, x).machine.seed
        assert seed == LSMRegressor(units=5, random_state=kind(0)).machine.seed
    torch.manual_seed(1)
    any_seed = LSMGenerator(CONFIG, units=5, seed=None)
    assert any_seed.fit(TOKENS).machine.seed != any_seed.fit(TOKENS).machine.seed
    waiting = LSMRegressor(units=5)
    assert waiting.machine is waiting.machine and waiting.set_params(units=6).machine.units == 6


def test_a_forged_file_is_an_error(generator, tmp_path):
    """Parts that do not fit; tests/test_saveable.py forges others."""
    generator.save(tmp_path / "g")
    tensors, metadata = files.load(tmp_path / "g", format="torch_hrr.lsm_generator")
    other = metadata["config"] | {"vocab_size": 6}
    forged = [
        ({**tensors, "learned.weights": tensors["learned.weights"][:, 1:]}, metadata),
        (tensors, metadata | {"config": other}),
        (tensors, metadata | {"config": None}),
        (tensors, metadata | {"columns": 3}),
        (tensors, metadata | {"machine": metadata["machine"] | {"units": 61}}),
        (tensors, metadata | {"left_to_fit": ["units"]}),
        (tensors, metadata | {"left_to_fit": metadata["left_to_fit"][::-1]}),
        (tensors, metadata | {"left_to_fit": None}),
        *((tensors, metadata | {"changed": one}) for one in (None, {}, {"units": 60}, {"units": 0}, {"n": 1})),
        *((tensors, metadata | {"changed": one}) for one in ({"device": "cpu"}, {"dtype": "float16"}, {"seed": 3})),
    ]
    for content in forged:
        files.save(tmp_path / "g", *content, format="torch_hrr.lsm_generator", version=1)
        with pytest.raises(IntegrityError):
            LSMGenerator.load(tmp_path / "g")


regress, classify, write = (
    partial(LSMRegressor, units=5), partial(LSMClassifier, units=5), partial(LSMGenerator, CONFIG, units=5)
)  # fmt: skip
SERIES = np.zeros((2, 9, 1))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: regress().fit([[1.0], [1.0, 2.0]], [1.0]), ValueError, "fit: x must be an array or lists"),
        (lambda: regress().fit({}, [1.0]), TypeError, "fit: x must be an array of real numbers, got"),
        (lambda: regress().fit([1j], [1.0]), TypeError, "fit: x must hold real numbers, got torch.complex"),
        (lambda: regress().fit([1.0], None), ValueError, "fit: y must be given"),
        (lambda: regress().fit([1, 2], [1, 10**400]), ValueError, "fit: y must be an array of real"),
        (lambda: regress().fit(np.zeros(9), np.zeros(8)), ValueError, "fit: x and y must have the same"),
        (lambda: regress(input_dim=2).fit(np.zeros(9), 0), ValueError, f"fit: x {SHAPE.format(2)}9\\]"),
        (lambda: regress(input_dim=9).fit(np.ones(9), 0), ValueError, f"fit: x {SHAPE.format(9)}9\\]"),
        (lambda: regress(input_dim=2).fit(torch.tensor(1.0), 0), ValueError, f"fit: x {SHAPE.format(2)}\\]"),
        (
            lambda: regress(CONFIG, input_dim=3).fit(TOKENS, TOKENS),
            ValueError,
            "LSMRegressor: input_dim must be embedding_dim, 8, got 3",
        ),
        (
            lambda: regress().fit(np.eye(9), np.zeros(9)).score(np.eye(9), np.eye(9)),
            ValueError,
            r"score: y must have shape \[9\], got \[9, 9\]",
        ),
        (lambda: classify().fit(np.zeros(9), np.zeros(9)), ValueError, r"fit: x must have shape \[B, T"),
        (
            lambda: classify(input_dim=2).fit(np.zeros((4, 9)), np.zeros(4)),
            ValueError,
            r"fit: x must have shape \[B, T, 2\], got \[4, 9\]",
        ),
        (lambda: classify().fit(SERIES, [0.5, 1]), ValueError, "fit: y must be labels, got numbers that are not whole"),
        *(
            (lambda y=y: classify().fit(SERIES, y), TypeError, "fit: y must be labels of one type, got str among")
            for y in ([1, "a"], np.array([1, "a"], dtype=object))
        ),
        (lambda: classify().fit(SERIES, np.array([b"a", b"b"])), TypeError, r"fit: y must be labels \(integers or str"),
        (lambda: classify().fit(SERIES, np.zeros(3, int)), ValueError, r"fit: y must have shape \[2\], got \[3\]"),
        *(
            (lambda y=y: classify().fit(SERIES, y), ValueError, f"fit: y {LARGE}{y[0]}")
            for y in ([2**70, 1], [-(2**63) - 1, 1], [2**63, -1], np.array([2**70, 1]))
        ),
        (lambda: LSMGenerator(CONFIG, units=0).fit(TOKENS), ValueError, "LSMGenerator: units must be at least 1"),
        (lambda: regress(CONFIG).fit(TOKENS + 5, TOKENS), IndexError, "fit: x must be from 0 to 4, the last row"),
        (lambda: write().fit(TOKENS + 5), IndexError, "fit: tokens must be 0 to 4, got 5"),
        (lambda: write().fit(TOKENS - 1), IndexError, "fit: tokens must be 0 to 4, got -1"),
        (lambda: write().fit(TOKENS.float()), TypeError, "fit: tokens must be integers"),
        (lambda: write().fit([1, -(2**70)]), ValueError, f"fit: tokens {LARGE}{-(2**70)}"),
        (lambda: write().fit(TOKENS, 2), ValueError, "fit: warmup must be below the number of"),
        (lambda: write().fit(TOKENS[:9]), ValueError, "fit: tokens must be at least two for each of 64 streams, got 9"),
        (lambda: write().fit(TOKENS[None, :1]), ValueError, r"fit: tokens must be at least two, got shape \[1, 1\]"),
        *(
            (lambda make=make: make(device="meta").fit(SERIES, [0, 1]), ValueError, "fit: the machine must hold data")
            for make in (regress, classify)
        ),
        (lambda: write(device="meta").fit(TOKENS), ValueError, "fit: the machine must hold data, got a meta tensor"),
    ],
)
def test_bad_calls(call, error, text):
    with pytest.raises(error, match=f"^{text}"):
        call()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("predict", lambda: regress().predict(np.zeros(5))),
        ("final_state", lambda: regress().final_state),
        ("predict", lambda: classify().predict(0)),
        ("predict_proba", lambda: classify().predict_proba(0)),
        ("generate", lambda: write().generate(0)),
        ("predict_proba", lambda: write().predict_proba(TOKENS[:0])),
    ],
)
def test_calls_before_fit(name, call):
    with pytest.raises(RuntimeError, match=rf"^{name}: the (regressor|read-out) must .*: call fit first$"):
        call()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda g: g.predict_proba(TOKENS, torch.zeros(2, 60)),
            ValueError,
            r"predict_proba: state must have shape \[1, 60\], got \[2, 60\]",
        ),
        (lambda g: g.bits(TOKENS[:1]), ValueError, r"bits: tokens must be at least two, got shape \[1, 1\]"),
        (lambda g: g.generate(1, prompt=TOKENS + 5), IndexError, "generate: prompt must be 0 to 4, got 5"),
        (lambda g: g.generate(1, prompt=TOKENS.float()), TypeError, "generate: prompt must be integers"),
        (lambda g: g.generate(1, prompt=TOKENS[None]), ValueError, r"generate: prompt must have shape \[T\], got"),
        (lambda g: g.generate(1, prompt=TOKENS[None, None]), ValueError, r"generate: prompt must have shape \[T\]"),
    ],
)
def test_bad_calls_after_fit(generator, call, error, text):
    with pytest.raises(error, match=f"^{text}"):
        call(generator)
