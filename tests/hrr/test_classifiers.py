"""Classifiers of codes: against plain restatements, scikit-learn's own checks, digits, and what they refuse."""

import copy
import warnings

import numpy as np
import pytest
import torch

from torch_hrr import IntegrityError, hrr
from torch_hrr.hrr import classifiers
from torch_hrr.hrr.functional import normalize
from torch_hrr.io import files

DRAWN = torch.Generator().manual_seed(0)
X = torch.randn(90, 24, generator=DRAWN)
Y = torch.arange(90) % 3
X[:, :3] += 1.7 * torch.nn.functional.one_hot(Y, 3)
UPDATES = ("one-pass", "adaptive", "onlinehd")
KINDS = [*(lambda update=update, **own: hrr.CentroidClassifier(update=update, **own) for update in UPDATES)]
KINDS += [hrr.RidgeClassifier]


def restated(x, y, update, epochs, lr, size, orders):
    """The prototypes, as loops over rows: float64 of NumPy."""
    count, c = int(y.max()) + 1, np.zeros((int(y.max()) + 1, x.shape[1]))
    cosine = lambda a, b: a @ b / (np.linalg.norm(a) * np.linalg.norm(b) or 1)  # noqa: E731
    if update != "onlinehd":
        for row, kind in zip(x, y, strict=True):
            c[kind] += row
    seen, online = set(range(count)) if update != "onlinehd" else set(), update == "onlinehd"
    for order in orders[: {"one-pass": 0, "adaptive": epochs, "onlinehd": epochs + 1}[update]]:
        wrong = 0
        for start in range(0, len(order), size):
            before, known = c.copy(), sorted(seen)
            for row, kind in ((x[i], y[i]) for i in order[start : start + size]):
                near = max(known, key=lambda k: cosine(row, before[k]), default=None)
                if near != kind or kind not in known:
                    wrong += 1
                    c[kind] += lr * (1 - online * cosine(row, before[kind])) * row
                    if near is not None:
                        c[near] -= lr * (1 - online * cosine(row, before[near])) * row
                seen.add(kind)
        if not wrong:
            break
    return c


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize(("lr", "size", "epochs"), [(1.0, 32, 20), (0.3, 7, 3), (0.5, 1, 0)])
def test_prototypes_are_those_of_a_plain_restatement(update, lr, size, epochs):
    options = {"update": update, "lr": lr, "batch_size": size, "epochs": epochs, "seed": 5}
    draws = torch.Generator().manual_seed(5)
    orders = [torch.randperm(90, generator=draws).tolist() for _ in range(1 + epochs)]
    found = hrr.CentroidClassifier(**options).fit(X.double(), Y)
    expected = restated(X.double().numpy(), Y.numpy(), update, epochs, lr, size, orders)
    np.testing.assert_allclose(found.prototypes, expected, atol=1e-10)
    cosines = normalize(X.double()) @ normalize(torch.from_numpy(expected)).mT
    torch.testing.assert_close(found.decision_function(X.double()), cosines)
    assert torch.equal(found.predict(X.double()), cosines.argmax(-1))
    if epochs == 20 and update != "one-pass":
        # The passes matter.
        fewer = hrr.CentroidClassifier(**{**options, "epochs": 1}).fit(X.double(), Y)
        assert not torch.allclose(fewer.prototypes, found.prototypes) and found.score(X, Y) > fewer.score(X, Y)


def test_online_learning_begins_with_the_first_class_too():
    """torchhd's begins with prototypes of 0, to which the first class is nearest: no row of it is ever an error."""
    for order in (torch.arange(90), Y.argsort(stable=True)):
        for y in (Y, 2 - Y):
            fitted = hrr.CentroidClassifier(update="onlinehd", epochs=0, batch_size=90).fit(X[order], y[order])
            sums = torch.stack([X[y == kind].sum(0) for kind in range(3)])
            torch.testing.assert_close(fitted.prototypes, sums, atol=1e-4, rtol=0)


def test_a_pass_without_an_error_is_the_last():
    seen = []
    easy = torch.eye(3).repeat(4, 1)
    fit = hrr.CentroidClassifier(update="adaptive", epochs=50, batch_size=12).fit
    fit(easy, torch.arange(12) % 3, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(12, 612), (24, 612), (612, 612)]


@pytest.mark.parametrize("rows", [60, 12])
@pytest.mark.parametrize("ridge", [0.0, 0.5, 100.0])
def test_a_ridge_read_out_is_least_squares(rows, ridge):
    """The smallest where there are several."""
    x, y = X[:rows].double(), Y[:rows]
    fitted = hrr.RidgeClassifier(ridge=ridge).fit(x, y)
    targets = 2.0 * np.eye(3)[y] - 1
    a = np.concatenate([x - x.mean(0), ridge**0.5 * np.eye(24)])
    b = np.concatenate([targets - targets.mean(0), np.zeros((24, 3))])
    weights = np.linalg.lstsq(a, b, rcond=1e-10)[0]
    np.testing.assert_allclose(fitted.weights, weights.T, atol=1e-10)
    scores = (X.double() - x.mean(0)).numpy() @ weights + targets.mean(0)
    np.testing.assert_allclose(fitted.decision_function(X.double()), scores, atol=1e-10)
    # Of float32 as well.
    close = hrr.RidgeClassifier(ridge=ridge).fit(x.float(), y)
    np.testing.assert_allclose(close.weights, weights.T, atol=1e-5)


def digits():
    data = pytest.importorskip("sklearn.datasets").load_digits()
    order = np.random.RandomState(0).permutation(len(data.target))
    return data.data[order].astype(np.float32), data.target[order]


@pytest.mark.parametrize(
    ("encoder", "least"),
    [
        (lambda: hrr.LevelEncoder(17, 1024, 0, 16, features=64, seed=0), (0.87, 0.92, 0.92, 0.92)),
        (lambda: hrr.ProjectionEncoder(64, 1024, seed=0), (0.88, 0.92, 0.92, 0.92)),
        (lambda: hrr.SinusoidEncoder(64, 1024, 0.03, seed=0), (0.89, 0.94, 0.94, 0.97)),
        (lambda: hrr.FractionalPowerEncoder(64, 1024, "gaussian", 0.03, seed=0), (0.89, 0.94, 0.94, 0.97)),
    ],
    ids=("level", "projection", "sinusoid", "power"),
)
def test_digits(encoder, least):
    """Half of them from the other half; chance is .1, and the nearest raw centroid .89."""
    x, y = digits()
    found = [make(encoder=encoder()).fit(x[:898], y[:898]).score(x[898:], y[898:]) for make in KINDS]
    assert all(score > bound for score, bound in zip(found, least, strict=True)), found
    # Errors are learned from.
    assert found[1] > found[0] + 0.02 and found[2] > found[0] + 0.02


def test_codes_are_those_of_the_encoder(monkeypatch):
    """In parts, in its dtype for arrays, and of any function."""
    monkeypatch.setattr(classifiers, "_CHUNK", 64)
    x, encoder = torch.rand(200, 4, generator=DRAWN), hrr.LevelEncoder(9, 64, features=4, seed=1)
    y = (x.sum(-1) > 2).long() + 3
    for make in KINDS:
        fitted = make(encoder=encoder).fit(x, y)
        plain = make().fit(encoder(x), y)
        torch.testing.assert_close(fitted.decision_function(x), plain.decision_function(encoder(x)))
        function = make(encoder=lambda rows: encoder(rows).bfloat16()).fit(x, y)
        assert function.score(x, y) > 0.8
        of_arrays = make(encoder=encoder).fit(x.double().numpy(), y.numpy())
        np.testing.assert_allclose(of_arrays.decision_function(x.numpy()), fitted.decision_function(x), atol=1e-5)
        assert of_arrays.predict(x.numpy()).dtype == np.int64 and fitted.predict(x).dtype == torch.int64
        half = make(encoder=encoder).fit(x.bfloat16(), y)
        assert half.decision_function(x).dtype in (torch.float32, torch.float64)
        with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
            again = make(encoder=encoder).fit(x, y)
        assert torch.equal(again.decision_function(x), fitted.decision_function(x))
        assert fitted.decision_function(x[:0]).shape == (0,) and fitted.predict(x[:0]).shape == (0,)


@pytest.mark.parametrize("make", KINDS, ids=(*UPDATES, "ridge"))
def test_torchs_default_device_does_not_show(make):
    expected = make().fit(X, Y).decision_function(X)
    torch.set_default_device("meta")
    try:
        assert torch.equal(make().fit(X, Y).decision_function(X), expected)
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("make", KINDS, ids=(*UPDATES, "ridge"))
def test_labels_and_scores(make):
    names = np.array(["c", "a", "b"])[Y]
    fitted = make().fit(X.numpy(), names)
    assert fitted.classes_.tolist() == ["a", "b", "c"] and fitted.n_features_in_ == 24
    assert fitted.score(X, names) == (fitted.predict(X.numpy()) == names).mean() > 0.8
    right, weights = fitted.predict(X.numpy()) == names, np.arange(len(X))
    assert fitted.score(X, names, weights) == pytest.approx(np.average(right, weights=weights))
    assert fitted.score(X, names, right.astype(float)) == 1
    for wrong, text in ((weights[1:], r"have shape \[90\], got \[89\]"), (-weights, "be finite numbers >= 0, one")):
        with pytest.raises(ValueError, match=f"^score: sample_weight must {text}"):
            fitted.score(X, names, wrong)
    for wrong in (0 * weights, np.full(90, np.inf)):
        with pytest.raises(ValueError, match=r"^score: sample_weight must be finite"):
            fitted.score(X, names, wrong)
    two = make().fit(X, Y == 1)
    assert two.predict(X).dtype == torch.bool and torch.equal(two.decision_function(X) > 0, two.predict(X))
    assert torch.equal(make().fit(X, Y.new_full((90,), 7)).predict(X), Y.new_full((90,), 7))
    # Of a row of zeros all cosines are 0.
    assert make().fit(torch.cat([X, torch.zeros(1, 24)]), [*Y, 0]).decision_function(0 * X).isfinite().all()


def checks():
    estimators = pytest.importorskip("sklearn.utils.estimator_checks")
    with warnings.catch_warnings():
        # That they do not inherit from BaseEstimator: importing it would take a second.
        warnings.simplefilter("ignore", UserWarning)
        for make in KINDS:
            yield from estimators.estimator_checks_generator(make())


def check_id(value):
    return getattr(getattr(value, "func", None), "__name__", None) or getattr(value, "update", "ridge")


@pytest.mark.filterwarnings("ignore::UserWarning:sklearn")
@pytest.mark.parametrize(("estimator", "check"), list(checks()), ids=check_id)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_it_is_cloned_searched_and_a_step_of_a_pipeline():
    base = pytest.importorskip("sklearn.base")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    levels = [hrr.LevelEncoder(count, 256, features=24, seed=0) for count in (2, 30)]
    fitted = hrr.CentroidClassifier(levels[1], "adaptive").fit(X.numpy(), Y)
    copied = base.clone(fitted)
    assert torch.equal(copied.get_params().pop("encoder").weight, levels[1].weight) and base.is_classifier(copied)
    with pytest.raises(RuntimeError, match="call fit first"):
        copied.predict(X)
    pipe = make_pipeline(MinMaxScaler(), hrr.CentroidClassifier(levels[0]))
    search = GridSearchCV(pipe, {"centroidclassifier__update": ["one-pass", "onlinehd"]}, cv=3).fit(X.numpy(), Y)
    assert search.best_score_ > 0.6
    search = GridSearchCV(make_pipeline(MinMaxScaler(), fitted), {"centroidclassifier__encoder": levels}, cv=3)
    assert search.fit(X.numpy(), Y).best_score_ > 0.6


@pytest.mark.parametrize("make", KINDS, ids=(*UPDATES, "ridge"))
def test_settings_of_the_next_fit_are_saved_beside_the_last_one(make, tmp_path):
    fitted = make(encoder=hrr.SinusoidEncoder(24, 32, 0.2, seed=1)).fit(X, Y)
    expected = fitted.decision_function(X)
    changes = {"ridge": 2.0} if isinstance(fitted, hrr.RidgeClassifier) else {"epochs": 3, "seed": 2**63}
    fitted.set_params(**changes).save(tmp_path / "it")
    loaded = type(fitted).load(tmp_path / "it")
    assert torch.equal(loaded.decision_function(X), expected) and loaded.get_params().items() >= changes.items()
    assert torch.equal(loaded.fit(X, Y).decision_function(X), fitted.fit(X, Y).decision_function(X))
    assert loaded.fit(X, Y.numpy().astype("uint8")).classes_.dtype == fitted.classes_.dtype == np.int64
    tensors, metadata = fitted._content()
    for wrong in ({"inputs": "no"}, {"labels": [0]}, {"labels": [0, 1, 1]}, {"encoder": None}):
        files.save(tmp_path / "it", tensors, metadata | wrong, format=fitted.file_format, version=1)
        with pytest.raises(IntegrityError, match=f"must describe a {type(fitted).__name__}, got "):
            type(fitted).load(tmp_path / "it")
    for other in (torch.nn.Linear(24, 3), len):
        with pytest.raises(TypeError, match=r"^save: encoder must be one of torch_hrr\.hrr, or None, got "):
            make(encoder=other).save(tmp_path / "it")


@pytest.mark.parametrize(
    ("options", "x", "y", "error", "text"),
    [
        ({"update": "twice"}, X, Y, ValueError, "CentroidClassifier: update must be 'one-pass', 'adaptive' or"),
        ({"epochs": -1}, X, Y, ValueError, "CentroidClassifier: epochs must be at least 0, got -1"),
        ({"lr": 0}, X, Y, ValueError, "CentroidClassifier: lr must be a finite number > 0, got 0"),
        ({"batch_size": 2.0}, X, Y, TypeError, "CentroidClassifier: batch_size must be an int, got float"),
        ({"seed": None}, X, Y, TypeError, "CentroidClassifier: seed must be an int, got NoneType"),
        ({"encoder": 3}, X, Y, TypeError, "CentroidClassifier: encoder must be a module or a function, or None"),
        ({"encoder": torch.sum}, X, Y, ValueError, r"fit: encoder must give vectors \[90, D\], got torch.float32 \[\]"),
        ({"encoder": len}, X, Y, ValueError, r"fit: encoder must give vectors \[90, D\], got int"),
        ({}, X[0], Y, ValueError, r"fit: X must have shape \[N, n\], got \[24\]: Reshape your data"),
        ({}, X[:0], Y[:0], ValueError, "fit: X must have at least one row, got none"),
        ({}, X / 0, Y, ValueError, "fit: X must be finite in torch.float32, got NaN or infinity"),
        ({}, X.to("meta"), Y, ValueError, "fit: X must hold data, got a meta tensor"),
        ({}, X, Y[:5], ValueError, r"fit: y must have shape \[90\], got \[5\]"),
        ({}, X, X[:, 0], TypeError, "fit: y must hold integers, got torch.float32"),
        ({}, X, None, ValueError, "fit: y must be given"),
        ({"encoder": torch.log}, -X.abs(), Y, ValueError, "fit: codes of the encoder must be finite in torch.float32"),
        ({}, X.clamp(1) * 3e37, Y, ValueError, "fit: prototypes must be finite in torch.float32, got NaN or infinity"),
    ],
    ids=range(17),
)  # fmt: skip
def test_errors(options, x, y, error, text):
    classifier = hrr.CentroidClassifier(**options)
    with pytest.raises(error, match=rf"^{text}"):
        classifier.fit(x, y)
    with pytest.raises(RuntimeError, match=r"^prototypes: the classifier must be fitted: call fit first$"):
        classifier.prototypes  # noqa: B018


def test_errors_after_a_fit():
    fitted = hrr.RidgeClassifier().fit(X, Y)
    with pytest.raises(ValueError, match=r"^predict: X must have shape \[N, 24\], got \[90, 3\]: X has 3 features"):
        fitted.predict(X[:, :3])
    with pytest.raises(ValueError, match="RidgeClassifier: ridge must be a finite number >= 0, got -1"):
        fitted.set_params(ridge=-1).fit(X, Y)
    with pytest.raises(ValueError, match=r"fit: sums of squares of the codes must be finite in torch.float64, got NaN"):
        fitted.set_params(ridge=1).fit(X.double() * 1e200, Y)
    assert fitted.score(X, Y) > 0.8
    with pytest.raises(RuntimeError, match="call fit first"):
        hrr.RidgeClassifier().weights  # noqa: B018


@pytest.mark.parametrize("make", KINDS)
def test_an_encoder_of_the_next_fit_changes_no_answers_of_the_last_one_and_is_not_saved_beside_it(make, tmp_path):
    fitted = make(encoder=hrr.SinusoidEncoder(24, 32, 0.2, seed=1)).fit(X, Y)
    expected, first = fitted.decision_function(X), fitted.encoder
    fitted.set_params(encoder=hrr.SinusoidEncoder(24, 16, 0.2, seed=2))
    for each in (fitted, copy.deepcopy(fitted)):
        assert torch.equal(each.decision_function(X), expected)
        with pytest.raises(ValueError, match=r"^save: encoder must be that of fit, got another one: call fit again$"):
            each.save(tmp_path / "it")
    copy.deepcopy(fitted.set_params(encoder=first)).save(tmp_path / "it")
    assert torch.equal(type(fitted).load(tmp_path / "it").decision_function(X), expected)
