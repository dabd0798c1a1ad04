"""The cases of every registered operator."""

from cases import assembly, hrr, hrr_algebra, hrr_spectrum

ALL_CASES = (*hrr.CASES, *hrr_algebra.CASES, *hrr_spectrum.CASES, *assembly.CASES)
