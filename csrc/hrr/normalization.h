// Derivatives of y = s / max(norm2(s), eps) over the last dimension, in differentiable operators.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <limits>
#include <vector>

namespace torch_hrr::hrr {

inline at::Tensor in_compute_type(const at::Tensor& tensor) {
  const bool half = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return half ? tensor.to(at::kFloat) : tensor;
}

// All of them in their compute type; undefined ones stay undefined.
inline std::vector<at::Tensor> in_compute_type(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> wide;
  for (const at::Tensor& tensor : tensors) {
    wide.push_back(tensor.defined() ? in_compute_type(tensor) : tensor);
  }
  return wide;
}

// x 2^exponent for integral exponents, in two steps because one factor may not be representable.
inline at::Tensor scaled_by_power(const at::Tensor& x, const at::Tensor& exponent) {
  const at::Tensor first = (exponent / 2).floor();
  return x * at::exp2(first) * at::exp2(exponent - first);
}

// J v with J = (I - y y^T) / norm where norm2(s) > eps, else I / eps. J is symmetric: this is the gradient of an
// upstream v as well as the tangent of a perturbation v. Rows are scaled by powers of two first, so that a norm may be
// anything that the type can hold.
inline at::Tensor normalization_jacobian(const at::Tensor& s, const at::Tensor& v, double eps) {
  const double tiny =
      s.scalar_type() == at::kDouble ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  const at::Tensor exponent = -s.detach().abs().amax({-1}, /*keepdim=*/true).clamp_min(tiny).log2().floor();
  const at::Tensor unit = scaled_by_power(s, exponent);
  const at::Tensor norm = at::linalg_vector_norm(unit, 2, {-1}, /*keepdim=*/true);
  const at::Tensor regular = scaled_by_power(norm.to(at::kDouble), -exponent.to(at::kDouble)) > eps;
  const at::Tensor divisor = at::where(regular, norm, at::ones_like(norm));
  const at::Tensor y = unit / divisor;
  const at::Tensor projected = (v - y * (y * v).sum(-1, /*keepdim=*/true)) / divisor;
  return at::where(regular, scaled_by_power(projected, exponent), v / eps);
}

}  // namespace torch_hrr::hrr
