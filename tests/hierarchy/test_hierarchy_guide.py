"""The guide's snippets run in order, and it names every public part."""

import pytest
from guide import DOCS, run_snippets_in, words_of_code

from torch_hrr import hierarchy

GUIDE = DOCS / "hierarchy.md"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """The names left by all blocks of Python in one namespace."""
    return run_snippets_in(tmp_path_factory.mktemp("guide"), GUIDE)


def test_results_of_snippets(session):
    assert [tuple(r.shape) for r in session["representations"]] == [(1000, 30), (1000, 8)]
    assert [tuple(r.shape) for r in session["many"]] == [(16, 100, 30), (16, 100, 8)]
    assert session["action"] == 2 and session["gradient"].norm() > 0
    assert len(session["columns"]["step"]) == 1000


def test_the_guide_names_every_public_part():
    words = words_of_code(GUIDE)
    assert [name for name in hierarchy.__all__ if name not in words] == []
