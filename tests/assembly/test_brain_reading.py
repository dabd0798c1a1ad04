"""What is read of a brain between rounds: reading changes nothing, and stimuli are those of a dense brain."""

import pytest
import torch

from torch_hrr.assembly import Brain


def brain_of(batch=None, **options):
    brain = Brain(p=0.1, seed=4, batch=batch)
    brain.add_stimulus("s", size=30)
    brain.add_stimulus("t", size=40)
    brain.add_area("A", n=200, k=10, **{"beta": 0.1, **options})
    brain.add_area("B", n=150, k=8)
    return brain


@pytest.mark.parametrize("batch", [None, 2])
def test_counts_are_read_without_a_declaration(batch):
    brain, used = brain_of(batch), brain_of(batch)
    before = brain.get_extra_state()
    counts = brain.stimulus_counts("s", "A")
    used.project({"s": ["A"]})
    assert torch.equal(counts, used.stimulus_counts("s", "A")) and counts.any()
    assert brain.get_extra_state() == before
    counts.zero_()
    assert brain.stimulus_counts("s", "A").any()
    assert torch.equal(used.stimulus_counts("s", "A"), brain.stimulus_counts("s", "A"))


def test_a_parent_module_loads_into_a_brain_that_was_read():
    saved, read = torch.nn.ModuleList([brain_of()]), torch.nn.ModuleList([brain_of()])
    for module in (saved, read):
        module[0].project({"s": ["A"]})
    read[0].stimulus_counts("t", "A"), read[0].stimulus_counts("s", "B"), read[0].potentiated("A", "B")
    saved[0].project({"s": ["A"]}, rounds=3)
    read.load_state_dict(saved.state_dict())
    assert torch.equal(read[0].winners("A"), saved[0].winners("A"))
