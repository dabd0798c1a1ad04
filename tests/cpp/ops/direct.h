// The operators' definitions in plain tensor arithmetic: independent of any FFT, and differentiable by torch itself.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "torch_hrr/torch_hrr.h"

namespace torch_hrr::testing {

using at::Tensor;

inline bool near(const Tensor& got, const Tensor& want, double tolerance) {
  return got.sizes() == want.sizes() && (got.to(at::kDouble) - want).abs().max().item<double>() <= tolerance;
}

// x[..., (n + sign m) mod D] as [..., D, D] over n and m
inline Tensor shifted(const Tensor& x, int64_t sign) {
  const int64_t dim = x.size(-1);
  const Tensor n = at::arange(dim);
  const Tensor index = (n.unsqueeze(1) + sign * n.unsqueeze(0)).remainder(dim).flatten();
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  sizes.push_back(dim);
  return x.index_select(-1, index).view(sizes);
}

// c[n] = sum_m a[m] b[(n-m) mod D]
inline Tensor direct_bind(const Tensor& a, const Tensor& b) {
  return (a.unsqueeze(-2) * shifted(b, -1)).sum(-1);
}

// c[n] = sum_m bound[(n+m) mod D] role[m]
inline Tensor direct_unbind(const Tensor& bound, const Tensor& role) {
  return (shifted(bound, 1) * role.unsqueeze(-2)).sum(-1);
}

// x / max(norm2, eps)
inline Tensor direct_normalize(const Tensor& x, double eps = 1e-12) {
  return x / x.norm(2, {-1}, /*keepdim=*/true).clamp_min(eps);
}

// sum_k w_k x_k
inline Tensor direct_superpose(const Tensor& x, const std::optional<Tensor>& weights) {
  return (weights.has_value() ? x * weights->unsqueeze(-1) : x).sum(-2);
}

inline Tensor random(at::IntArrayRef sizes, uint64_t seed, at::ScalarType dtype = at::kDouble) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble)).to(dtype);
}

// Largest error relative to the root mean square of the expected values.
inline double relative_error(const Tensor& got, const Tensor& want) {
  EXPECT_EQ(got.sizes(), want.sizes());
  if (got.sizes() != want.sizes()) {
    return std::numeric_limits<double>::infinity();
  }
  const Tensor wide = want.to(at::kDouble);
  const double scale = wide.square().mean().sqrt().item<double>();
  const double error = (got.to(at::kDouble) - wide).abs().max().item<double>();
  return scale == 0 ? error : error / scale;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

}  // namespace torch_hrr::testing
