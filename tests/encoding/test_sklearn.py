"""The estimators are scikit-learn's to scikit-learn: its own checks, its searches and its pipelines."""

import warnings

import numpy as np
import pytest
import torch

from torch_hrr import load
from torch_hrr.assembly import AssemblyClassifier
from torch_hrr.encoding import LSMClassifier, LSMGenerator, LSMRegressor, SinusoidalConfig, readout
from torch_hrr.hrr import CentroidClassifier, RidgeClassifier

pytest.importorskip("sklearn", "1.8")

from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, estimator_checks_generator
from sklearn.utils.validation import check_is_fitted

T = np.arange(600)
SERIES = np.stack([np.sin(0.2 * T) * np.cos(0.031 * T), np.sin(0.05 * T)], 1)
NEXT = SERIES[1:, 0]
ROWS = np.sin(np.arange(30) * np.linspace(0.2, 0.5, 60)[:, None])
SLOW = np.where(np.arange(60) < 30, "slow", "fast")
CONFIG = SinusoidalConfig(vocab_size=3, embedding_dim=4, padding_id=None)


@pytest.fixture(autouse=True)
def short_fits(monkeypatch):
    monkeypatch.setattr(readout, "_STEPS", 80)


def checks():
    with warnings.catch_warnings():
        # That they do not inherit from BaseEstimator: importing it would take a second.
        warnings.simplefilter("ignore", UserWarning)
        for estimator in (LSMRegressor(units=60), LSMClassifier(units=20)):
            expected = estimator.expected_failed_checks
            # What passes after all must leave the table.
            own = {"mark": "xfail", "xfail_strict": True}  # reason: the table of a class gives one for each check
            yield from estimator_checks_generator(estimator, expected_failed_checks=expected, **own)


def named(value):
    return getattr(getattr(value, "func", None), "__name__", None) or type(value).__name__


@pytest.mark.filterwarnings("ignore::UserWarning:sklearn")
@pytest.mark.parametrize(("estimator", "check"), list(checks()), ids=named)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_leak_and_ridge_are_searched_for():
    """On in time from where training ended, whose score is another than from rest."""

    def on(regressor, x, y):
        return regressor.score(x, y, regressor.final_state)

    grid = {"leak": [0.01, 0.9], "ridge": [1e-6, 1e6]}
    search = GridSearchCV(LSMRegressor(units=60), grid, cv=TimeSeriesSplit(3), scoring=on)
    search.fit(SERIES[:-1], NEXT, warmup=20)
    assert search.best_params_ == {"leak": 0.9, "ridge": 1e-6} and search.best_score_ > 0.99
    assert search.best_estimator_.machine.leak == 0.9
    rest = cross_val_score(search.best_estimator_, SERIES[:-1], NEXT, cv=TimeSeriesSplit(3))
    assert 0.5 < rest.mean() < search.best_score_
    drawn = RandomizedSearchCV(LSMRegressor(units=20), grid, n_iter=2, random_state=0, cv=TimeSeriesSplit(2))
    assert drawn.fit(SERIES[:-1], NEXT).predict(SERIES).shape == (600,)
    labels = GridSearchCV(LSMClassifier(units=20), {"leak": [0.3, 0.9]}, cv=3).fit(ROWS, SLOW)
    assert labels.best_score_ > 0.8 and set(labels.predict(ROWS)) == {"slow", "fast"}
    tokens = np.arange(90).reshape(6, 15) % 3
    writer = GridSearchCV(LSMGenerator(CONFIG, units=9), {"spectral_radius": [0.1, 0.5]}, cv=2).fit(tokens)
    assert writer.best_score_ > -1 and writer.best_estimator_.generate(4).shape == (4,)


def test_it_is_a_step_of_a_pipeline():
    pipe = make_pipeline(StandardScaler(), LSMRegressor(units=60, leak=0.9))
    pipe.set_params(lsmregressor__ridge=1e-3).fit(1e3 * SERIES[:-1], NEXT, lsmregressor__warmup=20)
    on = pipe.predict(1e3 * SERIES[:-1])
    assert pipe[-1].machine.ridge == 1e-3 and np.abs(on - NEXT)[50:].max() < 0.05
    assert "LSMRegressor" in repr(pipe) and "LSMRegressor" in pipe._repr_html_()
    bagged = BaggingRegressor(LSMRegressor(units=9), 3, bootstrap=False, random_state=0).fit(SERIES, SERIES[:, 0])
    assert len({each.machine.seed for each in bagged.estimators_}) == 3


@pytest.mark.parametrize("kind", [LSMRegressor, LSMClassifier, LSMGenerator])
def test_a_clone_has_the_settings_and_nothing_else(kind):
    config = CONFIG if kind is LSMGenerator else None
    estimator = kind(config, units=9, leak=0.5, random_state=np.random.RandomState(0))
    estimator.fit(np.arange(90).reshape(6, 15) % 3 if config else ROWS[:6], [0, 1] * 3 if config is None else 0)
    check_is_fitted(estimator)
    copied = clone(estimator)
    assert {**copied.get_params(), "random_state": 0} == {**estimator.get_params(), "random_state": 0}
    for error in (NotFittedError, RuntimeError):
        with pytest.raises(error, match="call fit first"):
            copied.predict_proba(ROWS) if kind is LSMClassifier else copied.score(ROWS, ROWS)
    with pytest.raises(NotFittedError):
        check_is_fitted(copied)
    assert (is_regressor(copied), is_classifier(copied)) == (kind is LSMRegressor, kind is LSMClassifier)


def test_scores_are_scikit_learns():
    regressor = LSMRegressor(units=9).fit(SERIES, SERIES)
    truth = np.stack([SERIES[:, 1], np.full(600, 3.0)], 1)
    for given, kind in ((SERIES, np.asarray), (torch.from_numpy(SERIES), torch.from_numpy)):
        assert regressor.score(given, kind(truth)) == pytest.approx(r2_score(truth, regressor.predict(SERIES)))
        weights = np.linspace(0, 3, len(truth))
        wanted = r2_score(truth, regressor.predict(SERIES), sample_weight=weights)
        assert regressor.score(given, kind(truth), sample_weight=kind(weights)) == pytest.approx(wanted)
        halves = ([given[:300], given[300:]], [kind(truth[:300]), kind(truth[300:])])
        wanted = r2_score(truth, np.concatenate(regressor.predict(halves[0])), sample_weight=weights)
        cut = [weights[:300], weights[300:]]
        assert regressor.score(*halves, sample_weight=cut) == pytest.approx(wanted)
        with pytest.raises(ValueError, match=r"^score: sample_weight must be a list of 2, as x, got ndarray$"):
            regressor.score(*halves, sample_weight=weights)
    classifier = LSMClassifier(units=9).fit(ROWS, SLOW)
    assert classifier.score(ROWS[:40], SLOW[20:]) == accuracy_score(SLOW[20:], classifier.predict(ROWS[:40]))
    weights = np.linspace(0, 3, 40)
    wanted = accuracy_score(SLOW[20:], classifier.predict(ROWS[:40]), sample_weight=weights)
    assert classifier.score(ROWS[:40], SLOW[20:], weights) == pytest.approx(wanted)


def test_a_linear_model_on_states_agrees():
    """The read-out is scikit-learn's ridge regression."""
    regressor = LSMRegressor(units=30, ridge=0.1).fit(SERIES, SERIES)
    low, high = SERIES.min(0), SERIES.max(0)
    states = regressor.machine.run((2 * SERIES - low - high) / (high - low)).numpy()
    np.testing.assert_allclose(regressor.predict(SERIES), Ridge(0.1).fit(states, SERIES).predict(states), atol=1e-8)


class Frame:
    """A data frame as far as an estimator sees one."""

    def __init__(self, table, columns):
        self.table, self.columns = np.asarray(table), columns

    def __array__(self, dtype=None, copy=None):
        return self.table


NOISE = np.random.default_rng(0).normal(size=(40, 3))
PARITY = np.arange(40) % 2


@pytest.mark.parametrize(
    ("estimator", "x"),
    [
        (LSMRegressor(units=9), NOISE),
        (LSMClassifier(units=9), NOISE),
        (AssemblyClassifier(n=50, k=5), (NOISE > -9).astype(float)),
        (CentroidClassifier(), NOISE),
        (RidgeClassifier(), NOISE),
    ],
    ids=named,
)
def test_columns_of_data_frames_keep_their_order(estimator, x, tmp_path):
    """Those of another order would be taken for one another."""
    estimator = clone(estimator)
    estimator.fit(Frame(x, ["a", "b", "c"]), PARITY)
    assert estimator.feature_names_in_.tolist() == ["a", "b", "c"] and estimator.feature_names_in_.dtype == object
    expected = estimator.predict(x)
    estimator.save(tmp_path / "fitted")
    for each in (estimator, load(tmp_path / "fitted")):
        assert np.array_equal(each.predict(Frame(x, ["a", "b", "c"])), expected)
        for columns, place, wanted, got in (
            (["a", "c", "b"], 1, "'b'", "'c'"),
            (["a", "b"], 2, "'c'", "none"),
            (["a", "b", "c", "d"], 3, "none", "'d'"),
        ):
            told = f"must have the columns of fit, at index {place} {wanted}, got {got}: The feature names should match"
            with pytest.raises(ValueError, match=rf"^predict: [xX] {told}"):
                each.predict(Frame(np.resize(x, (40, len(columns))), columns))
            with pytest.raises(ValueError, match=rf"^score: [xX] {told}"):
                each.score(Frame(np.resize(x, (40, len(columns))), columns), PARITY)
    estimator.fit(Frame(x, [0, 1, 2]), PARITY)  # numbers are no names
    assert not hasattr(estimator, "feature_names_in_")
    assert np.array_equal(estimator.predict(Frame(x, ["c", "b", "a"])), expected)


def test_columns_of_series_in_a_list_and_in_parts():
    frame, swapped = Frame(NOISE, ["a", "b", "c"]), Frame(NOISE, ["a", "c", "b"])
    frame.ndim = swapped.ndim = 2
    told = "x must have the columns of fit, at index 1 'b', got 'c'"
    with pytest.raises(ValueError, match=f"^fit: {told}"):
        LSMRegressor(units=9).fit([frame, swapped], [PARITY, PARITY])
    for estimator, y in ((LSMRegressor(units=9), [PARITY, PARITY]), (LSMClassifier(units=9), [0, 1])):
        with pytest.raises(ValueError, match=f"^fit: {told}"):
            estimator.fit([NOISE, frame, swapped], [*y, y[0]])
        estimator.fit([NOISE, frame], y)
        assert estimator.feature_names_in_.tolist() == ["a", "b", "c"]
        for first in (NOISE, frame):
            with pytest.raises(ValueError, match=f"^predict: {told}"):
                estimator.predict([first, swapped])
    for estimator in (LSMRegressor(units=9), LSMClassifier(units=9)):
        estimator.partial_fit(frame, PARITY)
        with pytest.raises(ValueError, match=f"^partial_fit: {told}"):
            estimator.partial_fit(swapped, PARITY)
        assert estimator.feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "estimator",
    [LSMRegressor(units=9), LSMClassifier(units=9), CentroidClassifier(), RidgeClassifier()],
    ids=named,
)
def test_other_columns_are_told_as_scikit_learn_does(estimator):
    pytest.importorskip("pandas")
    check_dataframe_column_names_consistency(type(estimator).__name__, estimator)


def test_other_columns_are_told_in_words_that_end():
    """Without pandas too; five names of those that differ, and no more of a long one than is read."""
    names = [f"c{place:02}" for place in range(12)]
    fitted = RidgeClassifier().fit(Frame(np.resize(NOISE, (40, 12)), names), PARITY)
    first = "The feature names should match those that were passed during fit.\n"
    for columns, told in (
        (names[::-1], "Feature names must be in the same order as they were in fit.\n"),
        ([*names[1:], "c11"], "Feature names seen at fit time, yet now missing:\n- c00\n"),
        (
            ["x" * 999, *names[1:]],
            f"Feature names unseen at fit time:\n- {'x' * 80}\nFeature names seen at fit time, yet",
        ),
        (
            [f"{name}!" for name in names],
            "Feature names unseen at fit time:\n- c00!\n- c01!\n- c02!\n- c03!\n- c04!\n- ...\n",
        ),
    ):
        with pytest.raises(ValueError) as caught:
            fitted.predict(Frame(np.resize(NOISE, (40, 12)), columns))
        assert first + told in str(caught.value) and str(caught.value).endswith("\n")


@pytest.mark.parametrize("columns", [3, "abc", None, [0, "b", 2]])
def test_columns_that_are_no_names_are_none(columns):
    """As where they are the number of them."""
    fitted = RidgeClassifier().fit(Frame(NOISE, ["a", "b", "c"]), PARITY)
    assert np.array_equal(fitted.predict(Frame(NOISE, columns)), fitted.predict(NOISE))
    assert not hasattr(fitted.fit(Frame(NOISE, columns), PARITY), "feature_names_in_")


@pytest.mark.parametrize("kind", [LSMRegressor, LSMClassifier])
def test_tokens_have_neither_width_nor_names(kind, tmp_path):
    """Those of a fit before them would be in the file, which could not be read again."""
    tokens = np.arange(90).reshape(6, 15) % 3
    estimator = kind(units=9).fit(Frame(NOISE, ["a", "b", "c"]), PARITY).set_params(config=CONFIG)
    estimator.fit(tokens, tokens if kind is LSMRegressor else [0, 1] * 3)
    assert not hasattr(estimator, "feature_names_in_") and not hasattr(estimator, "n_features_in_")
    frame = Frame(tokens, [f"t{place}" for place in range(15)])
    estimator.save(tmp_path / "fitted")
    assert np.array_equal(load(tmp_path / "fitted").predict(frame), estimator.predict(frame))


@pytest.mark.parametrize("kind", [LSMRegressor, LSMClassifier])
@pytest.mark.parametrize("tokens", [False, True])
def test_another_config_counts_for_the_next_fit_alone(kind, tokens):
    """What is fitted still reads what it was fitted on, in parts and in lists too."""
    x = np.arange(90).reshape(6, 15) % 3 if tokens else NOISE[:, :, None]
    y = x.reshape(len(x), -1) if kind is LSMRegressor else PARITY[: len(x)]
    parts = [x[0], x[1, :2]]
    changed, same = (kind(CONFIG if tokens else None, units=9).partial_fit(x, y) for _ in range(2))
    changed.set_params(config=None if tokens else CONFIG)
    for estimator in (changed, same):
        estimator.partial_fit(x, y).partial_fit(parts, [y[0], y[1, :2]] if kind is LSMRegressor else y[:2])
    assert np.array_equal(changed.predict(x), same.predict(x))
    for one, other in zip(changed.predict(parts), same.predict(parts), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("names", [None, [], ["a", "b"], ["a", "b", 3], "abc"])
@pytest.mark.parametrize(
    "estimator",
    [LSMRegressor(units=9), LSMClassifier(units=9), AssemblyClassifier(n=50, k=5), RidgeClassifier()],
    ids=named,
)
def test_files_with_names_of_other_columns_are_refused(estimator, names):
    estimator = clone(estimator).fit((NOISE > -9).astype(float), PARITY)
    tensors, metadata = estimator._content()
    with pytest.raises(ValueError, match="names of other columns"):
        type(estimator)._from_content(tensors, {**metadata, "feature_names": names}, None)


def test_a_config_that_is_none_is_told_before_x():
    """`LSMClassifier(100)` means units."""
    for kind in (LSMRegressor, LSMClassifier):
        with pytest.raises(TypeError, match=f"^{kind.__name__}: config must be a SinusoidalConfig or None, got int$"):
            kind(100).fit(NOISE, PARITY)
