"""Closed forms, published figures and real input: the experiments of bench/acceptance.py at reduced size."""

import collections
import functools
import importlib
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
acceptance = importlib.import_module("bench.acceptance")
figures = importlib.import_module("bench.hrr_acceptance")
real_input = importlib.import_module("bench.hrr_real_input")

EXPERIMENTS = {experiment.__name__: experiment for experiment in acceptance.EXPERIMENTS}
# What a cell says of the size of its experiment.
SIZES = r"D=\d+|solved of \d+"
ROW = figures.Row("digits", "cell", 0.5, 0.1, 0.4)


@functools.cache
def rows_of(name):
    """The rows of an experiment at reduced size, measured once."""
    if name == "digits":
        pytest.importorskip("sklearn")
    torch.set_num_threads(1)
    return EXPERIMENTS[name](figures.QUICK, 0)


def measured(name, part):
    (row,) = (row for row in rows_of(name) if part in row.cell)
    return row.measured


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_row_is_within_three_standard_errors(name):
    rows = rows_of(name)
    assert any(row.within for row in rows)
    assert [row for row in rows if row.within is False] == []
    assert len({(row.experiment, row.cell) for row in rows}) == len(rows)
    assert {row.experiment for row in rows} <= acceptance.REMARKS.keys()


def test_published_cells_are_those_of_the_paper():
    """Every published share is a whole number of hits in ten runs of k, as its standard error assumes."""
    for _, k, published in figures.BUNDLES + figures.PAIRS:
        hits = round(published * figures.PUBLISHED_TRIALS * k)
        assert abs(hits / (figures.PUBLISHED_TRIALS * k) - published) <= 0.0005
    rows = [row for row in rows_of("capacity") if row.comparable]
    assert [row.expected for row in rows] == [cell[2] for cell in figures.BUNDLES + figures.PAIRS]


def test_resonator_solves_every_problem():
    assert measured("resonator", "solved") == 1.0
    assert 1 <= measured("resonator", "iterations") <= 10


def test_order_survives_permutation_and_not_a_cyclic_shift():
    assert abs(measured("languages", "cba: random permutation")) < 0.05
    assert measured("languages", "cba: cyclic shift") > 1 - 1e-5


@pytest.mark.parametrize("method", ["exact counts", "random permutation"])
def test_longer_queries_are_recognised_better(method):
    accuracies = [measured("languages", f"{length}: {method}") for length in ("1 word", "5 words", "20 words")]
    assert 1.5 / 8 < accuracies[0] < accuracies[1] < accuracies[2]


def test_ridge_on_fractional_powers_beats_raw_centroids():
    centroid = measured("digits", "centroid")
    for step in ("X^(1 x)", "X^(0.5 x)"):
        (ridge,) = (row.measured for row in rows_of("digits") if step in row.cell and "ridge" in row.cell)
        assert ridge > centroid


def test_the_rule_tells_the_keys_apart():
    """The size of the samples suffices to see that Gaussian keys are not unitary ones, nor the other way round."""
    rows = rows_of("superposed_pairs")
    by_cell = {row.cell: row for row in rows}
    for k in (1, 2, 4, 8, 16):
        gaussian, unitary = (
            by_cell[f"{kind} keys, k={k}, D={figures.QUICK.pair_dim}"] for kind in ("Gaussian", "unitary")
        )
        assert replace(gaussian, expected=unitary.expected).within is False
        assert replace(unitary, expected=gaussian.expected).within is False


@pytest.mark.parametrize(
    ("row", "within"),
    [
        (ROW, True),
        (replace(ROW, error=0.03), False),
        (replace(ROW, error=0.03, expected_error=0.03), True),
        (replace(ROW, measured=0.1), True),
        (replace(ROW, measured=0.09), False),
        (replace(ROW, error=0.0), False),
        (replace(ROW, error=0.0, measured=0.4 + 5e-7), True),
        (replace(ROW, measured=math.nan), False),
        (replace(ROW, expected=None), None),
        (replace(ROW, measured=0.0, comparable=False), None),
    ],
)
def test_three_standard_errors(row, within):
    assert row.within is within
    words = {True: "yes", False: "NO"}
    assert acceptance.verdict(row) == words.get(within, "-" if row.expected is None else "other data")


def test_standard_errors():
    mean, error = figures.mean_and_error([1.0, 2.0, 3.0, 6.0])
    assert mean == 3 and error == pytest.approx(math.sqrt(14 / 3 / 4))
    assert figures.mean_and_error([2.0, 2.0], resolution=0.5) == (2.0, pytest.approx(0.5 / math.sqrt(2)))
    # 9 hits of 10 count as 10 of 12; a share of 1 has a standard error too.
    assert figures.share_error(0.9, 10) == pytest.approx(math.sqrt(5 / 6 * 1 / 6 / 10))
    assert figures.share_error(1.0, 8) == pytest.approx(math.sqrt(0.9 * 0.1 / 8))


def test_paired_error_is_no_less_than_unlike_answers_allow():
    ours, theirs = torch.tensor([1.0, 1.0, 0.0, 1.0]), torch.tensor([1.0, 0.0, 1.0, 1.0])
    a, b, error = real_input.compare([ours, ours], [theirs, theirs])
    assert (a, b) == (0.75, 0.75)
    assert error == pytest.approx(math.sqrt((4 + 1) / (8 + 2) / 4 / 2))
    _, _, error = real_input.compare([ours, ours], [torch.zeros(4), torch.ones(4)])
    assert error == pytest.approx(math.sqrt(0.5 / 2))


def test_word_lists():
    lists = real_input.read_words()
    assert len(lists) == 8
    for words in lists.values():
        assert len(words) == 813 and words == sorted(set(words))
        assert set("".join(words)) <= set(real_input.LETTERS) - {" "}
    readme = (real_input.WORDS.parent / "README.md").read_text(encoding="utf-8")
    for part in ("BSD 3-Clause", "MIT", "https://github.com/", *lists):
        assert part in readme


@pytest.mark.parametrize("ordered", [True, False])
def test_counts_are_those_of_the_words(ordered):
    words = ["banana", "at", "tat", "bananas", "ab"]
    counts, letters = real_input.count_trigrams(words, ordered)
    for word, row in zip(words, counts.tolist(), strict=True):
        text = f" {word} "
        windows = (text[i : i + 3] for i in range(len(text) - 2))
        expected = collections.Counter(window if ordered else "".join(sorted(window)) for window in windows)
        kinds = ["".join(real_input.LETTERS[letter] for letter in kind) for kind in letters.tolist()]
        assert {kind: count for kind, count in zip(kinds, row, strict=True) if count} == expected


def test_codes_stand_in_the_order_of_the_words():
    words = ["elephant", "a", "cat", "b", "dog"] * 60
    codes = real_input.encode_words(words, lambda letters: letters.double().pow(2).sum(-1, keepdim=True))
    expected = [sum(real_input.LETTERS.index(letter) ** 2 for letter in word) for word in words]
    assert codes.squeeze(-1).tolist() == expected


def test_document_holds_every_row_and_none_that_fails():
    text = acceptance.DOCUMENT.read_text(encoding="utf-8")
    assert "`python bench/acceptance.py`" in text
    sections = {part.split("\n")[0]: part for part in text.split("\n## ")[1:]}
    rows = [row for name in EXPERIMENTS for row in rows_of(name)]
    assert len(sections) == len(acceptance.REMARKS) == len({row.experiment for row in rows})
    for experiment, remark in acceptance.REMARKS.items():
        section = sections[experiment[0].upper() + experiment[1:]]
        assert remark in section
        table = re.findall(r"^\| (.+) \|$", section, re.MULTILINE)[1:]
        ours = [row for row in rows if row.experiment == experiment]
        assert len(table) == len(ours)
        for line, row in zip(table, ours, strict=True):
            cell, expected, value, error, verdict, _ = line.split(" | ")
            assert verdict == acceptance.verdict(row) != "NO"
            assert re.sub(SIZES, "", cell) == re.sub(SIZES, "", row.cell)
            assert float(error) >= 0 and -1 <= float(value) <= 100
            # Only what is drawn again differs between the sizes.
            if "drawn spectra" not in row.note:
                assert expected == ("-" if row.expected is None else f"{row.expected:.4f}")


def test_command_writes_what_it_prints(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(acceptance, "EXPERIMENTS", (lambda size, seed: [replace(ROW, error=0.1 * size.words / 813)],))
    monkeypatch.setattr(acceptance, "DOCUMENT", tmp_path / "table.md")
    assert acceptance.main([]) == 0
    assert acceptance.DOCUMENT.read_text() in capsys.readouterr().out
    assert "| cell | 0.4000 | 0.5000 | 0.1000 | yes |  |" in acceptance.DOCUMENT.read_text()
    acceptance.DOCUMENT.unlink()
    assert acceptance.main(["--quick", "--seed", "3"]) == 1
    assert "`python bench/acceptance.py --quick --seed 3`" in capsys.readouterr().out
    assert not acceptance.DOCUMENT.exists()
    assert torch.get_num_threads() == 1
