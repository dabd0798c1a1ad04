"""The table of `python bench/run.py hrr --lengths`: entries that agree with torch, floors, marks, JSON and plot."""

import importlib
import json

import pytest
import torch

lengths = importlib.import_module("bench.hrr_lengths")
run = importlib.import_module("bench.run")


@pytest.mark.parametrize("dim", [50, 1001, 1006])
@pytest.mark.parametrize("op", lengths.OPERATORS)
def test_entries_agree_with_torch(op, dim):
    entry = lengths.entry(op, 2, dim)
    inputs = entry.inputs(2, torch.Generator().manual_seed(0))
    (peer,) = entry.peers
    theirs = peer.function(*inputs)
    run.check_agreement(peer.name, peer.compared(theirs, *inputs) if peer.compared else theirs, entry.ours(*inputs))
    assert entry.traffic >= 4 * sum(x.numel() for x in inputs)


def test_floors_follow_the_largest_prime_factor():
    assert [lengths.largest_factor(n) for n in (50, 1001, 1006, 1009, 1024)] == [5, 13, 503, 1009, 2]
    assert lengths.floor_of("bind", 1000) == lengths.SMOOTH_FLOOR
    assert lengths.floor_of("bind", 1001) == lengths.floor_of("unitary", 1000) == lengths.FLOOR


def test_a_size_is_measured_marked_kept_and_drawn(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(lengths, "floor_of", lambda op, dim: 1e9 if op == "bind" else 0.0)
    entries = tuple(lengths.entry(op, 2, 50) for op in ("bind", "unbind"))
    monkeypatch.setattr(lengths, "ENTRIES", entries)
    monkeypatch.setattr(lengths, "ROWS", (2, 3))
    report, plot = tmp_path / "lengths.json", tmp_path / "lengths.svg"
    threads = torch.get_num_threads()
    try:
        assert run.main(["hrr", "--lengths", "--quick", "--json", str(report), "--plot", str(plot)]) == 0
    finally:
        torch.set_num_threads(threads)
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if line.split()[:2] == ["50", "2"]]
    assert line.split()[2].endswith("*") and not line.split()[3].endswith("*")
    assert "1 of 2 at their floor or above" in printed
    rows = json.loads(report.read_text())["entries"]
    assert [(row["op"], row["met"]) for row in rows] == [("bind", "no"), ("unbind", "floor")]
    assert "<svg" in plot.read_text()


def test_lengths_are_a_table_of_hrr(capsys):
    with pytest.raises(SystemExit):
        run.main(["field", "--lengths"])
    assert "--lengths is a table of hrr, got field" in capsys.readouterr().err
