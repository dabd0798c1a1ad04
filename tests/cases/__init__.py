"""The cases of every registered operator."""

from cases import hrr

ALL_CASES = (*hrr.CASES,)
