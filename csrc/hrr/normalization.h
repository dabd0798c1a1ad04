// Derivatives of y = s / max(norm2(s), eps) over the last dimension, in differentiable operators.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <limits>

namespace torch_hrr::hrr {

// x 2^exponent for integral exponents, in two steps because one factor may not be representable.
inline at::Tensor scaled_by_power(const at::Tensor& x, const at::Tensor& exponent) {
  const at::Tensor first = (exponent / 2).floor();
  return x * at::exp2(first) * at::exp2(exponent - first);
}

// J v with J = (I - y y^T) / norm where norm2(s) > eps, else I / eps, and 0 at s = 0, where 1 / eps would leave the
// range of the half types and outweigh every other row. J is symmetric: this is the gradient of an upstream v as well
// as the tangent of a perturbation v. Rows are scaled by powers of two first, so that a norm may be anything that the
// type can hold.
inline at::Tensor normalization_jacobian(const at::Tensor& s, const at::Tensor& v, double eps) {
  const bool in_double = s.scalar_type() == at::kDouble;
  const double tiny = in_double ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  const double largest = in_double ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const at::Tensor exponent = -s.detach().abs().amax({-1}, /*keepdim=*/true).clamp_min(tiny).log2().floor();
  const at::Tensor unit = scaled_by_power(s, exponent);
  const at::Tensor norm = at::linalg_vector_norm(unit, 2, {-1}, /*keepdim=*/true);
  const at::Tensor regular = scaled_by_power(norm.to(at::kDouble), -exponent.to(at::kDouble)) > eps;
  const at::Tensor divisor = at::where(regular, norm, at::ones_like(norm));
  const at::Tensor y = unit / divisor;
  const at::Tensor projected = (v - y * (y * v).sum(-1, /*keepdim=*/true)) / divisor;
  // Regular rows are divided by 1: the derivative of what is not chosen must be finite, too.
  const double least = eps > largest ? std::numeric_limits<double>::infinity() : eps;
  const at::Tensor floor = at::ones_like(norm).masked_fill(regular.logical_not(), least);
  const at::Tensor clamped = eps > 0 ? (v / floor).masked_fill(norm == 0, 0) : v / floor;
  return at::where(regular, scaled_by_power(projected, exponent), clamped);
}

}  // namespace torch_hrr::hrr
