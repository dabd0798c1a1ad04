"""The guide's snippets run in order, and it names every public part."""

import pytest
from guide import DOCS, run_snippets_in, words_of_code

from torch_hrr import field

GUIDE = DOCS / "field.md"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """The names left by all blocks of Python in one namespace."""
    return run_snippets_in(tmp_path_factory.mktemp("guide"), GUIDE)


def test_results_of_snippets(session):
    assert session["slopes"].shape == (3, 16, 16, 16, 8) and session["decay"].grad.isfinite()
    assert len(session["motor"]) == 5 and session["similarity"].isfinite()


def test_the_guide_names_every_public_part():
    words = words_of_code(GUIDE)
    assert [name for name in field.__all__ if name not in words] == []
