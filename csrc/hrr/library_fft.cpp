// Binding of long rows by at::fft_rfft and at::fft_irfft with exact power-of-two scaling.
#include "csrc/hrr/library_fft.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace torch_hrr::hrr {
namespace {

at::ScalarType compute_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

// max |x|, NaN if an element is NaN or infinite
double largest_magnitude(const at::Tensor& x) {
  const double largest = x.numel() == 0 ? 0 : x.abs().max().item<double>();
  return std::isfinite(largest) ? largest : std::numeric_limits<double>::quiet_NaN();
}

int unit_exponent(double magnitude) {
  return magnitude == 0 ? 0 : -std::ilogb(magnitude);
}

// x 2^exponent, in steps that each type can represent
at::Tensor scaled(const at::Tensor& x, int exponent) {
  return x.mul(std::ldexp(1.0, exponent / 2)).mul(std::ldexp(1.0, exponent - exponent / 2));
}

void record_row(const at::Tensor& a, const at::Tensor& b, const at::Tensor& weights, kernels::Product product,
                bool normalize, double eps, const at::Tensor& out) {
  const int64_t dim = out.size(0);
  const at::ScalarType type = compute_type(out.scalar_type());
  const double largest_a = largest_magnitude(a);
  const double largest_b = largest_magnitude(b);
  const double largest_weight = weights.defined() ? largest_magnitude(weights) : 1;
  if (!std::isfinite(largest_a + largest_b + largest_weight)) {
    out.fill_(std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const int exponent_a = unit_exponent(largest_a);
  const int exponent_b = unit_exponent(largest_b);
  const int exponent_weight = unit_exponent(largest_weight);
  at::Tensor sum;
  for (int64_t k = 0; k < a.size(0); ++k) {
    const at::Tensor spectrum_a = at::fft_rfft(scaled(a.select(0, k).to(type), exponent_a));
    at::Tensor spectrum_b = at::fft_rfft(scaled(b.select(0, k).to(type), exponent_b));
    if (product == kernels::Product::kCorrelation) {
      spectrum_b = spectrum_b.conj();
    }
    at::Tensor term = spectrum_a.mul(spectrum_b);
    if (weights.defined()) {
      term = term.mul(std::ldexp(weights.select(0, k).item<double>(), exponent_weight));
    }
    sum = sum.defined() ? sum.add_(term) : term;
  }
  at::Tensor c = sum.defined() ? at::fft_irfft(sum, dim) : at::zeros({dim}, out.options().dtype(type));
  const int exponent = exponent_a + exponent_b + (weights.defined() ? exponent_weight : 0);
  if (!normalize) {
    out.copy_(scaled(c, -exponent));
    return;
  }
  const int shift = unit_exponent(largest_magnitude(c));
  c = scaled(c, shift);
  const double norm = at::linalg_vector_norm(c).item<double>();
  if (norm > std::ldexp(eps, exponent + shift)) {
    out.copy_(c.div(norm));
  } else {
    out.copy_(scaled(c.to(at::kDouble), -(exponent + shift)).div(eps));
  }
}

} // namespace

void library_record(const at::Tensor& a, const at::Tensor& b, const at::Tensor& weights, kernels::Product product,
                    bool normalize, double eps, const at::Tensor& out) {
  // A single row would run outside a parallel region, where the library may use several threads and other bits; a range
  // of at least two keeps every row on one thread.
  const int64_t rows = out.size(0);
  at::parallel_for(0, std::max<int64_t>(rows, 2), 1, [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (int64_t r = begin; r < std::min(end, rows); ++r) {
      record_row(a.select(0, r), b.select(0, r), weights.defined() ? weights.select(0, r) : weights, product, normalize,
                 eps, out.select(0, r));
    }
  });
}

} // namespace torch_hrr::hrr
