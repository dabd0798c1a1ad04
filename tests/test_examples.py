"""Every example runs, prints what it returns, learns, and gives the same figures again."""

import ast
import importlib.util
import pathlib
import re
import sys

import pytest

pytest.importorskip("sklearn")

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
# Arguments of a short run, and the least figure of each result; guessing gives 0.1, and at most 0.05 of exact matches.
RUNS = {
    "hrr_layers": (["--epochs", "3", "--dim", "64"], 0.5),
    "hrr_multilabel": (["--epochs", "10"], 0.5),
    "hrr_attention": (["--epochs", "4", "--width", "32", "--steps", "8"], 0.5),
    "hrr_memory": (["--records", "600", "--queries", "20", "--dim", "512"], 0.9),
    "pipelines/digits": (["--epochs", "6"], 0.9),
}


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figures(results):
    return [figure for value in results.values() for figure in (value if isinstance(value, tuple) else (value,))]


def test_every_example_is_run():
    paths = [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("pipelines/*.py")]
    assert {str(path.relative_to(EXAMPLES).with_suffix("")) for path in paths} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_example(name, capsys):
    arguments, least = RUNS[name]
    module = load(name)
    results = module.main(arguments)
    printed = re.findall(r"\b[01]\.\d{3}\b", capsys.readouterr().out)
    assert len(results) >= 3 and min(figures(results)) > least
    assert printed == [f"{figure:.3f}" for figure in figures(results)]
    assert module.main(arguments) == results


@pytest.mark.parametrize("name", sorted(RUNS.keys() - {"hrr_memory"}))
def test_an_example_without_scikit_learn_says_what_it_needs(name, monkeypatch):
    for module in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        SystemExit, match=f"^{pathlib.Path(name).name}: scikit-learn must be installed: pip install scikit-learn$"
    ):
        load(name)


@pytest.mark.parametrize("name", RUNS)
def test_an_example_says_what_it_shows_and_how_to_run_it(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert f"python examples/{name}.py" in ast.get_docstring(ast.parse(text))
    assert re.search(r"^(from|import) torch_hrr\b", text, re.MULTILINE)
