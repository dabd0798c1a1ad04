"""Tables of pages."""

from collections.abc import Iterable, Sequence
from pathlib import Path


def row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(head: str, cells: Iterable[Sequence[str]], left: int = 2) -> str:
    """The columns of `head` are parted by " | "; the first `left` are text, the others numbers."""
    columns = head.split(" | ")
    marks = ["---"] * left + ["---:"] * (len(columns) - left)
    return "\n".join([row(columns), f"|{'|'.join(marks)}|", *map(row, cells)]) + "\n"


def update_document(text: str, name: str, table: str) -> str:
    """The text with everything between the two marks of that name replaced by the table."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    if begin not in text or end not in text:
        raise ValueError(f"the page lacks the marks of {name}")
    return text[: text.index(begin) + len(begin)] + table + text[text.index(end) :]


def update(page: Path, tables: dict[str, str]) -> None:
    text = page.read_text()
    for name, content in tables.items():
        text = update_document(text, name, content)
    page.write_text(text)
