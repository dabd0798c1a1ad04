"""The documents render: a row of a table is one line, since a wrapped row ends the table."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = [path for folder in (".", "docs", "bench") for path in sorted((ROOT / folder).glob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_rows_of_tables_are_whole(path):
    fenced, broken = False, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and line.startswith("|") and not line.rstrip().endswith("|"):
            broken.append((number, line))
    assert broken == []
