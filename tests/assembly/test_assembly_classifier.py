"""The classifier on drawn classes, its conventions, and what it refuses."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from torch_hrr import IntegrityError
from torch_hrr.assembly import AssemblyClassifier
from torch_hrr.io import files


def drawn(seed, share, count, cores=2, inputs=1000, size=100, background=0.1):
    """Classes in whose core of inputs each fires with probability `share`; the cores are those of the seed."""
    draws = torch.Generator().manual_seed(seed)
    chosen = [torch.randperm(inputs, generator=draws)[:size] for _ in range(cores)]
    draws = torch.Generator().manual_seed(seed + 1000 * count)
    x = torch.rand(cores * count, inputs, generator=draws) < background
    y = torch.arange(cores).repeat_interleave(count)
    for core, rows in zip(chosen, x.chunk(cores), strict=True):
        rows[:, core] = torch.rand(count, size, generator=draws) < share
    return x, y


@pytest.mark.parametrize(("share", "least"), [(0.5, 0.85), (0.7, 0.997)])
def test_well_separated_classes(share, least):
    scores = [
        AssemblyClassifier(seed=seed).fit(*drawn(seed, share, 5)).score(*drawn(seed, share, 40)) for seed in range(4)
    ]
    assert np.mean(scores) >= least


def test_rows_may_be_bits_numbers_or_indices():
    x, y = drawn(0, 0.7, 3, inputs=60, size=12)
    x[:, :12] = torch.arange(12) < 6
    fitted = AssemblyClassifier(n=200, k=20).fit(x, y)
    shares = fitted.decision_function(x)
    assert shares.shape == (6,) and shares.dtype == torch.float64 and fitted.n_features_in_ == 60
    for given in (x.float(), x.numpy(), x.double().numpy(), x.tolist()):
        again = AssemblyClassifier(n=200, k=20).fit(given, y.numpy())
        assert torch.equal(again.assemblies, fitted.assemblies)
    full = torch.stack([torch.randperm(60, generator=torch.Generator().manual_seed(row))[:9] for row in range(6)])
    bits = torch.zeros(6, 60, dtype=torch.bool).scatter_(1, full, True)
    of_bits, of_indices = (AssemblyClassifier(60, 200, 20, 0.2, 0.1, 2, 7).fit(given, y) for given in (bits, full))
    assert torch.equal(of_bits.assemblies, of_indices.assemblies)
    assert torch.equal(of_bits.decision_function(bits), of_indices.decision_function(full))


def test_many_rows_at_once_have_the_winners_of_rounds():
    x, y = drawn(1, 0.7, 20, inputs=80, size=20)
    seen, found = [], []
    for k in (15, 150):
        fitted = AssemblyClassifier(n=150, k=k).fit(x, y, progress=lambda *counts: seen.append(counts))
        found.append(fitted.decision_function(x))
        first, second = fitted.assemblies
        with fitted.brain.register_round_hook(lambda brain: seen.append(brain.winners("A"))):
            seen.clear()
            assert torch.equal(fitted.decision_function(x), found[-1]) and len(seen) == 40
            won = [[torch.isin(each, winners).double().mean() for each in (second, first)] for winners in seen]
            assert [more - less for more, less in won] == found[-1].tolist()
        assert torch.equal(torch.cat([fitted.decision_function(row) for row in x.split(1)]), found[-1])
        seen.clear()
    assert len(found[0].unique()) > 5 and found[1].any() == 0
    assert fitted.decision_function(x[:0]).shape == (0,)


def test_what_a_user_fixed_shows_in_one_row_and_in_many():
    x, y = drawn(1, 0.7, 20, inputs=80, size=20)
    fitted = AssemblyClassifier(n=150, k=15).fit(x, y)
    fitted.brain.activate("A", range(15))
    fitted.brain.fix_assembly("A")
    found = fitted.decision_function(x)
    assert torch.equal(found, torch.cat([fitted.decision_function(row) for row in x.split(1)]))
    assert len(found.unique(dim=0)) == 1


def test_the_assemblies_are_the_most_frequent_winners():
    x, y = drawn(1, 0.7, 4, inputs=80, size=20)
    fitted = AssemblyClassifier(n=150, k=15).fit(x, y)
    assert not fitted.brain.plastic
    for kind in range(2):
        wins = torch.zeros(150, dtype=torch.int64)
        for row in x[y == kind]:
            fitted.brain.activate("input", row.nonzero().flatten())
            fitted.brain.project("input", "A")
            wins[fitted.brain.winners("A")] += 1
        order = sorted(range(150), key=lambda neuron: (-int(wins[neuron]), neuron))[:15]
        assert fitted.assemblies[kind].tolist() == sorted(order)


def test_conventions_of_scikit_learn():
    x, y = drawn(2, 0.8, 4, inputs=60, size=20)
    names = np.array(["no", "yes"])[y]
    fitted = AssemblyClassifier(n=200, k=20).fit(x.numpy(), names)
    assert fitted.classes_.tolist() == ["no", "yes"] and set(fitted.predict(x.numpy())) == {"no", "yes"}
    assert AssemblyClassifier(n=200, k=20).fit(x, y + 5).predict(x).dtype == torch.int64
    for truth in (
        y == 1,
        (y == 1).numpy(),
        (y == 1).tolist(),
        [np.bool_(each) for each in y],
        (y == 1).numpy().astype(object),
    ):
        of_bools = AssemblyClassifier(n=200, k=20).fit(x, truth)
        assert of_bools.predict(x).dtype == torch.bool and of_bools.classes_.tolist() == [False, True]
        assert of_bools.predict(x.numpy()).dtype == bool and of_bools.score(x, truth) == fitted.score(x, names)
    base = pytest.importorskip("sklearn.base")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Binarizer

    assert base.clone(fitted).get_params() == fitted.get_params() and base.is_classifier(fitted)
    ranked = GridSearchCV(AssemblyClassifier(n=200, k=20), {"k": [20]}, cv=2, scoring="roc_auc").fit(x.numpy(), y)
    assert ranked.best_score_ == 1
    search = GridSearchCV(AssemblyClassifier(n=200, k=20), {"beta": [0.0, 0.1]}, cv=2).fit(x.numpy(), names)
    assert search.best_score_ == 1 and search.best_estimator_.beta in (0.0, 0.1)
    pipe = make_pipeline(Binarizer(threshold=0.5), AssemblyClassifier(n=200, k=20)).fit(0.4 + 0.3 * x.numpy(), names)
    assert (pipe.predict(0.4 + 0.3 * x.numpy()) == fitted.predict(x.numpy())).all()


def test_threads_share_one():
    x, y = drawn(3, 0.5, 10, inputs=60, size=20)
    fitted = AssemblyClassifier(n=200, k=20).fit(x, y)
    expected = fitted.decision_function(x)
    right = fitted.predict(x) == y
    assert fitted.score(x, y, right.double()) == 1 and fitted.score(x, y) == right.double().mean()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: fitted.decision_function(x), range(12)))
    assert all(torch.equal(each, expected) for each in found)


def test_settings_of_the_next_fit_are_saved_beside_the_last_one(tmp_path):
    x, y = drawn(2, 0.8, 4, inputs=60, size=20)
    fitted = AssemblyClassifier(n=np.int64(200), k=20, p=np.float32(0.1)).fit(x, y)
    fitted.set_params(k=30, p=0.2, seed=4).save(tmp_path / "it")
    loaded = AssemblyClassifier.load(tmp_path / "it")
    assert torch.equal(loaded.decision_function(x), fitted.decision_function(x)) and loaded.k == 30
    assert torch.equal(loaded.fit(x, y).assemblies, fitted.fit(x, y).assemblies)
    assert loaded.fit(x, y.numpy().astype("float32")).classes_.dtype == np.float64
    assert loaded.fit(x, y.numpy().astype("int32")).classes_.dtype == fitted.classes_.dtype == np.int64
    for changes in ({"k": 0}, {"classes": "two"}, {"inputs": 61}, {"inputs": 2**40}, {"labels": [0]}):
        tensors, metadata = fitted._content()
        files.save(tmp_path / "it", tensors, metadata | changes, format=fitted.file_format, version=1)
        with pytest.raises(IntegrityError, match="must describe a AssemblyClassifier, got "):
            AssemblyClassifier.load(tmp_path / "it")


GOOD = torch.eye(4)
LABELS = torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("options", "x", "y", "error", "text"),
    [
        ({}, GOOD * 2, LABELS, ValueError, "fit: X must be of 0 and 1, got others: sklearn.preprocessing.Binarizer"),
        ({}, GOOD - GOOD, LABELS, ValueError, "fit: X must have a 1 in every row, got none in row 0"),
        ({}, GOOD[0], LABELS, ValueError, r"fit: X must have shape \[N, n_in\] or \[N, m\], got \[4\]"),
        ({}, GOOD.int(), LABELS, TypeError, "fit: X must be bool, floating point or int64 indices, got torch.int32"),
        ({}, GOOD.long(), LABELS, ValueError, "fit: n_in must be given where X holds indices"),
        ({"n_in": 4}, GOOD.long(), LABELS, ValueError, r"fit: X must hold different indices in a row, .*\(0 and 1"),
        ({"n_in": 3}, GOOD, LABELS, ValueError, "fit: X must have 3 columns, got 4"),
        (
            {"n_in": 3},
            torch.tensor([[0], [5]]),
            LABELS[:2],
            IndexError,
            r"fit: X must hold indices in 0\.\.2, got 0 to 5",
        ),
        ({}, GOOD, LABELS[:3], ValueError, r"fit: y must have shape \[4\], got \[3\]"),
        ({}, GOOD, None, ValueError, "fit: y must be given"),
        ({"classes": 3}, GOOD, LABELS, ValueError, "fit: y must have 3 classes, got 2"),
        ({"k": 70}, GOOD, LABELS, ValueError, "AssemblyClassifier: k must be"),
        ({"p": 2}, GOOD, LABELS, ValueError, "AssemblyClassifier: p must be"),
        ({"seed": "a"}, GOOD, LABELS, TypeError, "AssemblyClassifier: seed must be an int"),
    ],
)
def test_wrong_arguments(options, x, y, error, text):
    made = AssemblyClassifier(**{"n": 50, "k": 5, **options})
    with pytest.raises(error, match=f"^{text}"):
        made.fit(x, y)
    with pytest.raises(RuntimeError, match=r"^predict: the classifier must be fitted: call fit first$"):
        made.predict(GOOD)
