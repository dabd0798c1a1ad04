"""The demo's job of assemblies: what is read from winners, completion from parts, and what the command prints."""

import pytest
import torch

from torch_hrr import __main__ as command_line
from torch_hrr.assembly import connectome_inputs, overlap
from torch_hrr.demos import assembly as assembly_demo
from torch_hrr.demos import sentences

pytest.importorskip("sklearn")


@pytest.mark.parametrize("seed", range(3))
def test_digits_are_read_from_the_winners(seed):
    found = assembly_demo.read_digits(seed)
    assert found["winners, ridge read-out"] >= 0.95
    assert found["winners, ridge read-out"] > found["pixels, ridge read-out"] + 0.01


@pytest.mark.parametrize("seed", range(3))
def test_an_assembly_is_completed_from_its_parts(seed):
    completed = assembly_demo.complete(seed)
    assert completed[0.5] > 0.95 and completed[0.02] > 0.85


def test_k_neurons_fire_and_their_inputs_are_those_of_the_connectome():
    grey = torch.randint(17, (5, 64), generator=torch.Generator().manual_seed(0))
    patterns = assembly_demo.fired(grey, 300, 20, 0.1, 3)
    assert patterns.sum(-1).tolist() == [20.0] * 5
    rows = torch.stack([connectome_inputs(torch.tensor([i]), 300, 0.1, 3, 0) for i in range(64)])
    assert rows.max() == 1 and abs(float(rows.double().mean()) - 0.1) < 0.02
    inputs = (grey.double() @ rows.double()).sort(dim=-1, descending=True, stable=True).indices[:, :20]
    assert [sorted(row) for row in inputs.tolist()] == [row.nonzero().flatten().tolist() for row in patterns]


def test_the_matrix_that_is_timed_beside_a_brain_finds_its_assembly():
    brain = assembly_demo.untouched(500, 50, 0)
    weights = brain.weights("A", "A")
    found = assembly_demo.project_densely(brain.stimulus_weights("s", "A"), weights, 50)
    # Neurons whose first inputs are equal may win in either; a tenth would be shared by chance.
    assert overlap(found.sort().values, assembly_demo.projected(500, 50, 0).winners("A")) > 0.6
    assert weights.max() > 1.05**20


def test_the_command_prints_all_tables(monkeypatch, capsys, tmp_path):
    found = {"pixels, ridge read-out": 0.924, "winners, ridge read-out": 0.961}
    monkeypatch.setattr(assembly_demo, "read_digits", lambda seed: found)
    monkeypatch.setattr(assembly_demo, "TIMED", 500)
    assert command_line.main(["demo", "--jobs", "assembly", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for text in (
        "winners, ridge read-out",
        "0.961",
        "5 rounds later",
        "100 of 2000 neurons fire",
        "0.924 of the pixels",
    ):
        assert text in printed
    assert "Assemblies" in (tmp_path / "demo.svg").read_text()


def test_sentences_have_the_trees_of_the_table(capsys, tmp_path):
    assert command_line.main(["demo", "--jobs", "sentences", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "├─ dogs  SUBJ" in printed and "neurons that ever fired: LEX" in printed
    rows = dict(line.rsplit(None, 1) for line in printed.splitlines() if line.endswith(("0", "9")))
    assert all(float(rows[sentence]) >= 0.9 for sentence in sentences.SENTENCES)
    assert "Sentences" in (tmp_path / "demo.svg").read_text()
