"""Every example of the encoding system runs, prints what it returns, learns, and gives the same figures again."""

import ast
import importlib.util
import pathlib
import re
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "encoding"
# Arguments of a short run, the module it needs, and what its figures must satisfy.
RUNS = {
    "laser": (["--units", "50"], "reservoirpy", lambda r: r["50 units"] < 0.2 < r["20 lags"] < r["persistence"]),
    "digit_sequences": (["--units", "100"], "sklearn", lambda r: r["reservoir"] > 0.93 > r["no memory"] > 0.75),
    "next_character": (
        ["--units", "60", "--characters", "40000", "--write", "20"],
        "torch",
        lambda r: r["machine"] < r["table, order 1"] - 0.1,
    ),
}


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*RUNS, "acceleration"}


@pytest.mark.parametrize("name", RUNS)
def test_example(name, capsys):
    arguments, needed, holds = RUNS[name]
    pytest.importorskip(needed)
    module = load(name)
    results = module.main(arguments)
    printed = re.findall(r" (\d\.\d{3})$", capsys.readouterr().out, re.MULTILINE)
    assert printed == [f"{figure:.3f}" for figure in results.values()] and len(results) >= 3
    assert holds(results)
    assert module.main(arguments) == results


def test_the_laser_is_drawn_where_asked(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("reservoirpy")
    load("laser").main(["--units", "20", "--figure", str(tmp_path / "laser.png")])
    assert (tmp_path / "laser.png").read_bytes().startswith(b"\x89PNG")


def test_acceleration_is_shown_in_numbers(capsys):
    arguments = ["--batch", "4", "--length", "32", "--dim", "64", "--vocabulary", "100", "--iterations", "2"]
    results = load("acceleration").main([*arguments, "--memory", "64"])
    plain, fused, half = results.values()
    assert fused["mib"] == plain["mib"] == 2 * half["mib"] == 4 * 32 * 64 * 4 / 2**20
    assert plain["batch"] <= fused["batch"] < half["batch"]
    # Sines of angles near 1e6 are right in both; bfloat16 rounds sums of up to 5 once.
    assert plain["error"] == 0 and fused["error"] < 1e-6 and half["error"] <= 2**-6
    assert all(row["ms"] > 0 and row["tokens_per_second"] > 0 for row in results.values())
    printed = capsys.readouterr().out
    assert all(name in printed for name in results) and "sequences fit in place of" in printed


def test_an_example_without_scikit_learn_says_what_it_needs(monkeypatch):
    for module in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        SystemExit, match=r"^digit_sequences: scikit-learn must be installed: pip install scikit-learn$"
    ):
        load("digit_sequences")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_says_what_it_shows_and_how_to_run_it(path):
    tree = ast.parse(path.read_text())
    assert f"python examples/encoding/{path.stem}.py" in ast.get_docstring(tree)
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert any(module.startswith("torch_hrr") for module in modules)
