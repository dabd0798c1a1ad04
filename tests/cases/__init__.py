"""The cases of every registered operator."""

from cases import (
    assembly,
    assembly_cap,
    assembly_connectome,
    encoding,
    field,
    field_gradient,
    field_moments,
    field_part,
    hierarchy,
    hrr,
    hrr_algebra,
    hrr_spectrum,
)

FLOATING_CASES = (
    *hrr.CASES,
    *hrr_algebra.CASES,
    *hrr_spectrum.CASES,
    *assembly.CASES,
    *assembly_cap.CASES,
    *encoding.CASES,
    *field.CASES,
    *field_gradient.CASES,
    *field_moments.CASES,
    *field_part.CASES,
    *hierarchy.CASES,
)
# What tests ask of numbers and their rounding does not apply to operators of integers.
INTEGER_CASES = (*assembly_connectome.CASES,)
ALL_CASES = (*FLOATING_CASES, *INTEGER_CASES)

# Operators that no lane takes, and why. They have tests of their own.
UNENUMERATED = {
    "torch_hrr::_project_.default": "rounds of a brain, whose state is a list: tests/assembly/test_brain_*.py",
    "torch_hrr::_stimulus_counts_.default": "fills a tensor of a brain's state: tests/assembly/test_stimulus.py",
}
