"""The documents render: a row of a table is one line, since a wrapped row ends the table; lists name what there is."""

import pathlib
import re

import pytest
import reliability

import torch_hrr

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = (".", "docs", "docs/dev", "bench", "findings")
DOCUMENTS = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_rows_of_tables_are_whole(path):
    fenced, broken = False, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and line.startswith("|") and not line.rstrip().endswith("|"):
            broken.append((number, line))
    assert broken == []


def test_the_list_of_findings_names_every_script():
    rows = re.findall(r"^\| `(\w+\.sh)` \|", (ROOT / "findings" / "README.md").read_text(), re.MULTILINE)
    assert rows == sorted(path.name for path in (ROOT / "findings").glob("*.sh"))


def test_the_readme_has_the_figures_of_the_page_of_reliability():
    table = reliability.summary(reliability.PAGE.read_text())
    assert f"<!-- reliability: begin -->\n{table}<!-- reliability: end -->" in reliability.README.read_text()
    assert table.count("\n") == 11


def test_the_citation_is_of_this_version():
    assert f"\nversion: {torch_hrr.__version__}\n" in (ROOT / "CITATION.cff").read_text()
