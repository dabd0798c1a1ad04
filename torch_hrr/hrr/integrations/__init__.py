"""Bridges from other libraries: what they hold becomes vectors of this one. None of them is imported or needed here."""

from torch_hrr.hrr.integrations import holovec, nengo_spa, phases, pyhdc, torchhd

__all__ = ["holovec", "nengo_spa", "phases", "pyhdc", "torchhd"]
