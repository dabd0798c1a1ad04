"""Some mutations of every class's files, and whether a fault would be found; `make reliability` runs thousands."""

import time

import mutated_states
import pytest
import torch
from test_saveable import EXAMPLES

import torch_hrr


def test_changed_files_are_refused_or_what_they_say():
    figures, failures = mutated_states.run(["all"], 40)
    assert not failures
    assert set(EXAMPLES) < set(figures)
    for name, found in figures.items():
        assert found["tried"] == 40 == found["refused"] + found["loaded equal"] and found["refused"] > 20, name


def slow(*arguments, **options):
    begin = time.process_time()
    while time.process_time() - begin < 1.1 * mutated_states.SECONDS:
        pass


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (lambda *_, **__: [][1], "other exceptions"),
        (lambda *_, **__: torch.ones(1 << 25), "other exceptions"),
        (slow, "other exceptions"),
        (lambda *_, **__: EXAMPLES["torch_hrr.tree"](), "loaded different"),
    ],
    ids=("another error", "memory", "time", "another object"),
)
def test_a_fault_is_found(fault, found, monkeypatch, tmp_path):
    content = mutated_states.held_by(EXAMPLES["torch_hrr.tree"]())
    content[2]["seed"] = "5"
    path = tmp_path / "file"
    path.write_bytes(mutated_states.file_of(content))
    assert mutated_states.judged(path, content, None, None) == ("loaded equal", "")
    monkeypatch.setattr(torch_hrr, "load", fault)
    assert mutated_states.judged(path, content, None, None)[0] == found
