"""Targets that were set for the assembly operators: none beside the ratios of bench/assembly.py."""

from bench.targets import Target

TARGETS: tuple[Target, ...] = ()
