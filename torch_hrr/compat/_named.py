"""Errors of a call in the name of the one that the user made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch_hrr._checks import renamed


@contextlib.contextmanager
def named(inner: str, own: str) -> Iterator[None]:
    """Errors that begin with the name `inner` begin with `own`."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as error:
        raise renamed(error, inner, own) from None
