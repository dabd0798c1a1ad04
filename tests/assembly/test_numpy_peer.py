"""Peers of the benchmarks: the simulator computes the model, beside the dense oracle, and inputs are equal."""

import numpy as np
import pytest
import torch
from dense_brain import DenseBrain

from bench import assembly_connectome
from bench.agreement import check_agreement
from bench.assembly_peers import NumpyBrain, PlainNumpyBrain

simulators = pytest.mark.parametrize("simulator", [NumpyBrain, PlainNumpyBrain])


@simulators
@pytest.mark.parametrize("p", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("recurrent_from", [0, 1, 4])
def test_it_selects_the_winners_of_the_oracle(simulator, p, recurrent_from):
    n, k, beta, rounds = 400, 25, 0.5, 10  # powers of 1.5 are exact, so that sums in any order are the same
    peer = simulator(n, k, p, beta, size=30, seed=1)
    counts = peer._stimulus.copy()
    rows = {}
    history = []
    for t in range(rounds):
        peer.project(recurrent=t >= recurrent_from, stimulus=t < 8)
        history.append(peer.winners)
    graph = np.zeros((n, n), int)
    for neuron in peer._columns:
        rows[neuron] = peer.row(neuron)
        graph[neuron, rows[neuron][0]] = 1
    dense = DenseBrain(lambda *_: graph, lambda *_: counts)
    dense.add_stimulus("s", 30)
    dense.add_area("A", n, k, beta)
    for t in range(rounds):
        areas = {"A": ["A"]} if t >= recurrent_from else {}
        dense.project(stimuli={"s": ["A"]} if t < 8 else {}, areas=areas)
        np.testing.assert_array_equal(history[t], dense.winners("A"), err_msg=f"round {t}")
    assert peer.support == dense.support("A")
    for neuron, (columns, weights) in rows.items():
        np.testing.assert_array_equal(weights, dense.weights("A", "A")[neuron, columns])


@simulators
def test_rows_are_drawn_with_probability_p(simulator):
    n, p = 20000, 0.013
    peer = simulator(n, 300, p, 0.0, size=50, seed=2)
    peer.project(rounds=2)
    lengths = np.array([len(columns) for columns in peer._columns.values()])
    assert len(lengths) == 300
    deviation = (n * p * (1 - p)) ** 0.5
    assert abs(lengths.mean() - n * p) < 5 * deviation / 300**0.5
    assert 0.75 < lengths.std() / deviation < 1.25
    hits = np.zeros(n)
    for columns in peer._columns.values():
        assert (np.diff(columns) > 0).all() and columns[0] >= 0 and columns[-1] < n
        hits[columns] += 1
    # A column's hits are binomial too: the first and last are no special case.
    assert abs(hits.var() / (300 * p * (1 - p)) - 1) < 0.06
    assert abs(hits[:2000].mean() - 300 * p) < 5 * (300 * p / 2000) ** 0.5


def test_every_peer_of_connectome_inputs_gives_the_same_counts():
    for n, k, p in ((2000, 20, 0.05), (30_000, 7, 0.001)):
        entry = assembly_connectome.entry(n, k, p)
        (winners,) = entry.inputs(k, torch.Generator().manual_seed(0))
        expected = entry.ours(winners)
        assert expected.sum() > 0
        for peer in entry.peers:
            check_agreement(peer.name, peer.function(winners), expected)
