"""The guide's snippets run in order, and it names every public part."""

import dataclasses

import pytest
from guide import DOCS, run_snippets, words_of_code

from torch_hrr import encoding

GUIDE = DOCS / "encoding.md"


@pytest.fixture(scope="module")
def session():
    """The names left by all blocks of Python in one namespace."""
    return run_snippets(GUIDE)


def test_results_of_snippets(session):
    assert session["mapped"].hit_rate == pytest.approx(0.9)
    assert session["embedder"].config.vocab_size == 1200 and session["advice"]["optimal_batch_size"] > 0
    assert session["info"]["available_memory_mb"] <= 4096


def test_the_guide_of_reservoirs():
    run_snippets(DOCS / "reservoirs.md", least=7)


def test_the_guide_names_every_public_part():
    words = words_of_code(GUIDE)
    assert [name for name in encoding.__all__ if name not in words] == []
    configurations = (encoding.SinusoidalConfig, encoding.GPUConfig, encoding.MemoryStorageConfig)
    fields = {field.name for configuration in configurations for field in dataclasses.fields(configuration)}
    assert [name for name in sorted(fields) if name not in words] == []
    public = {name for name in vars(encoding.GPUAccelerator) if not name.startswith("_")} - {"on_gpu"}
    assert [name for name in sorted(public) if name not in words] == []
