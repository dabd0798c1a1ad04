// Derivatives of y = s / max(norm2(s), eps) over the last dimension, in differentiable operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

namespace torch_hrr::hrr {

inline at::Tensor in_compute_type(const at::Tensor& tensor) {
  const bool half = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return half ? tensor.to(at::kFloat) : tensor;
}

// J v with J = (I - y y^T) / norm where norm2(s) > eps, else I / eps. J is symmetric: this is the gradient of an
// upstream v as well as the tangent of a perturbation v.
inline at::Tensor normalization_jacobian(const at::Tensor& s, const at::Tensor& v, double eps) {
  const at::Tensor norm = at::linalg_vector_norm(s, 2, {-1}, /*keepdim=*/true);
  const at::Tensor regular = norm > eps;
  const at::Tensor divisor = at::where(regular, norm, at::ones_like(norm));
  const at::Tensor y = s / divisor;
  return at::where(regular, (v - y * (y * v).sum(-1, /*keepdim=*/true)) / divisor, v / eps);
}

} // namespace torch_hrr::hrr
