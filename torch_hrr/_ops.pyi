"""The operators `torch.ops.torch_hrr` with the types of their schemas; written by tests/test_stubs.py --update."""

# fmt: off
from collections.abc import Sequence
from typing import Any, overload

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.types import IntLikeType

class _call__bind_backward_default(OpOverload[..., Any]):
    def __call__(self, grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

class _operator__bind_backward(OpOverloadPacket[..., Any]):
    default: _call__bind_backward_default
    def __call__(self, grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

class _call__bind_normalize_backward_default(OpOverload[..., Any]):
    def __call__(self, grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor,
        eps: float) -> tuple[torch.Tensor, torch.Tensor]: ...

class _operator__bind_normalize_backward(OpOverloadPacket[..., Any]):
    default: _call__bind_normalize_backward_default
    def __call__(self, grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor,
        eps: float) -> tuple[torch.Tensor, torch.Tensor]: ...

class _call__bind_power_backward_default(OpOverload[..., Any]):
    def __call__(self, grad: torch.Tensor, a: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor: ...

class _operator__bind_power_backward(OpOverloadPacket[..., Any]):
    default: _call__bind_power_backward_default
    def __call__(self, grad: torch.Tensor, a: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor: ...

class _call__bind_power_log_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, exponent: torch.Tensor, order: int) -> torch.Tensor: ...

class _operator__bind_power_log(OpOverloadPacket[..., Any]):
    default: _call__bind_power_log_default
    def __call__(self, a: torch.Tensor, exponent: torch.Tensor, order: int) -> torch.Tensor: ...

class _call__connectome_counts__default(OpOverload[..., Any]):
    def __call__(self, counts: torch.Tensor, rows: torch.Tensor, first: int, sign: int, p: float, seed: int, fiber: int,
        brain: int = 0) -> None: ...

class _operator__connectome_counts_(OpOverloadPacket[..., Any]):
    default: _call__connectome_counts__default
    def __call__(self, counts: torch.Tensor, rows: torch.Tensor, first: int, sign: int, p: float, seed: int, fiber: int,
        brain: int = 0) -> None: ...

class _call__cut_inverse_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, eps: float) -> torch.Tensor: ...

class _operator__cut_inverse(OpOverloadPacket[..., Any]):
    default: _call__cut_inverse_default
    def __call__(self, a: torch.Tensor, eps: float) -> torch.Tensor: ...

class _call__field_control__default(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, weights: torch.Tensor, state: torch.Tensor, prediction: torch.Tensor,
        key: torch.Tensor, result: torch.Tensor, places: torch.Tensor, sensory: torch.Tensor, reward: torch.Tensor,
        ended: torch.Tensor, decay: float, diffusion: float, discount: float, critic_rate: float, motor_rate: float,
        correlation: float, deviation: float, learns: bool, discrete: bool, dense: bool) -> None: ...

class _operator__field_control_(OpOverloadPacket[..., Any]):
    default: _call__field_control__default
    def __call__(self, field: torch.Tensor, weights: torch.Tensor, state: torch.Tensor, prediction: torch.Tensor,
        key: torch.Tensor, result: torch.Tensor, places: torch.Tensor, sensory: torch.Tensor, reward: torch.Tensor,
        ended: torch.Tensor, decay: float, diffusion: float, discount: float, critic_rate: float, motor_rate: float,
        correlation: float, deviation: float, learns: bool, discrete: bool, dense: bool) -> None: ...

class _call__field_evolve_part_default(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, decay: float, diffusion: float, origin: IntLikeType, depth: IntLikeType,
        boundary: str = "replicate", stencil: str = "laplace", noise: float = 0.0,
        key: torch.Tensor | None = None) -> torch.Tensor: ...

class _call__field_evolve_part_out(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, decay: float, diffusion: float, origin: IntLikeType, depth: IntLikeType,
        boundary: str = "replicate", stencil: str = "laplace", noise: float = 0.0, key: torch.Tensor | None = None, *,
        out: torch.Tensor) -> None: ...

class _operator__field_evolve_part(OpOverloadPacket[..., Any]):
    default: _call__field_evolve_part_default
    out: _call__field_evolve_part_out
    @overload
    def __call__(self, field: torch.Tensor, decay: float, diffusion: float, origin: IntLikeType, depth: IntLikeType,
        boundary: str = "replicate", stencil: str = "laplace", noise: float = 0.0,
        key: torch.Tensor | None = None) -> torch.Tensor: ...
    @overload
    def __call__(self, field: torch.Tensor, decay: float, diffusion: float, origin: IntLikeType, depth: IntLikeType,
        boundary: str = "replicate", stencil: str = "laplace", noise: float = 0.0, key: torch.Tensor | None = None, *,
        out: torch.Tensor) -> None: ...

class _call__field_gradient_backward_default(OpOverload[..., Any]):
    def __call__(self, derivatives: torch.Tensor, normalize: bool = True) -> torch.Tensor: ...

class _operator__field_gradient_backward(OpOverloadPacket[..., Any]):
    default: _call__field_gradient_backward_default
    def __call__(self, derivatives: torch.Tensor, normalize: bool = True) -> torch.Tensor: ...

class _call__field_moments_default(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, small: float) -> torch.Tensor: ...

class _call__field_moments_out(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, small: float, *, out: torch.Tensor) -> None: ...

class _operator__field_moments(OpOverloadPacket[..., Any]):
    default: _call__field_moments_default
    out: _call__field_moments_out
    @overload
    def __call__(self, field: torch.Tensor, small: float) -> torch.Tensor: ...
    @overload
    def __call__(self, field: torch.Tensor, small: float, *, out: torch.Tensor) -> None: ...

class _call__inverse_backward_default(OpOverload[..., Any]):
    def __call__(self, grad: torch.Tensor, a: torch.Tensor, eps: float) -> torch.Tensor: ...

class _operator__inverse_backward(OpOverloadPacket[..., Any]):
    default: _call__inverse_backward_default
    def __call__(self, grad: torch.Tensor, a: torch.Tensor, eps: float) -> torch.Tensor: ...

class _call__k_cap_backward_default(OpOverload[..., Any]):
    def __call__(self, grad: torch.Tensor, inputs: torch.Tensor, k: IntLikeType, temperature: float,
        surrogate: str) -> torch.Tensor: ...

class _operator__k_cap_backward(OpOverloadPacket[..., Any]):
    default: _call__k_cap_backward_default
    def __call__(self, grad: torch.Tensor, inputs: torch.Tensor, k: IntLikeType, temperature: float,
        surrogate: str) -> torch.Tensor: ...

class _call__multibind_backward_default(OpOverload[..., Any]):
    def __call__(self, grad: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor: ...

class _operator__multibind_backward(OpOverloadPacket[..., Any]):
    default: _call__multibind_backward_default
    def __call__(self, grad: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor: ...

class _call__plastic_scan_backward_default(OpOverload[..., Any]):
    def __call__(self, inputs: torch.Tensor, weight: torch.Tensor, theta: torch.Tensor | None,
        grad_outputs: torch.Tensor | None, grad_weight: torch.Tensor | None, grad_theta: torch.Tensor | None,
        for_inputs: bool, rule: str, lr: float, activation: str, every: int, tau: float, decay: float, normalize: bool,
        temperature: float, losers: float, scaled: bool,
        power: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...

class _operator__plastic_scan_backward(OpOverloadPacket[..., Any]):
    default: _call__plastic_scan_backward_default
    def __call__(self, inputs: torch.Tensor, weight: torch.Tensor, theta: torch.Tensor | None,
        grad_outputs: torch.Tensor | None, grad_weight: torch.Tensor | None, grad_theta: torch.Tensor | None,
        for_inputs: bool, rule: str, lr: float, activation: str, every: int, tau: float, decay: float, normalize: bool,
        temperature: float, losers: float, scaled: bool,
        power: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...

class _call__plastic_scan_tangent_default(OpOverload[..., Any]):
    def __call__(self, inputs: torch.Tensor, weight: torch.Tensor, theta: torch.Tensor | None,
        tangent_inputs: torch.Tensor | None, tangent_weight: torch.Tensor | None, tangent_theta: torch.Tensor | None,
        rule: str, lr: float, activation: str, every: int, tau: float, decay: float, normalize: bool,
        temperature: float, losers: float, scaled: bool,
        power: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...

class _operator__plastic_scan_tangent(OpOverloadPacket[..., Any]):
    default: _call__plastic_scan_tangent_default
    def __call__(self, inputs: torch.Tensor, weight: torch.Tensor, theta: torch.Tensor | None,
        tangent_inputs: torch.Tensor | None, tangent_weight: torch.Tensor | None, tangent_theta: torch.Tensor | None,
        rule: str, lr: float, activation: str, every: int, tau: float, decay: float, normalize: bool,
        temperature: float, losers: float, scaled: bool,
        power: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...

class _call__power_product_default(OpOverload[..., Any]):
    def __call__(self, spectra: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor: ...

class _operator__power_product(OpOverloadPacket[..., Any]):
    default: _call__power_product_default
    def __call__(self, spectra: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor: ...

class _call__project_part__default(OpOverload[..., Any]):
    def __call__(self, state: Sequence[torch.Tensor], winners: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor],
        layout: Sequence[int], rates: Sequence[float], first: Sequence[int], seed: int) -> None: ...

class _operator__project_part_(OpOverloadPacket[..., Any]):
    default: _call__project_part__default
    def __call__(self, state: Sequence[torch.Tensor], winners: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor],
        layout: Sequence[int], rates: Sequence[float], first: Sequence[int], seed: int) -> None: ...

class _call__sinusoidal_features_backward_default(OpOverload[..., Any]):
    def __call__(self, grad: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor,
        phase: torch.Tensor | None, layout: str) -> torch.Tensor: ...

class _operator__sinusoidal_features_backward(OpOverloadPacket[..., Any]):
    default: _call__sinusoidal_features_backward_default
    def __call__(self, grad: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor,
        phase: torch.Tensor | None, layout: str) -> torch.Tensor: ...

class _call__stimulus_counts__default(OpOverload[..., Any]):
    def __call__(self, counts: torch.Tensor, size: int, p: float, seed: int, fiber: int, first: int = 0) -> None: ...

class _operator__stimulus_counts_(OpOverloadPacket[..., Any]):
    default: _call__stimulus_counts__default
    def __call__(self, counts: torch.Tensor, size: int, p: float, seed: int, fiber: int, first: int = 0) -> None: ...

class _call__unbind_backward_default(OpOverload[..., Any]):
    def __call__(self, grad: torch.Tensor, bound: torch.Tensor,
        role: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

class _operator__unbind_backward(OpOverloadPacket[..., Any]):
    default: _call__unbind_backward_default
    def __call__(self, grad: torch.Tensor, bound: torch.Tensor,
        role: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

class _call__unitary_jacobian_default(OpOverload[..., Any]):
    def __call__(self, v: torch.Tensor, a: torch.Tensor) -> torch.Tensor: ...

class _operator__unitary_jacobian(OpOverloadPacket[..., Any]):
    default: _call__unitary_jacobian_default
    def __call__(self, v: torch.Tensor, a: torch.Tensor) -> torch.Tensor: ...

class _call_bind_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor: ...

class _call_bind_out(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> None: ...

class _operator_bind(OpOverloadPacket[..., Any]):
    default: _call_bind_default
    out: _call_bind_out
    @overload
    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor: ...
    @overload
    def __call__(self, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> None: ...

class _call_bind_normalize_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, b: torch.Tensor, eps: float = 1e-12) -> torch.Tensor: ...

class _call_bind_normalize_out(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, b: torch.Tensor, eps: float = 1e-12, *, out: torch.Tensor) -> None: ...

class _operator_bind_normalize(OpOverloadPacket[..., Any]):
    default: _call_bind_normalize_default
    out: _call_bind_normalize_out
    @overload
    def __call__(self, a: torch.Tensor, b: torch.Tensor, eps: float = 1e-12) -> torch.Tensor: ...
    @overload
    def __call__(self, a: torch.Tensor, b: torch.Tensor, eps: float = 1e-12, *, out: torch.Tensor) -> None: ...

class _call_bind_power_Tensor(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor: ...

class _call_bind_power_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, exponent: float) -> torch.Tensor: ...

class _operator_bind_power(OpOverloadPacket[..., Any]):
    Tensor: _call_bind_power_Tensor
    default: _call_bind_power_default
    @overload
    def __call__(self, a: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor: ...
    @overload
    def __call__(self, a: torch.Tensor, exponent: float) -> torch.Tensor: ...

class _call_bind_spectrum_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, spectrum: torch.Tensor) -> torch.Tensor: ...

class _operator_bind_spectrum(OpOverloadPacket[..., Any]):
    default: _call_bind_spectrum_default
    def __call__(self, a: torch.Tensor, spectrum: torch.Tensor) -> torch.Tensor: ...

class _call_bind_superpose_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, b: torch.Tensor, weights: torch.Tensor | None = None, normalize: bool = False,
        eps: float = 1e-12) -> torch.Tensor: ...

class _operator_bind_superpose(OpOverloadPacket[..., Any]):
    default: _call_bind_superpose_default
    def __call__(self, a: torch.Tensor, b: torch.Tensor, weights: torch.Tensor | None = None, normalize: bool = False,
        eps: float = 1e-12) -> torch.Tensor: ...

class _call_connectome_inputs_default(OpOverload[..., Any]):
    def __call__(self, winners: torch.Tensor, n: IntLikeType, p: float, seed: int, fiber: int,
        brain: int = 0) -> torch.Tensor: ...

class _operator_connectome_inputs(OpOverloadPacket[..., Any]):
    default: _call_connectome_inputs_default
    def __call__(self, winners: torch.Tensor, n: IntLikeType, p: float, seed: int, fiber: int,
        brain: int = 0) -> torch.Tensor: ...

class _call_embed_positions_default(OpOverload[..., Any]):
    def __call__(self, tokens: torch.Tensor, table: torch.Tensor, positions: torch.Tensor | None = None,
        padding_idx: int = -1, temperature: float = 1.0, base: float = 10000.0, scale: float = 1.0, phase: float = 0.0,
        layout: str = "interleaved", dtype: torch.dtype | None = None) -> torch.Tensor: ...

class _call_embed_positions_out(OpOverload[..., Any]):
    def __call__(self, tokens: torch.Tensor, table: torch.Tensor, positions: torch.Tensor | None = None,
        padding_idx: int = -1, temperature: float = 1.0, base: float = 10000.0, scale: float = 1.0, phase: float = 0.0,
        layout: str = "interleaved", dtype: torch.dtype | None = None, *, out: torch.Tensor) -> None: ...

class _operator_embed_positions(OpOverloadPacket[..., Any]):
    default: _call_embed_positions_default
    out: _call_embed_positions_out
    @overload
    def __call__(self, tokens: torch.Tensor, table: torch.Tensor, positions: torch.Tensor | None = None,
        padding_idx: int = -1, temperature: float = 1.0, base: float = 10000.0, scale: float = 1.0, phase: float = 0.0,
        layout: str = "interleaved", dtype: torch.dtype | None = None) -> torch.Tensor: ...
    @overload
    def __call__(self, tokens: torch.Tensor, table: torch.Tensor, positions: torch.Tensor | None = None,
        padding_idx: int = -1, temperature: float = 1.0, base: float = 10000.0, scale: float = 1.0, phase: float = 0.0,
        layout: str = "interleaved", dtype: torch.dtype | None = None, *, out: torch.Tensor) -> None: ...

class _call_field_evolve_Tensor(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, decay: torch.Tensor, diffusion: torch.Tensor, steps: IntLikeType = 1,
        boundary: str = "replicate", stencil: str = "laplace", noise: float = 0.0,
        key: torch.Tensor | None = None) -> torch.Tensor: ...

class _call_field_evolve_default(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, decay: float, diffusion: float, steps: IntLikeType = 1,
        boundary: str = "replicate", stencil: str = "laplace", noise: float = 0.0,
        key: torch.Tensor | None = None) -> torch.Tensor: ...

class _call_field_evolve_out(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, decay: float, diffusion: float, steps: IntLikeType = 1,
        boundary: str = "replicate", stencil: str = "laplace", noise: float = 0.0, key: torch.Tensor | None = None, *,
        out: torch.Tensor) -> None: ...

class _operator_field_evolve(OpOverloadPacket[..., Any]):
    Tensor: _call_field_evolve_Tensor
    default: _call_field_evolve_default
    out: _call_field_evolve_out
    @overload
    def __call__(self, field: torch.Tensor, decay: torch.Tensor, diffusion: torch.Tensor, steps: IntLikeType = 1,
        boundary: str = "replicate", stencil: str = "laplace", noise: float = 0.0,
        key: torch.Tensor | None = None) -> torch.Tensor: ...
    @overload
    def __call__(self, field: torch.Tensor, decay: float, diffusion: float, steps: IntLikeType = 1,
        boundary: str = "replicate", stencil: str = "laplace", noise: float = 0.0,
        key: torch.Tensor | None = None) -> torch.Tensor: ...
    @overload
    def __call__(self, field: torch.Tensor, decay: float, diffusion: float, steps: IntLikeType = 1,
        boundary: str = "replicate", stencil: str = "laplace", noise: float = 0.0, key: torch.Tensor | None = None, *,
        out: torch.Tensor) -> None: ...

class _call_field_gradient_default(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, normalize: bool = True) -> torch.Tensor: ...

class _call_field_gradient_out(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, normalize: bool = True, *, out: torch.Tensor) -> None: ...

class _operator_field_gradient(OpOverloadPacket[..., Any]):
    default: _call_field_gradient_default
    out: _call_field_gradient_out
    @overload
    def __call__(self, field: torch.Tensor, normalize: bool = True) -> torch.Tensor: ...
    @overload
    def __call__(self, field: torch.Tensor, normalize: bool = True, *, out: torch.Tensor) -> None: ...

class _call_from_spectrum_default(OpOverload[..., Any]):
    def __call__(self, spectrum: torch.Tensor) -> torch.Tensor: ...

class _operator_from_spectrum(OpOverloadPacket[..., Any]):
    default: _call_from_spectrum_default
    def __call__(self, spectrum: torch.Tensor) -> torch.Tensor: ...

class _call_gradient_magnitude_default(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, normalize: bool = True) -> torch.Tensor: ...

class _call_gradient_magnitude_out(OpOverload[..., Any]):
    def __call__(self, field: torch.Tensor, normalize: bool = True, *, out: torch.Tensor) -> None: ...

class _operator_gradient_magnitude(OpOverloadPacket[..., Any]):
    default: _call_gradient_magnitude_default
    out: _call_gradient_magnitude_out
    @overload
    def __call__(self, field: torch.Tensor, normalize: bool = True) -> torch.Tensor: ...
    @overload
    def __call__(self, field: torch.Tensor, normalize: bool = True, *, out: torch.Tensor) -> None: ...

class _call_inverse_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, eps: float = 0.0) -> torch.Tensor: ...

class _operator_inverse(OpOverloadPacket[..., Any]):
    default: _call_inverse_default
    def __call__(self, a: torch.Tensor, eps: float = 0.0) -> torch.Tensor: ...

class _call_k_cap_default(OpOverload[..., Any]):
    def __call__(self, inputs: torch.Tensor, k: IntLikeType, temperature: float = 1.0, surrogate: str = "sigmoid",
        soft: bool = False) -> torch.Tensor: ...

class _operator_k_cap(OpOverloadPacket[..., Any]):
    default: _call_k_cap_default
    def __call__(self, inputs: torch.Tensor, k: IntLikeType, temperature: float = 1.0, surrogate: str = "sigmoid",
        soft: bool = False) -> torch.Tensor: ...

class _call_k_winners_default(OpOverload[..., Any]):
    def __call__(self, inputs: torch.Tensor, k: IntLikeType,
        sorted: bool = False) -> tuple[torch.Tensor, torch.Tensor]: ...

class _operator_k_winners(OpOverloadPacket[..., Any]):
    default: _call_k_winners_default
    def __call__(self, inputs: torch.Tensor, k: IntLikeType,
        sorted: bool = False) -> tuple[torch.Tensor, torch.Tensor]: ...

class _call_multibind_default(OpOverload[..., Any]):
    def __call__(self, vectors: torch.Tensor) -> torch.Tensor: ...

class _operator_multibind(OpOverloadPacket[..., Any]):
    default: _call_multibind_default
    def __call__(self, vectors: torch.Tensor) -> torch.Tensor: ...

class _call_permute_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor, seed: int, power: int = 1) -> torch.Tensor: ...

class _operator_permute(OpOverloadPacket[..., Any]):
    default: _call_permute_default
    def __call__(self, a: torch.Tensor, seed: int, power: int = 1) -> torch.Tensor: ...

class _call_plastic_scan_default(OpOverload[..., Any]):
    def __call__(self, inputs: torch.Tensor, weight: torch.Tensor, rule: str = "oja", lr: float = 0.001,
        activation: str = "tanh", every: int = 1, theta: torch.Tensor | None = None, tau: float = 100.0,
        decay: float = 0.0, normalize: bool = False, temperature: float = 1.0, losers: float = 1.0,
        scaled: bool = False, power: float = 0.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...

class _operator_plastic_scan(OpOverloadPacket[..., Any]):
    default: _call_plastic_scan_default
    def __call__(self, inputs: torch.Tensor, weight: torch.Tensor, rule: str = "oja", lr: float = 0.001,
        activation: str = "tanh", every: int = 1, theta: torch.Tensor | None = None, tau: float = 100.0,
        decay: float = 0.0, normalize: bool = False, temperature: float = 1.0, losers: float = 1.0,
        scaled: bool = False, power: float = 0.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...

class _call_project__default(OpOverload[..., Any]):
    def __call__(self, state: Sequence[torch.Tensor], layout: Sequence[int], rates: Sequence[float],
        seed: int) -> None: ...

class _operator_project_(OpOverloadPacket[..., Any]):
    default: _call_project__default
    def __call__(self, state: Sequence[torch.Tensor], layout: Sequence[int], rates: Sequence[float],
        seed: int) -> None: ...

class _call_quantize_rows_default(OpOverload[..., Any]):
    def __call__(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

class _operator_quantize_rows(OpOverloadPacket[..., Any]):
    default: _call_quantize_rows_default
    def __call__(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

class _call_quantized_cleanup_default(OpOverload[..., Any]):
    def __call__(self, query: torch.Tensor, rows: torch.Tensor, codes: torch.Tensor, bounds: torch.Tensor,
        order: torch.Tensor | None, top_k: IntLikeType) -> tuple[torch.Tensor, torch.Tensor]: ...

class _operator_quantized_cleanup(OpOverloadPacket[..., Any]):
    default: _call_quantized_cleanup_default
    def __call__(self, query: torch.Tensor, rows: torch.Tensor, codes: torch.Tensor, bounds: torch.Tensor,
        order: torch.Tensor | None, top_k: IntLikeType) -> tuple[torch.Tensor, torch.Tensor]: ...

class _call_rotate_default(OpOverload[..., Any]):
    def __call__(self, x: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor | None = None,
        base: float = 10000.0, scale: float = 1.0, layout: str = "interleaved", factor: float = 1.0,
        dims: IntLikeType | None = None, inverse: bool = False) -> torch.Tensor: ...

class _call_rotate_out(OpOverload[..., Any]):
    def __call__(self, x: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor | None = None,
        base: float = 10000.0, scale: float = 1.0, layout: str = "interleaved", factor: float = 1.0,
        dims: IntLikeType | None = None, inverse: bool = False, *, out: torch.Tensor) -> None: ...

class _operator_rotate(OpOverloadPacket[..., Any]):
    default: _call_rotate_default
    out: _call_rotate_out
    @overload
    def __call__(self, x: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor | None = None,
        base: float = 10000.0, scale: float = 1.0, layout: str = "interleaved", factor: float = 1.0,
        dims: IntLikeType | None = None, inverse: bool = False) -> torch.Tensor: ...
    @overload
    def __call__(self, x: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor | None = None,
        base: float = 10000.0, scale: float = 1.0, layout: str = "interleaved", factor: float = 1.0,
        dims: IntLikeType | None = None, inverse: bool = False, *, out: torch.Tensor) -> None: ...

class _call_rotate__default(OpOverload[..., Any]):
    def __call__(self, x: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor | None = None,
        base: float = 10000.0, scale: float = 1.0, layout: str = "interleaved", factor: float = 1.0,
        dims: IntLikeType | None = None, inverse: bool = False) -> None: ...

class _operator_rotate_(OpOverloadPacket[..., Any]):
    default: _call_rotate__default
    def __call__(self, x: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor | None = None,
        base: float = 10000.0, scale: float = 1.0, layout: str = "interleaved", factor: float = 1.0,
        dims: IntLikeType | None = None, inverse: bool = False) -> None: ...

class _call_sinusoidal_encoding_default(OpOverload[..., Any]):
    def __call__(self, positions: torch.Tensor, dim: IntLikeType, base: float = 10000.0, scale: float = 1.0,
        phase: float = 0.0, layout: str = "interleaved", dtype: torch.dtype | None = None) -> torch.Tensor: ...

class _call_sinusoidal_encoding_out(OpOverload[..., Any]):
    def __call__(self, positions: torch.Tensor, dim: IntLikeType, base: float = 10000.0, scale: float = 1.0,
        phase: float = 0.0, layout: str = "interleaved", dtype: torch.dtype | None = None, *,
        out: torch.Tensor) -> None: ...

class _operator_sinusoidal_encoding(OpOverloadPacket[..., Any]):
    default: _call_sinusoidal_encoding_default
    out: _call_sinusoidal_encoding_out
    @overload
    def __call__(self, positions: torch.Tensor, dim: IntLikeType, base: float = 10000.0, scale: float = 1.0,
        phase: float = 0.0, layout: str = "interleaved", dtype: torch.dtype | None = None) -> torch.Tensor: ...
    @overload
    def __call__(self, positions: torch.Tensor, dim: IntLikeType, base: float = 10000.0, scale: float = 1.0,
        phase: float = 0.0, layout: str = "interleaved", dtype: torch.dtype | None = None, *,
        out: torch.Tensor) -> None: ...

class _call_sinusoidal_features_default(OpOverload[..., Any]):
    def __call__(self, positions: torch.Tensor, frequencies: torch.Tensor, phase: torch.Tensor | None = None,
        layout: str = "interleaved", dtype: torch.dtype | None = None) -> torch.Tensor: ...

class _call_sinusoidal_features_out(OpOverload[..., Any]):
    def __call__(self, positions: torch.Tensor, frequencies: torch.Tensor, phase: torch.Tensor | None = None,
        layout: str = "interleaved", dtype: torch.dtype | None = None, *, out: torch.Tensor) -> None: ...

class _operator_sinusoidal_features(OpOverloadPacket[..., Any]):
    default: _call_sinusoidal_features_default
    out: _call_sinusoidal_features_out
    @overload
    def __call__(self, positions: torch.Tensor, frequencies: torch.Tensor, phase: torch.Tensor | None = None,
        layout: str = "interleaved", dtype: torch.dtype | None = None) -> torch.Tensor: ...
    @overload
    def __call__(self, positions: torch.Tensor, frequencies: torch.Tensor, phase: torch.Tensor | None = None,
        layout: str = "interleaved", dtype: torch.dtype | None = None, *, out: torch.Tensor) -> None: ...

class _call_spectrum_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor) -> torch.Tensor: ...

class _operator_spectrum(OpOverloadPacket[..., Any]):
    default: _call_spectrum_default
    def __call__(self, a: torch.Tensor) -> torch.Tensor: ...

class _call_superpose_default(OpOverload[..., Any]):
    def __call__(self, vectors: torch.Tensor, weights: torch.Tensor | None = None, normalize: bool = True,
        eps: float = 1e-12) -> torch.Tensor: ...

class _call_superpose_out(OpOverload[..., Any]):
    def __call__(self, vectors: torch.Tensor, weights: torch.Tensor | None = None, normalize: bool = True,
        eps: float = 1e-12, *, out: torch.Tensor) -> None: ...

class _operator_superpose(OpOverloadPacket[..., Any]):
    default: _call_superpose_default
    out: _call_superpose_out
    @overload
    def __call__(self, vectors: torch.Tensor, weights: torch.Tensor | None = None, normalize: bool = True,
        eps: float = 1e-12) -> torch.Tensor: ...
    @overload
    def __call__(self, vectors: torch.Tensor, weights: torch.Tensor | None = None, normalize: bool = True,
        eps: float = 1e-12, *, out: torch.Tensor) -> None: ...

class _call_unbind_default(OpOverload[..., Any]):
    def __call__(self, bound: torch.Tensor, role: torch.Tensor) -> torch.Tensor: ...

class _call_unbind_out(OpOverload[..., Any]):
    def __call__(self, bound: torch.Tensor, role: torch.Tensor, *, out: torch.Tensor) -> None: ...

class _operator_unbind(OpOverloadPacket[..., Any]):
    default: _call_unbind_default
    out: _call_unbind_out
    @overload
    def __call__(self, bound: torch.Tensor, role: torch.Tensor) -> torch.Tensor: ...
    @overload
    def __call__(self, bound: torch.Tensor, role: torch.Tensor, *, out: torch.Tensor) -> None: ...

class _call_unbind_spectrum_default(OpOverload[..., Any]):
    def __call__(self, bound: torch.Tensor, spectrum: torch.Tensor) -> torch.Tensor: ...

class _operator_unbind_spectrum(OpOverloadPacket[..., Any]):
    default: _call_unbind_spectrum_default
    def __call__(self, bound: torch.Tensor, spectrum: torch.Tensor) -> torch.Tensor: ...

class _call_unitary_default(OpOverload[..., Any]):
    def __call__(self, a: torch.Tensor) -> torch.Tensor: ...

class _operator_unitary(OpOverloadPacket[..., Any]):
    default: _call_unitary_default
    def __call__(self, a: torch.Tensor) -> torch.Tensor: ...

class _Operators:
    _bind_backward: _operator__bind_backward
    _bind_normalize_backward: _operator__bind_normalize_backward
    _bind_power_backward: _operator__bind_power_backward
    _bind_power_log: _operator__bind_power_log
    _connectome_counts_: _operator__connectome_counts_
    _cut_inverse: _operator__cut_inverse
    _field_control_: _operator__field_control_
    _field_evolve_part: _operator__field_evolve_part
    _field_gradient_backward: _operator__field_gradient_backward
    _field_moments: _operator__field_moments
    _inverse_backward: _operator__inverse_backward
    _k_cap_backward: _operator__k_cap_backward
    _multibind_backward: _operator__multibind_backward
    _plastic_scan_backward: _operator__plastic_scan_backward
    _plastic_scan_tangent: _operator__plastic_scan_tangent
    _power_product: _operator__power_product
    _project_part_: _operator__project_part_
    _sinusoidal_features_backward: _operator__sinusoidal_features_backward
    _stimulus_counts_: _operator__stimulus_counts_
    _unbind_backward: _operator__unbind_backward
    _unitary_jacobian: _operator__unitary_jacobian
    bind: _operator_bind
    bind_normalize: _operator_bind_normalize
    bind_power: _operator_bind_power
    bind_spectrum: _operator_bind_spectrum
    bind_superpose: _operator_bind_superpose
    connectome_inputs: _operator_connectome_inputs
    embed_positions: _operator_embed_positions
    field_evolve: _operator_field_evolve
    field_gradient: _operator_field_gradient
    from_spectrum: _operator_from_spectrum
    gradient_magnitude: _operator_gradient_magnitude
    inverse: _operator_inverse
    k_cap: _operator_k_cap
    k_winners: _operator_k_winners
    multibind: _operator_multibind
    permute: _operator_permute
    plastic_scan: _operator_plastic_scan
    project_: _operator_project_
    quantize_rows: _operator_quantize_rows
    quantized_cleanup: _operator_quantized_cleanup
    rotate: _operator_rotate
    rotate_: _operator_rotate_
    sinusoidal_encoding: _operator_sinusoidal_encoding
    sinusoidal_features: _operator_sinusoidal_features
    spectrum: _operator_spectrum
    superpose: _operator_superpose
    unbind: _operator_unbind
    unbind_spectrum: _operator_unbind_spectrum
    unitary: _operator_unitary

ops: _Operators
