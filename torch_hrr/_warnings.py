"""Warnings that point at the caller's line."""

import sys
import warnings

_OWN = ("torch_hrr", "torch")


def warn(text: str, category: type[Warning]) -> None:
    """A warning at the first frame outside the package, and outside torch, whose modules may stand between."""
    frame, level = sys._getframe().f_back, 2
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _OWN:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
