"""The cases of every registered operator."""

from cases import (
    assembly,
    assembly_cap,
    assembly_connectome,
    encoding,
    encoding_rotation,
    field,
    field_gradient,
    field_moments,
    field_part,
    hierarchy,
    hrr,
    hrr_algebra,
    hrr_spectrum,
)

SYSTEMS = {
    "hrr": hrr.CASES,
    "algebra": (*hrr_algebra.CASES, *hrr_spectrum.CASES),
    "assembly": (*assembly.CASES, *assembly_cap.CASES, *assembly_connectome.CASES),
    "encoding": (*encoding.CASES, *encoding_rotation.CASES),
    "field": (*field.CASES, *field_gradient.CASES, *field_moments.CASES, *field_part.CASES),
    "hierarchy": hierarchy.CASES,
}
ALL_CASES = tuple(case for cases in SYSTEMS.values() for case in cases)
# What tests ask of numbers and their rounding does not apply to operators of integers.
INTEGER_CASES = assembly_connectome.CASES
FLOATING_CASES = tuple(case for case in ALL_CASES if case.integer_dtype is None)

# Operators that no lane takes, and why. They have tests of their own.
UNENUMERATED = {
    "torch_hrr::quantize_rows.default": "gives codes and bounds: tests/hrr/test_quantized_cleanup.py",
    "torch_hrr::quantized_cleanup.default": "takes the codes of its rows: tests/hrr/test_quantized_cleanup.py",
    "torch_hrr::project_.default": "writes into a list, the state of brains: tests/assembly/test_projection.py",
    "torch_hrr::_project_part_.default": "the same, of a part of a brain: tests/assembly/test_project_part.py",
    "torch_hrr::rotate_.default": "writes into x: tests/encoding/test_rotation.py",
    "torch_hrr::_field_control_.default": "writes into a robot's state: tests/field/test_control.py",
    "torch_hrr::_connectome_counts_.default": "adds to a brain's counts: tests/assembly/test_connectome_inputs.py",
    "torch_hrr::_stimulus_counts_.default": "fills a tensor of a brain's state: tests/assembly/test_stimulus.py",
}
