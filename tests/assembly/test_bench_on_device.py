"""The assembly benchmark takes a CUDA device: entries, their peers and targets, on one that only pretends."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from pretend_device import PretendCuda

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
assembly, cap, connectome, assembly_targets, targets, timing = (
    importlib.import_module(f"bench.{name}")
    for name in ("assembly", "assembly_cap", "assembly_connectome", "assembly_targets", "targets", "timing")
)
agreement = importlib.import_module("bench.agreement")

ENTRIES = {
    "winners": assembly.winners(2, 500, 20, 1),
    "relu": assembly.shaped_winners("relu", torch.relu, 500, 20, 1),
    "cap": cap.mask(3, 100, 10),
    "backward": cap.differentiated(3, 100, 10, False),
    "soft backward": cap.differentiated(3, 100, 10, True),
    "connectome": connectome.entry(2000, 20, 0.05),
}


@pytest.fixture
def cuda(monkeypatch):
    with PretendCuda(monkeypatch) as pretend:
        yield pretend
    connectome.kept_rows.cache_clear()


def on_cpu(results):
    return tuple(each.detach().cpu() for each in (results if isinstance(results, tuple) else (results,)))


@pytest.mark.parametrize("name", ENTRIES)
def test_peers_that_do_not_stay_on_the_cpu_run_on_the_device(cuda, name):
    entry = ENTRIES[name]
    made = entry.inputs(entry.batch, torch.Generator().manual_seed(0))
    inputs = [each.detach().to("cuda").requires_grad_(each.requires_grad) for each in made]
    expected = entry.ours(*inputs)
    compared = on_cpu(entry.compared(expected, *inputs) if entry.compared else expected)
    peers = [peer for peer in entry.peers if not peer.on_host]
    assert any(peer.kind == "torch" for peer in peers)
    for peer in peers:
        theirs = peer.function(*inputs)
        assert all(each.is_cuda for each in (theirs if isinstance(theirs, tuple) else (theirs,)))
        agreement.check_agreement(
            peer.name, on_cpu(peer.compared(theirs, *inputs) if peer.compared else theirs), compared
        )


def test_targets_project_on_the_device(cuda, monkeypatch):
    for name, value in {"N": 2000, "K": 30, "SMALL_N": 500, "SMALL_K": 20, "SMALL_BATCH": 2, "SMALL_ROUNDS": 3}.items():
        monkeypatch.setattr(assembly_targets, name, value)
    made, new_brain = [], assembly_targets.new_brain

    def recorded(*args, **kwargs):
        made.append(new_brain(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(assembly_targets, "new_brain", recorded)
    settings = timing.Settings(
        rounds=1, block_seconds=1e-5, threads=1, device="cuda", cold=False, compile=False, seed=0
    )
    session = targets.Session(settings)
    found = [
        assembly_targets.projection_time(session, mode="exact"),
        assembly_targets.projection_time(session, mode="sampled"),
        assembly_targets.synapse_time(session),
        assembly_targets.late_rounds(session),
        assembly_targets.small_batch(session),
    ]
    assert all(each.value > 0 for each in found)
    assert {brain.mode for brain in made} == {"exact", "sampled"}
    assert {brain.device.type for brain in made} == {"cuda"}
