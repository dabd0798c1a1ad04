"""Every example runs, prints what it returns, learns, and gives the same figures again."""

import ast
import importlib.util
import pathlib
import re
import sys

import pytest
import torch

pytest.importorskip("sklearn")

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
# Arguments of a short run, and the least figure of each result; guessing gives 0.1, and at most 0.05 of exact matches.
RUNS = {
    "assembly_digits": ([], 0.8),
    "hrr_layers": (["--epochs", "3", "--dim", "64"], 0.5),
    "hrr_multilabel": (["--epochs", "10"], 0.5),
    "hrr_attention": (["--epochs", "4", "--width", "32", "--steps", "8"], 0.5),
}


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figures(results):
    return [figure for value in results.values() for figure in (value if isinstance(value, tuple) else (value,))]


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_example(name, capsys):
    arguments, least = RUNS[name]
    module = load(name)
    results = module.main(arguments)
    printed = re.findall(r"\b[01]\.\d{3}\b", capsys.readouterr().out)
    assert len(results) >= 3 and min(figures(results)) > least
    assert printed == [f"{figure:.3f}" for figure in figures(results)]
    assert module.main(arguments) == results


@pytest.mark.parametrize("name", RUNS)
def test_an_example_without_scikit_learn_says_what_it_needs(name, monkeypatch):
    for module in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match=f"^{name}: scikit-learn must be installed: pip install scikit-learn$"):
        load(name)


@pytest.mark.parametrize("name", RUNS)
def test_an_example_says_what_it_shows_and_how_to_run_it(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert f"python examples/{name}.py" in ast.get_docstring(ast.parse(text))
    modules = [node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    assert any(module.startswith("torch_hrr") for module in modules)


@pytest.mark.parametrize("seed", range(4))
def test_digits_are_read_from_the_winners(seed):
    results = load("assembly_digits").main(["--seed", str(seed)])
    # 0.963 +- 0.005 over 20 seeds, 0.953 the least.
    assert results["winners, ridge"] >= 0.95
    assert results["winners, ridge"] > results["pixels, ridge"] + 0.01


def test_k_neurons_fire_and_their_inputs_are_those_of_the_connectome():
    module = load("assembly_digits")
    images = torch.rand(5, 64).mul(16).round() / 16
    patterns = module.fired(images, 300, 20, 0.1, 3)
    assert patterns.sum(-1).tolist() == [20.0] * 5
    rows = torch.stack([module.connectome_inputs(torch.tensor([i]), 300, 0.1, 3, 0) for i in range(64)])
    assert rows.max() == 1 and abs(float(rows.double().mean()) - 0.1) < 0.02
    inputs = (images.double() @ rows.double()).sort(dim=-1, descending=True, stable=True).indices[:, :20]
    assert [sorted(row) for row in inputs.tolist()] == [row.nonzero().flatten().tolist() for row in patterns]
