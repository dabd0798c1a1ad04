"""The benchmark of connectome_inputs compares equal results."""

import torch

from bench import assembly_connectome
from bench.agreement import check_agreement


def test_every_peer_gives_the_same_counts():
    for n, k, p in ((2000, 20, 0.05), (30_000, 7, 0.001)):
        entry = assembly_connectome.entry(n, k, p)
        (winners,) = entry.inputs(k, torch.Generator().manual_seed(0))
        expected = entry.ours(winners)
        assert expected.sum() > 0
        for peer in entry.peers:
            check_agreement(peer.name, peer.function(winners), expected)


def test_the_drawn_graph_has_the_density():
    winners = torch.arange(300)
    edges = int(assembly_connectome.numpy_drawn(winners, 10_000, 0.01).sum())
    assert abs(edges - 30_000) < 5 * (30_000 * 0.99) ** 0.5


def test_entries_have_names_of_their_own():
    names = [entry.name for entry in assembly_connectome.ENTRIES]
    assert len(set(names)) == len(names) == len(assembly_connectome.SIZES)
