"""The snippets of pages that belong to no system run in order."""

import pytest
from guide import DOCS, run_snippets


@pytest.mark.parametrize(("page", "least"), [("saving", 3), ("export", 2)])
def test_snippets(page, least):
    run_snippets(DOCS / f"{page}.md", least)
