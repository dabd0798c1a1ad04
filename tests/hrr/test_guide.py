"""The guide's snippets run in order, and what it says of noise is so."""

import pytest
import torch
from guide import DOCS, run_snippets, words_of_code

GUIDE = DOCS / "hrr.md"


@pytest.fixture(scope="module")
def session():
    """The names left by all blocks of Python in one namespace."""
    return run_snippets(GUIDE)


def test_the_guide_to_learning():
    assert "scores" in run_snippets(DOCS / "hrr_learning.md", least=3)


def test_noise_is_what_the_guide_says(session):
    answers, items, cosine = session["answers"], session["items"], torch.cosine_similarity
    assert cosine(answers, items[:3]).tolist() == pytest.approx([3**-0.5] * 3, abs=0.06)
    assert float(cosine(session["noisy"], session["a"], 0)) == pytest.approx(2**-0.5, abs=0.06)
    restored = cosine(session["restored"].detach(), session["fillers"], -1)
    assert float(restored.mean()) == pytest.approx(0.5, abs=0.02)


def test_results_of_other_snippets(session):
    assert session["loaded"].keys() == {"scene", "b"}
    assert float(session["unit"].norm()) == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(session["result"], session["bound"])
    assert session["prediction"].grad.norm() > 0 and session["words"].names[-1] == "MINE"
    assert not torch.equal(session["edges"], session["pairs"])


def test_the_guide_names_every_public_part(session):
    words = words_of_code(GUIDE)
    aliases = {"PyTorchHRROperations", "BatchHRROperations", "Factorization"}
    assert [name for name in session["hrr"].__all__ if name not in aliases and name not in words] == []


def test_snippets_for_those_who_come_from_other_libraries():
    session = run_snippets(DOCS / "coming_from.md", least=5)
    assert session["value"].shape == (1024,) and len(session["told"]) == 1
    assert set(session["bridges"].__all__) <= words_of_code(DOCS / "coming_from.md")
