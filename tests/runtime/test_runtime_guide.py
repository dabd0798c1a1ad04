"""The guide's snippets run in order, and it names every public part."""

import pytest
import torch
from guide import DOCS, run_snippets_in, words_of_code

from torch_hrr import hrr, runtime

pytestmark = pytest.mark.filterwarnings("ignore:.*continuing on the CPU:RuntimeWarning")
GUIDE = DOCS / "runtime.md"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """The names left by all blocks of Python in one namespace."""
    return run_snippets_in(tmp_path_factory.mktemp("guide"), GUIDE)


def test_results_of_snippets(session):
    assert torch.equal(session["bound"], hrr.bind(session["a"], session["b"]))
    expected = [hrr.bind(batch, session["key"]) for batch in session["batches"]]
    assert all(torch.equal(x, y) for x, y in zip(session["results_of_pipeline"], expected, strict=True))
    assert {row["name"] for row in session["report"]["bottlenecks"]} >= {"torch_hrr::bind"}
    assert session["results"]["bind"].runs == 10 and session["c"].shape == (100, 100)


def test_the_guide_names_every_public_part():
    words = words_of_code(GUIDE)
    assert [name for name in runtime.__all__ if name not in words] == []
