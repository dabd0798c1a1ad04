"""The demo reaches its accuracies on the real digits, and every benchmark entry compares equal things."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from torch_hrr import __main__ as command_line
from torch_hrr import demos, hrr
from torch_hrr.demos import digits as demo
from torch_hrr.demos import field as field_demo
from torch_hrr.demos import figure as demo_figure
from torch_hrr.demos import table as demo_table

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
run = importlib.import_module("bench.run")
ENTRIES = importlib.import_module("bench.hrr").ENTRIES


@pytest.fixture
def threads():
    """Puts back the number of threads that the benchmark sets."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    pytest.importorskip("sklearn")
    return demo.classify_digits(512, 0, torch.device("cpu"), tmp_path_factory.mktemp("demo"))


def test_demo_accuracy(result):
    assert result.ridge > 0.93
    assert result.prototype > 0.8
    assert 0.85 < result.centroid < result.ridge


def test_demo_codes_agree_with_torch_fft(result):
    assert result.difference < 1e-5


def test_demo_confusion_counts_every_test_image(result):
    for name, expected in (("prototypes", result.prototype), ("ridge read-out", result.ridge)):
        matrix = result.confusion[name]
        assert matrix.sum() == 899
        assert matrix.trace() / 899 == pytest.approx(expected)


def test_demo_is_deterministic(result, tmp_path):
    again = demo.classify_digits(512, 0, torch.device("cpu"), tmp_path)
    for name, matrix in result.confusion.items():
        assert torch.equal(matrix, again.confusion[name])


def test_demo_command_prints_the_table_and_draws(tmp_path, capsys):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    output, table = str(tmp_path / "new"), tmp_path / "other" / "table.json"
    options = ("--quick", "--dim", "64", "--output", output, "--json", str(table))
    assert command_line.main(["demo", "--jobs", "digits", *options]) == 0
    assert (tmp_path / "new" / "hrr-digits.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    for part in ("nearest centroid", "class prototypes", "ridge read-out", "times as long", "hrr-digits.png"):
        assert part in printed
    (row,) = json.loads(table.read_text())
    assert (row["system"], row["baseline"]) == ("hrr", "0.924 of the pixels") and row["timing"]["ratio"] > 0
    line = next(line for line in printed.splitlines() if line.startswith("hrr  "))
    assert row["result"] in line and line.endswith(f"{row['timing']['ratio']:.2f}x")


def test_a_quick_demo_has_smaller_sizes_and_the_table_a_system_in_one_place(monkeypatch, capsys, tmp_path):
    seen = {}

    def job(system, size):
        def run(options):
            seen[size] = getattr(options, size)
            row = demo_table.Row(system, f"of {size}", "1", "-", demo_table.Timing("a call", 1.0))
            return demo_table.Outcome(demo_figure.Panel("a panel", 1.0, 1, []), [row])

        return run

    jobs = {"field": ("field", "runs"), "hierarchy": ("hierarchy", "seed"), "control": ("field", "episodes")}
    for name, (system, size) in jobs.items():
        monkeypatch.setattr(f"torch_hrr.demos.{name}.run", job(system, size))
    monkeypatch.setattr(demos, "_NEEDS", {})
    options = ("--quick", "--episodes", "7", "--jobs", *reversed(jobs), "--output", str(tmp_path))
    assert command_line.main(["demo", *options]) == 0
    assert seen == {"runs": 5, "seed": 0, "episodes": 7}
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("1 s         -")]
    found = [" ".join(line.split()[:3]) for line in lines]
    assert found == ["field of runs", "field of episodes", "hierarchy of seed"]


def test_the_table_is_in_columns_and_says_where_torch_was_not_timed():
    rows = [
        demo_table.Row(
            "field", "held", "500.0", "23.9 at random", demo_table.Timing("a step", 34.12e-6, 12.345, "eager")
        ),
        demo_table.Row("assembly", "trees", "1.00", "-", demo_table.Timing("5 sentences", 0.0999996)),
        demo_table.Row("encoding", "bits", "2", "-", demo_table.Timing("a line", 12.3)),
    ]
    assert demo_table.draw(rows).splitlines() == [
        "system    job    result  baseline           time  to torch",
        "field     held    500.0  23.9 at random  34.1 us    12.35x",
        "assembly  trees    1.00  -                100 ms         -",
        "encoding  bits        2  -                12.3 s         -",
        "",
        "time: of the work below; to torch: time of torch / ours, both taken in turn just now, on one thread",
        "  field, held: a step, beside eager",
        "  assembly, trees: 5 sentences",
        "  encoding, bits: a line",
    ]


def test_two_ways_are_timed_in_turn_on_one_thread(threads, monkeypatch):
    torch.set_num_threads(2)
    calls, clock = [], iter(range(1000))
    monkeypatch.setattr(demo_table.time, "perf_counter", lambda: next(clock))
    threads_seen = set()

    def way(name, seconds):
        def run(number):
            calls.append((name, number))
            threads_seen.add(torch.get_num_threads())
            for _ in range(seconds):
                next(clock)

        return run

    taken = demo_table.in_turn(way("ours", 1), way("theirs", 5), 20)
    assert taken.ratio == 3 and taken.timing("w", "p") == demo_table.Timing("w", 2, 3, "p")
    assert sorted(calls[:2]) == [("ours", 0), ("theirs", 0)]
    rounds = [calls[i : i + 2] for i in range(2, 42, 2)]
    assert all({name for name, _ in each} == {"ours", "theirs"} for each in rounds)
    assert [each[0][1] for each in rounds] == [each[1][1] for each in rounds] == list(range(20))
    assert len({each[0][0] for each in rounds}) == 2
    assert threads_seen == {1} and torch.get_num_threads() == 2


def test_demo_without_scikit_learn_names_the_cure_before_the_first_job(monkeypatch):
    monkeypatch.setattr(field_demo, "run", lambda _: pytest.fail("the field job ran"))
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(SystemExit, match="demo: hierarchy needs scikit-learn: pip install scikit-learn"):
        command_line.main(["demo", "--jobs", "field", "hierarchy"])


def test_demo_says_where_it_cannot_write(tmp_path, monkeypatch):
    monkeypatch.setattr(field_demo, "run", lambda _: pytest.fail("the field job ran"))
    with pytest.raises(SystemExit, match="demo: --json must be a file, got "):
        command_line.main(["demo", "--jobs", "field", "--json", str(tmp_path)])
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"demo: .*(Not a directory|File exists)"):
        command_line.main(["demo", "--jobs", "field", "--output", str(tmp_path / "file")])


def test_demo_without_matplotlib_draws_nothing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert demo.draw_confusion({"x": torch.eye(10)}, tmp_path / "figure.png") is None
    assert not list(tmp_path.iterdir())


def test_progress_without_tqdm(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = demo.progress_bar(3, "encoding")
    for _ in range(3):
        bar.update()
    bar.close()
    assert capsys.readouterr().err.endswith(f"encoding [{'#' * 40}] 3/3\n")


@pytest.mark.parametrize("option", ["--dim", "--units", "--runs", "--episodes"])
@pytest.mark.parametrize("value", [0, 10**12])
def test_demo_rejects_sizes_out_of_bounds(option, value):
    with pytest.raises(SystemExit, match=f"{option} must be at least 1 and at most 100000, got {value}"):
        command_line.main(["demo", option, str(value)])


def test_demo_rejects_seeds_of_more_than_64_bits():
    with pytest.raises(SystemExit, match=r"demo: --seed must be at least -2\^63 and below 2\^64, got "):
        command_line.main(["demo", "--seed", str(2**64)])


@pytest.mark.parametrize("text", ["DefaultCPUAllocator: can't allocate memory", "something else"])
def test_demo_says_in_a_line_that_memory_ran_out(text, monkeypatch, tmp_path):
    def job(options):
        raise RuntimeError(text)

    monkeypatch.setattr(field_demo, "run", job)
    expected, said = (RuntimeError, text) if text == "something else" else (SystemExit, "demo: memory ran out")
    with pytest.raises(expected, match=said):
        command_line.main(["demo", "--jobs", "field", "--output", str(tmp_path)])


def test_ridge_recovers_separable_classes():
    generator = torch.Generator().manual_seed(0)
    centres = 3 * torch.randn(10, 32, generator=generator)
    labels = torch.arange(200) % 10
    samples = centres[labels] + 0.1 * torch.randn(200, 32, generator=generator)
    assert torch.equal(demo.ridge_readout(samples[:100], labels[:100], samples[100:]), labels[100:])


def test_info_prints_versions_and_device(capsys):
    assert command_line.main(["info"]) == 0
    printed = capsys.readouterr().out
    assert torch.__version__ in printed
    assert "device_name" in printed


def test_entries_are_distinct_and_ordered():
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)
    for entry in ENTRIES:
        peers = [peer.name for peer in entry.peers]
        assert len({*peers, "ours"}) == len(peers) + 1, entry.name
        assert any(peer.kind == "torch" for peer in entry.peers), entry.name
        assert entry.floor is None or entry.floor <= entry.aim, entry.name
        assert entry.aim_peer in {None, *(peer.name for peer in entry.peers if peer.kind == "torch")}, entry.name


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entry_agrees_with_every_eager_peer(entry):
    inputs = entry.inputs(min(entry.batch, 2), torch.Generator().manual_seed(0))
    ours = entry.ours(*inputs)
    if entry.reuse is not None:
        out = torch.empty_like(ours)
        entry.reuse(*inputs, out=out)
        run.check_agreement("fresh output", ours, out)
    for peer in entry.peers:
        if peer.kind == "compile":
            continue
        prepared = tuple(map(peer.prepare, inputs)) if peer.prepare else inputs
        run.check_agreement(peer.name, peer.function(*prepared), ours)


def test_entry_shape_and_traffic_match_its_inputs():
    for entry in ENTRIES:
        inputs = entry.inputs(entry.batch, torch.Generator().manual_seed(0))
        assert "x".join(map(str, inputs[0].shape)) == entry.shape, entry.name
        assert entry.traffic >= 4 * sum(x.numel() for x in inputs), entry.name


def test_benchmark_json(tmp_path, threads, capsys):
    path = tmp_path / "new" / "hrr.json"
    assert run.main(["hrr", "--quick", "--filter", "^bind 100x256$", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert report.keys() == {"system", "machine", "limits", "settings", "peers", "entries", "targets"}
    assert report["machine"].keys() == {"cpu", "isa", "gpu", "driver", "torch", "python", "threads", "date", "commit"}
    assert report["machine"]["threads"] == 1
    assert report["targets"] == []
    (row,) = report["entries"]
    documented = {"op", "shape", "floor", "aim", "aim_peer", "judged", "met", "ours", "ratios", "fraction_of_limit"}
    assert row.keys() == documented | {"left_out", "traffic_bytes", "candidates", "error"}
    assert row["error"] is None
    assert row["ratios"].keys() == {"fresh warm", "reused warm"}
    for candidate in row["candidates"]:
        assert len(candidate["rounds"]) == report["settings"]["rounds"] == 3
        assert min(candidate["rounds"]) > 0
    assert "bind                     100x256" in capsys.readouterr().out


def test_bench_runs_the_source_trees_benchmarks_of_several_systems(tmp_path, threads, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.2")
    monkeypatch.setattr("bench.peers.is_here", lambda module: module != "torchhd")
    path, plot = tmp_path / "all.json", tmp_path / "new" / "ratios.svg"
    options = (
        "--quick",
        "--filter",
        r"^bind 100x256$|gha 100$|gha .* 100-32$",
        "--json",
        str(path),
        "--plot",
        str(plot),
    )
    assert command_line.main(["bench", *options]) == 0
    reports = json.loads(path.read_text())
    assert [report["system"] for report in reports] == ["hrr", "hierarchy"]
    assert reports[0]["peers"] == {"torch-hd": None, "numpy": "1.2"} and reports[1]["peers"] == {}
    printed = capsys.readouterr().out
    assert "beside: eager torch, numpy 1.2\nwithout torch-hd: pip install torch-hd\n" in printed
    assert "hrr, hierarchy on " in plot.read_text()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("hr",), "SYSTEM must be one of hrr, assembly, programs, encoding, field, hierarchy, got hr"),
        (("hrr", "--plot", "ratios"), "--plot must end in one of .svg, .png, .pdf, got ratios"),
        (("hrr", "--json", "."), ". cannot be written"),
        (("hrr", "--json", "/"), "/ cannot be written"),
        (("hrr", "--threads", "99999999999"), "--threads must be at least 1 and at most 1024, got 99999999999"),
        (("hrr", "--seed", str(2**64)), f"--seed must be at least -2^63 and below 2^64, got {2**64}"),
        (("hrr", "--lengths", "field"), "--lengths is a table of hrr, got hrr field"),
        (("--plot", "ratios.svg"), "--plot needs matplotlib: pip install 'torch_hrr[plot]'"),
    ],
)
def test_bench_refuses_what_it_cannot_do_before_it_measures(arguments, text, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as caught:
        command_line.main(["bench", *arguments])
    assert caught.value.code == 2
    assert f"python -m torch_hrr bench: error: {text}\n" in capsys.readouterr().err


def test_bench_keeps_what_was_measured_when_it_is_interrupted(monkeypatch, threads, capsys, tmp_path):
    measured = run.measure

    def once(entry, settings, limits):
        if entry.shape != "100x256":
            raise KeyboardInterrupt
        return measured(entry, settings, limits)

    monkeypatch.setattr(run, "measure", once)
    path = tmp_path / "part.json"
    assert run.main(["hrr", "--quick", "--filter", "^bind 100x(256|2048)$", "--json", str(path)]) == 130
    assert [row["shape"] for row in json.loads(path.read_text())["entries"]] == ["100x256"]
    assert "interrupted; what was measured is kept" in capsys.readouterr().err


def test_benchmark_judges_by_the_peer_that_the_aim_names(monkeypatch, threads, capsys, tmp_path):
    path = tmp_path / "hrr.json"
    entry = next(entry for entry in ENTRIES if entry.name == "bind 100x256")
    monkeypatch.setattr("bench.hrr.ENTRIES", (replace(entry, aim=1e-6, aim_peer="ifft(fft*fft).real"),))
    assert run.main(["hrr", "--quick", "--filter", "^bind 100x256$", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())["entries"]
    assert (row["aim_peer"], row["judged"]["peer"], row["met"]) == ("ifft(fft*fft).real",) * 2 + ("yes",)
    assert "  aim and met? refer to ifft(fft*fft).real: " in capsys.readouterr().out


def test_benchmark_reports_disagreement(monkeypatch, threads, capsys):
    entry = next(entry for entry in ENTRIES if entry.name == "bind 100x256")
    wrong = replace(entry, ours=lambda a, b: 1.001 * hrr.bind(a, b))
    monkeypatch.setattr("bench.hrr.ENTRIES", (wrong,))
    assert run.main(["hrr", "--quick", "--filter", "^bind 100x256$"]) == 1
    assert "ERROR Disagreement: differs from irfft(rfft*rfft)" in capsys.readouterr().out


def test_benchmark_leaves_out_a_library_that_fails(monkeypatch, threads, capsys):
    entry = next(entry for entry in ENTRIES if entry.name == "bind 100x256")

    def fail(a, b):
        raise NotImplementedError("not here")

    peers = (entry.peers[0], replace(entry.peers[0], name="library", function=fail, kind="library"))
    monkeypatch.setattr("bench.hrr.ENTRIES", (replace(entry, peers=peers),))
    assert run.main(["hrr", "--quick", "--filter", "^bind 100x256$"]) == 0
    assert "without library: NotImplementedError: not here" in capsys.readouterr().out


def test_benchmark_without_a_match(threads, capsys):
    assert run.main(["hrr", "--filter", "nothing like it"]) == 1
    known = capsys.readouterr().err.splitlines()
    assert known[0] == "no entry matches 'nothing like it'; there are:"
    assert {"  bind_normalize 1x512", "  target single bind"} <= set(known)


def test_benchmark_refuses_a_filter_that_is_no_expression(capsys):
    with pytest.raises(SystemExit) as caught:
        run.main(["hrr", "--filter", "("])
    assert caught.value.code == 2
    assert "error: --filter must be a regular expression, got '(': missing )" in capsys.readouterr().err
