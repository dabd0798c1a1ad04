"""bench/speed.py: tables of made-up reports, what it refuses, and the marks of the page."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
speed = importlib.import_module("bench.speed")
run = importlib.import_module("bench.run")
lengths = importlib.import_module("bench.hrr_lengths")
MACHINE = {
    "cpu": "A Processor", "isa": "avx2", "gpu": None, "driver": None, "torch": "2.15.0", "python": "3.11.7",
    "threads": 1, "date": "2026-11-30T10:00:00+00:00", "commit": "0123abc",
}  # fmt: skip


def entry(each, ratio=2.0):
    """A row of a report: ours takes 15 us, eager torch 60, and torch.compile `ratio` times as long as ours."""
    peers = {
        "torch": {"peer": each.peers[0].name, "seconds": 60e-6, "ratio": 4.0, "iqr": 0.0},
        "compile": {"peer": "torch.compile", "seconds": 15e-6 * ratio, "ratio": ratio, "iqr": 0.0},
        "library": None,
    }
    if each.peers[0].name == speed.NORMAL:
        peers = {"torch": {"peer": speed.NORMAL, "seconds": 5e-6, "ratio": 0.3, "iqr": 0.0}}
    return {
        "op": each.op, "shape": each.shape, "error": None, "ours": {"seconds": 15e-6, "iqr": 0.0},
        "ratios": {"fresh warm": peers}, "judged": peers["torch"], "met": "yes",
    }  # fmt: skip


def target(each):
    return {
        "name": each.name, "status": "needs a GPU" if each.needs_gpu else "measured", "error": None,
        "unit": each.unit, "target": each.limit, "result": 0.25, "note": "a note",
        "baseline": {"what": each.baseline, "expected_seconds": None, "seconds": 1.5 if each.baseline else None},
        "speedup": {"target": each.speedup, "measured": 6.0 if each.baseline else None, "met": None},
    }  # fmt: skip


def report(system, quick=False, **changed):
    """A whole report of a system; `changed` are of the machine."""
    entries, targets = lengths.ENTRIES, ()
    if system != speed.LENGTHS:
        modules = run.modules_of(system)
        entries, targets = modules[0].ENTRIES, modules[1].TARGETS
    return {
        "system": system, "machine": MACHINE | changed, "peers": {"numpy": "2.4.6", "torch-hd": None},
        "settings": {"rounds": 3 if quick else 9, "block_seconds": 1e-3 if quick else 4e-3, "compile": not quick},
        "entries": [entry(each) for each in entries], "targets": [target(each) for each in targets],
    }  # fmt: skip


@pytest.fixture
def written(tmp_path):
    """Writes reports into files of these names, and gives their paths."""

    def write(**contents):
        paths = [tmp_path / f"{name}.json" for name in contents]
        for path, content in zip(paths, contents.values(), strict=True):
            path.write_text(json.dumps(content))
        return [str(path) for path in paths]

    return write


def refused(paths):
    with pytest.raises(SystemExit) as refusal:
        speed.main(paths)
    (line,) = str(refusal.value).splitlines()
    return line


def test_every_entry_and_target_is_in_a_table(written, capsys):
    everything = [report(system) for system in run.SYSTEMS]
    speed.main(written(all=everything, lengths=report(speed.LENGTHS)))
    printed = capsys.readouterr().out
    assert "A Processor, avx2, 1 thread, torch 2.15.0, Python 3.11.7, numpy 2.4.6, without torch-hd, 2026" in printed
    assert "commit 0123abc.\n" in printed and "Not run" not in printed and "--quick" not in printed
    assert printed.count("(15.0 us)") + printed.count("| 15.0 us |") == sum(len(each["entries"]) for each in everything)
    assert "| `bind_superpose 10x64x1024` | `torch.compile` | 30.0 us | 15.0 us | 2.00x |" in printed
    assert re.search(r"\| 10000 \| 2\.00x \(15\.0 us\) \| 2\.00x \(15\.0 us\) \|", printed)  # bind of 100 and 1000 rows
    assert f"| 32768 |{' 2.00x |' * len(lengths.OPERATORS)}" in printed
    assert "| exact projection | a NumPy simulator, 1.50 s | a note | 250 ms | 6.00x | 300 ms, 10.0x |" in printed
    shown = [each for each in everything if each["system"] not in speed.WITHOUT_TARGETS]
    targets = [row for each in shown for row in each["targets"] if row["status"] == "measured"]
    assert printed.count("| a note |") == len(targets)


def test_the_summary_counts_and_names_the_least(written, capsys):
    made = report("assembly")
    places = [i for i, row in enumerate(made["entries"]) if speed.fastest(row)["peer"] != speed.NORMAL]
    for ratio, place in zip((0.5, 0.995), places, strict=False):
        made["entries"][place]["ratios"]["fresh warm"]["compile"] |= {"ratio": ratio, "seconds": 15e-6 * ratio}
    speed.main(written(made=made))
    mean = 2 * (0.5 * 0.995 / 4) ** (1 / len(places))
    least = f"`k_winners 1x10000 k100` | 0.50x | {len(places) - 2} of {len(places)}"
    assert f"| `assembly` | 9 of 4 ms | {least} | {mean:.2f}x |" in capsys.readouterr().out


def test_lengths_are_summed_up_by_rows_and_the_picture_is_linked(written, capsys):
    speed.main(written(made=report(speed.LENGTHS)))
    printed = capsys.readouterr().out
    for rows in lengths.ROWS:
        least = rf"`\w+ {rows}x\d+` \| 2\.00x \| 288 of 288 \| 2\.00x \|"
        assert re.search(rf"\| `hrr --lengths`, rows: {rows} \| 9 of 4 ms \| {least}", printed)
    assert f"({speed.PICTURE.name})" in printed


def test_quick_reports_are_taken_and_said_to_be(written, capsys):
    speed.main(written(field=report("field", quick=True), encoding=report("encoding")))
    printed = capsys.readouterr().out
    assert "By `--quick`, so that single ratios may be far off: field.\n" in printed
    assert "| `field` | 3 of 1 ms, nothing compiled |" in printed and "| `encoding` | 9 of 4 ms |" in printed
    assert "Not run: `python bench/run.py hrr --lengths --json FILE`.\n" in printed


@pytest.mark.parametrize(
    ("key", "value"), [("cpu", "Another"), ("isa", "avx512"), ("commit", "0123abc-dirty"), ("threads", 2)]
)
def test_reports_that_differ_are_refused(written, key, value):
    one, other = written(field=report("field"), programs=report("programs", **{key: value}))
    assert refused([one, other]) == f"speed: {one} and {other} differ in {key}: {MACHINE[key]} and {value}"


def test_reports_that_lack_rows_or_failed_are_refused(written):
    made = report("field")
    gone = made["entries"].pop()
    (path,) = written(made=made)
    count = len(made["entries"]) + len(made["targets"]) + 1
    assert refused([path]) == f"speed: {path} lacks 1 of {count} rows of field: {speed.name(gone)!r} first"
    made = report("field")
    made["entries"][0] = {"op": made["entries"][0]["op"], "shape": made["entries"][0]["shape"], "error": "E: no"}
    (path,) = written(made=made)
    assert refused([path]) == f"speed: {path} has an error for {speed.name(made['entries'][0])!r}: E: no"


def test_other_files_are_refused(written, tmp_path):
    one, other = written(one=report("field"), other=report("field"))
    assert refused([one, other]) == f"speed: {one} and {other} are both of field"
    (path,) = written(gpu=report("field", gpu="A GPU"))
    assert refused([path]) == f"speed: {path} is of a GPU, the page is of CPUs"
    for content in ("[1]", "{}", "x"):
        (tmp_path / "x.json").write_text(content)
        assert f"{tmp_path / 'x.json'} is no report of bench/run.py: " in refused([str(tmp_path / "x.json")])


def test_the_page_is_written_between_its_marks(written, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    page, kept = tmp_path / "speed.md", speed.PAGE.read_text()
    page.write_text(kept)
    monkeypatch.setattr(speed, "PAGE", page)
    monkeypatch.setattr(speed, "PICTURE", tmp_path / "hrr_lengths.svg")
    speed.main([*written(made=report("hrr"), lengths=report(speed.LENGTHS)), "--update"])
    text = page.read_text()
    assert "A Processor" in text and "<svg" in speed.PICTURE.read_text()

    def prose(x):
        return re.sub(r"(<!-- ([\w-]+): begin -->\n).*?(<!-- \2: end -->)", r"\1\3", x, flags=re.DOTALL)

    assert prose(text) == prose(kept)
    marks = re.findall(r"<!-- ([\w-]+): begin -->", text)
    assert sorted(marks) == sorted(("machine", "summary", *speed.COMMANDS))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5e-7, "250 ns"), (9.994e-6, "9.99 us"), (1.5e-4, "150 us"), (0.0123, "12.3 ms"), (5.0, "5.00 s")],
)
def test_amounts_have_three_digits_and_a_unit(seconds, text):
    assert speed.amount(seconds) == text
