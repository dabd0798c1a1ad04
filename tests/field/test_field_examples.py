"""The example of dynamic fields runs, shows what it says, and gives the same figures again."""

import ast
import importlib.util
import math
import pathlib
import re

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "field" / "dynamic_field.py"


def load():
    spec = importlib.util.spec_from_file_location("dynamic_field", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_one_object_is_detected_selected_and_remembered(seed, capsys):
    results = load().main(["--seed", seed])
    counts = {name: count for name, (count, _) in results.items()}
    assert list(counts.values()) == [0, 1, 0, 0, 1, 1] and list(counts)[-1] == "30, gone"
    assert all(error < 1.5 if count else error == math.inf for count, error in results.values())
    printed = re.findall(r"peaks (\d)   error (\S+)$", capsys.readouterr().out, re.MULTILINE)
    assert printed == [(str(count), f"{error:.3f}") for count, error in results.values()]


def test_the_same_seed_gives_the_same_figures(tmp_path):
    pytest.importorskip("matplotlib")
    arguments = ["--excitation", "30", "--noise", "1", "--seed", "5"]
    first = load().main(arguments)
    module = load()
    module.PARTS = {part: (strength, 8) for part, (strength, _) in module.PARTS.items()}
    module.main([*arguments, "--animation", str(tmp_path / "run.gif")])
    assert (tmp_path / "run.gif").read_bytes().startswith(b"GIF89a")
    assert load().main(arguments) == first


def test_the_example_says_what_it_shows_and_how_to_run_it():
    assert "python examples/field/dynamic_field.py" in ast.get_docstring(ast.parse(EXAMPLE.read_text()))
