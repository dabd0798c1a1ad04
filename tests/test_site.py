"""The site can be made: links lead somewhere, every page is listed, and the settings of Sphinx load."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
FOLDERS = (".", "docs", "docs/dev", "bench", "kernels")
PAGES = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))]
LINK = re.compile(r"\[[^]]+\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")


@pytest.fixture(scope="module")
def conf():
    """docs/conf.py, which needs Sphinx only when it is set up."""
    spec = importlib.util.spec_from_file_location("conf", DOCS / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prose(path):
    """A page without its code."""
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """Names of headings as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    broken = []
    for target, anchor in LINK.findall(prose(path)):
        aim = (path.parent / target).resolve() if target else path
        if not aim.exists() or (anchor and anchor not in anchors(aim)):
            broken.append(f"{target}#{anchor}")
    assert broken == []


@pytest.mark.parametrize(
    ("source", "page", "link", "expected"),
    [
        ("docs/speed.md", "speed.md", "[x](../bench/README.md)", "[x](project/benchmarks.md)"),
        ("docs/speed.md", "speed.md", "[x](hrr.md#accuracy)", "[x](hrr.md#accuracy)"),
        ("docs/field.md", "field.md", "[x](../examples/hrr_layers.py)", "[x](gallery/hrr/hrr_layers.rst)"),
        ("docs/field.md", "field.md", "[x](../examples/encoding)", "[x](gallery/index.rst)"),
        (
            "docs/hierarchy.md",
            "hierarchy.md",
            "[x](../examples/hierarchy/laser.py)",
            "[x](gallery/hierarchy/hierarchy_laser.rst)",
        ),
        ("docs/field.md", "field.md", "[x](../csrc)", "x"),
        ("CONTRIBUTING.md", "project/contributing.md", "[x](docs/hrr.md)", "[x](../hrr.md)"),
        ("README.md", "start/readme.md", "![x](docs/overview.svg)", "![x](../overview.svg)"),
        ("README.md", "start/readme.md", "[x](#cuda)", "[x](#cuda)"),
    ],
)
def test_links_lead_somewhere_in_the_site(conf, source, page, link, expected):
    """A link to what the site does not hold under its name on GitHub is led to where it does."""
    assert conf.linked(link, ROOT / source, DOCS / page) == expected


def test_every_page_is_listed_once(conf):
    index = conf.guides_that_no_other_list_names((DOCS / "index.md").read_text())
    listed = [
        re.sub(r".*<(.*)>", r"\1", name)
        for block in re.findall(r"^```{toctree}\n(.*?)^```$", index, re.MULTILINE | re.DOTALL)
        for name in block.split("\n")
        if name and not name.startswith(":")
    ]
    guides = [name for name in listed if "/" not in name]
    assert sorted(guides) == sorted(path.stem for path in DOCS.glob("*.md") if path.stem != "index")
    folders = {path.parent.name for path in DOCS.glob("*/*.md")}
    assert folders - {"gallery", "reference", "start"} <= {name.removesuffix("/*") for name in listed}
    assert {"gallery/index", "reference", "start/readme"} <= set(listed)


def test_the_reference_names_every_public_module(conf):
    test_api = importlib.import_module("test_api")
    public = {module.__name__ for module in test_api.public_modules()}
    assert set(conf.REFERENCE) == {name for name in public if ".compat." not in name} - {"torch_hrr.hrr.integrations"}


def test_the_gallery_names_examples_that_exist(conf):
    found = {path.relative_to(ROOT / "examples").as_posix() for path in (ROOT / "examples").rglob("*.py")}
    assert conf.EXAMPLES_RUN.keys() | conf.EXAMPLES_SHOWN.keys() <= found
    assert not conf.EXAMPLES_RUN.keys() & conf.EXAMPLES_SHOWN.keys()


def test_no_two_examples_have_one_name_in_the_gallery(conf):
    """Their figures lie in one folder of the site, by their names."""
    examples = [path.relative_to(ROOT / "examples") for path in (ROOT / "examples").rglob("*.py")]
    names = [conf.in_gallery(example).name for example in examples]
    assert len(set(names)) == len(names) > 10


@pytest.mark.skipif(os.environ.get("TORCH_HRR_TEST_ALL") != "1", reason="minutes: make test-all")
def test_the_site_is_made_without_a_warning(tmp_path):
    for needed in ("sphinx", "furo", "myst_parser", "sphinx_gallery", "reservoirpy"):
        pytest.importorskip(needed)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert finished.returncode == 0, finished.stderr
