"""Every operator in plain torch: the readable definition, the benchmarks' peer, and the kernels of other devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_hrr._plain import (
    assembly,
    assembly_connectome,
    assembly_rounds,
    encoding,
    field,
    field_control,
    hierarchy,
    hrr,
)

_HRR = (
    "bind", "unbind", "bind_normalize", "superpose", "bind_superpose", "multibind", "inverse", "unitary", "bind_power",
    "spectrum", "from_spectrum", "bind_spectrum", "unbind_spectrum", "permute", "_bind_backward", "_unbind_backward",
    "_bind_normalize_backward", "_multibind_backward", "_cut_inverse", "_inverse_backward", "_unitary_jacobian",
    "_bind_power_log", "_bind_power_backward", "_power_product", "quantize_rows", "quantized_cleanup",
)  # fmt: skip

OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(hrr, name) for name in _HRR},
    "k_winners": assembly.k_winners,
    "k_cap": assembly.k_cap,
    "_k_cap_backward": assembly._k_cap_backward,
    "connectome_inputs": assembly_connectome.connectome_inputs,
    "project_": assembly_rounds.project_,
    "_project_part_": assembly_rounds.project_part_,
    "_connectome_counts_": assembly_connectome.connectome_counts_,
    "_stimulus_counts_": assembly_connectome.stimulus_counts_,
    "sinusoidal_encoding": encoding.sinusoidal_encoding,
    "sinusoidal_features": encoding.sinusoidal_features,
    "_sinusoidal_features_backward": encoding._sinusoidal_features_backward,
    "rotate": encoding.rotate,
    "rotate_": encoding.rotate_,
    "embed_positions": encoding.embed_positions,
    "field_evolve": field.evolve,
    "_field_evolve_part": field.evolve_part,
    "_field_moments": field.moments,
    "_field_control_": field_control.control_,
    "field_gradient": field.gradient,
    "_field_gradient_backward": field.gradient_backward,
    "gradient_magnitude": field.gradient_magnitude,
    "plastic_scan": hierarchy.plastic_scan,
    "_plastic_scan_backward": hierarchy._plastic_scan_backward,
    "_plastic_scan_tangent": hierarchy._plastic_scan_tangent,
}
"""By the operator's name, with the arguments of its schema but for `out`; one function for all overloads."""
