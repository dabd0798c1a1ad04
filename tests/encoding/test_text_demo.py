"""The demo's text job: its text, its tables of counts, and a machine that beats the simpler of them."""

import collections
import math

import pytest
import torch

from torch_hrr import __main__ as command_line
from torch_hrr import encoding
from torch_hrr.demos import sequences as sequence_data
from torch_hrr.demos import text as text_demo

PART = 60_000


@pytest.fixture(scope="module")
def result():
    return text_demo.predict_characters(100, 0, PART)


def test_the_text_is_python_documentation():
    text = sequence_data.load_text()
    assert len(text) > 300_000 and 0 <= text.min() and text.max() == len(sequence_data.ALPHABET) - 1
    letters = "".join(sequence_data.ALPHABET[number] for number in text.tolist())
    assert "statement" in letters and "  " not in letters
    training, test = sequence_data.split_text(text)
    assert torch.equal(torch.cat([training, test]), text) and len(training) == int(0.8 * len(text))


@pytest.mark.parametrize("order", [1, 3])
def test_tables_are_smoothed_counts(order):
    training, test = sequence_data.split_text(sequence_data.load_text()[:5000])
    counts = collections.defaultdict(collections.Counter)
    for end in range(order, len(training)):
        counts[tuple(training[end - order : end].tolist())][int(training[end])] += 1
    bits = []
    for end in range(order, len(test)):
        known = counts[tuple(test[end - order : end].tolist())]
        bits.append(-math.log2((known[int(test[end])] + 0.1) / (known.total() + 0.1 * len(sequence_data.ALPHABET))))
    assert sequence_data.table_bits(training, test, order) == pytest.approx(sum(bits) / len(bits))


def test_the_machine_knows_more_than_the_character_before(result):
    assert result.tables[1] > result.tables[2] + 0.3
    assert result.machine < result.tables[1] - 0.3
    assert len(result.sample) == 160 and set(result.sample) <= set(sequence_data.ALPHABET)


def test_the_loop_that_is_timed_beside_the_machine_has_its_states():
    machine = encoding.LiquidStateMachine(3, units=40, seed=0)
    inputs = torch.randn(2, 30, 3, generator=torch.Generator().manual_seed(0))
    heard = inputs @ machine.input_weights.T + machine.bias
    states = text_demo.states_in_torch(machine.weights, heard, machine.leak)
    torch.testing.assert_close(states, machine.run(inputs))


def test_the_job_is_deterministic(result):
    again = text_demo.predict_characters(100, 0, PART)
    assert (again.machine, again.sample) == (result.machine, result.sample)


def test_the_command_prints_the_table(result, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(text_demo, "predict_characters", lambda units, seed, characters: result)
    assert command_line.main(["demo", "--jobs", "text", "--units", "100", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for line in (f"{result.tables[2]:.3f}\n", "100 units", f"{result.machine:.3f}\n"):
        assert line in printed
