"""The guide's snippets run in order, and what it says of the brains in them is so."""

import pytest
import torch
from guide import DOCS, run_snippets_in, words_of_code

from torch_hrr import assembly

GUIDE = DOCS / "assembly.md"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """The names left by all blocks of Python in one namespace."""
    pytest.importorskip("matplotlib")
    return run_snippets_in(tmp_path_factory.mktemp("guide"), GUIDE)


def test_results_of_snippets(session):
    assert session["share"] > 0.9 and session["many"].batch == 4
    assert len({tuple(row.tolist()) for row in session["many"].winners("A")}) == 4
    assert float(session["degrees"].double().mean()) == pytest.approx(5, abs=0.2)
    assert torch.equal(session["indices"], session["indices"].sort().values)
    assert session["values"].min() >= session["degrees"].sort().values[-100]
    assert 0 <= session["loss"].item() <= 1 and "C" in session["loaded"].get_extra_state()["areas"][2]


def test_memory_is_what_the_guide_says():
    brain = assembly.Brain(p=0.01)
    brain.add_stimulus("s", size=1000)
    brain.add_area("A", n=1_000_000, k=1000)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=20)
    assert 12e6 < sum(buffer.numel() * buffer.element_size() for buffer in brain.buffers()) < 14.5e6


def test_the_sampled_mode_refuses_what_the_guide_says(session):
    lazy = session["lazy"]
    calls = {
        "connect": ("A", "A"),
        "normalize": ("A",),
        "potentiated": ("A", "A"),
        "stimulus_counts": ("s", "A"),
    }
    for name, arguments in calls.items():
        with pytest.raises(ValueError, match="mode must be 'exact'"):
            getattr(lazy, name)(*arguments)
    for option in ({"refracted": True}, {"refractory_period": 2}, {"normalize": True}):
        with pytest.raises(ValueError, match="sampled"):
            lazy.add_area("B", n=10, k=2, **option)


def test_the_guide_names_every_public_part():
    words = words_of_code(GUIDE)
    assert [name for name in assembly.__all__ if name not in words] == []
    modules = {"file_format", "extra_repr", "get_extra_state", "set_extra_state", "load_state_dict"}
    own = {
        name
        for base in assembly.Brain.__mro__
        if base.__module__.startswith("torch_hrr.assembly")
        for name in vars(base)
        if not name.startswith("_")
    }
    assert [name for name in sorted(own - modules) if name not in words] == []


def test_what_the_guide_says_of_normalisation():
    """Fibers count as divided by their columns' sums, stimuli as before, and later growth comes on top."""
    brain = assembly.Brain(p=0.3, seed=2)
    brain.add_stimulus("s", size=3)
    brain.add_area("A", n=80, k=8, beta=0.5)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=4)
    brain.normalize("A")
    graph = assembly.connectome_inputs(torch.arange(80).unsqueeze(-1), 80, 0.3, 2, brain.fiber_id("A", "A")).double()
    sources, targets, weights = brain.potentiated("A", "A")
    graph[sources, targets] = weights.double()
    scale = 1 / graph.sum(0)
    for _ in range(3):
        inputs = (graph[brain.winners("A")] * scale).sum(0)
        best = inputs.sort(descending=True, stable=True).values
        brain.project({}, {"A": ["A"]})
        assert inputs[brain.winners("A")].min() >= best[7] - 1e-6
        sources, targets, weights = brain.potentiated("A", "A")
        graph[sources, targets] = weights.double()
