"""The cases of every registered operator."""

from cases import hrr, hrr_algebra

ALL_CASES = (*hrr.CASES, *hrr_algebra.CASES)
