"""Runs the snippets of a guide."""

import pathlib
import re

import pytest

from torch_hrr import runtime

DOCS = pathlib.Path(__file__).parents[1] / "docs"


def run_snippets(guide, least=10):
    """The names left by all blocks of Python in one namespace; so many are there at least."""
    text = guide.read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    names = {}
    with runtime.GPUContext("cpu"):
        for block in blocks:
            # At its lines of the page, where torch.jit.script finds the source and a traceback points.
            above = text.count("\n", 0, block.start(1))
            exec(compile("\n" * above + block[1], str(guide), "exec"), names)
    assert len(blocks) >= least
    return names


def run_snippets_in(folder, guide):
    """The same in a folder for the files that they write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return run_snippets(guide)


def words_of_code(guide):
    """The words that stand in a guide's code, in its blocks and between backticks: "at" of "that" is none."""
    text = guide.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return {word for code in (*blocks, *re.findall(r"`([^`]+)`", prose)) for word in re.findall(r"\w+", code)}
