// Runs an HRR kernel on the host and the CPU kernel of its family on the same parameters, and compares their rows.
#pragma once

#include "tests/cuda_on_host/hrr_testing.h"

#include "tests/cpp/kernels/oracle.h"

namespace torch_hrr::kernels {

using cuda_on_host::poisoned;

// How far the two may be apart, in ulp of the compute type at the norm of the row. The most that the
// tests see is 4.0 against kernels with fused multiply-adds, 5.1 against those without (D = 8192).
constexpr double kUlps = 6;

// The spacing of a half type at x; 0 for the types that are computed in themselves.
template <typename S>
double rounding_at(double x) {
  if (std::is_same_v<S, compute_t<S>>) {
    return 0;
  }
  const double epsilon = static_cast<double>(std::numeric_limits<S>::epsilon());
  const double least = static_cast<double>(std::numeric_limits<S>::denorm_min());
  return x == 0 ? least : std::max(std::ldexp(epsilon, std::ilogb(x)), least);
}

// norm2(x - y) <= ulps epsilon max(norm2(y), scale). The rounding to a half type may fall to either side, of few
// elements. Elements that are not finite must be the same, and enter the norm as the largest number.
template <typename S>
::testing::AssertionResult rows_agree(const S* x, const S* y, int64_t dim, double scale, double ulps = kUlps) {
  std::vector<double> apart;
  std::vector<double> magnitudes;
  int64_t rounded_apart = 0;
  for (int64_t i = 0; i < dim; ++i) {
    const double on_cuda = to_double(x[i]);
    const double on_cpu = to_double(y[i]);
    if (std::isfinite(on_cuda) && std::isfinite(on_cpu)) {
      const double rounding = rounding_at<S>(std::max(std::abs(on_cuda), std::abs(on_cpu)));
      apart.push_back(std::max(std::abs(on_cuda - on_cpu) - rounding, 0.0));
      rounded_apart += rounding > 0 && on_cuda != on_cpu ? 1 : 0;
      magnitudes.push_back(on_cpu);
    } else if (on_cuda != on_cpu && !(std::isnan(on_cuda) && std::isnan(on_cpu))) {
      return ::testing::AssertionFailure() << "element " << i << " is " << on_cuda << ", on the CPU " << on_cpu;
    } else {
      magnitudes.push_back(static_cast<double>(std::numeric_limits<S>::max()));
    }
  }
  if (rounded_apart > 1 + dim / 64) {
    return ::testing::AssertionFailure() << rounded_apart << " elements of " << dim << " differ";
  }
  using Limits = std::numeric_limits<compute_t<S>>;
  const double unit = Limits::epsilon() * std::max(norm_of(magnitudes), scale);
  const double least = Limits::denorm_min() * std::sqrt(static_cast<double>(dim));
  if (norm_of(apart) <= ulps * unit + least) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << norm_of(apart) / unit << " ulp apart, allowed " << ulps << ", norm "
                                       << norm_of(magnitudes);
}

// scales: of the terms that a row is the sum of, one a row, where those may cancel.
template <typename S>
void expect_rows_agree(const std::vector<S>& x, const std::vector<S>& y, int64_t dim,
                       const std::vector<double>& scales = {}, double ulps = kUlps) {
  ASSERT_EQ(x.size(), y.size());
  for (size_t r = 0; r < x.size() / static_cast<size_t>(dim); ++r) {
    const size_t first = r * static_cast<size_t>(dim);
    EXPECT_TRUE(rows_agree(x.data() + first, y.data() + first, dim, scales.empty() ? 0 : scales[r], ulps))
        << "row " << r;
  }
}

template <typename S>
void expect_binding_agrees(BindParams params) {
  auto on_cuda = poisoned<S>(static_cast<size_t>(params.rows * params.dim));
  auto on_cpu = on_cuda;
  params.out = on_cuda.data();
  hrr_testing::run_binding<S>(params);
  params.out = on_cpu.data();
  run_bind<S>(params, 0, params.rows);
  expect_rows_agree(on_cuda, on_cpu, params.dim);
}

template <typename S>
void expect_bind_superpose_agrees(BindSuperposeParams params) {
  auto on_cuda = poisoned<S>(static_cast<size_t>(params.rows * params.dim));
  auto on_cpu = on_cuda;
  params.out = on_cuda.data();
  hrr_testing::run_bind_superpose<S>(params);
  params.out = on_cpu.data();
  run_bind_superpose<S>(params, 0, params.rows);
  expect_rows_agree(on_cuda, on_cpu, params.dim);
}

// The norm of the row that operand i has at output row r.
template <typename S, typename Params>
double operand_norm(const void* rows, int operand, int64_t r, const Params& params) {
  return norm_of(row_at(static_cast<const S*>(rows) + row_offset(params.map, operand, r), params.dim));
}

// sqrt(sum_k norm2(w_k x_k)^2), over the divisor of a normalised row: the few elements of a short row may all cancel.
template <typename S>
std::vector<double> term_scales(SuperpositionParams params) {
  std::vector<S> sums(static_cast<size_t>(params.rows * params.dim));
  const bool normalize = std::exchange(params.normalize, false);
  params.out = sums.data();
  run_superpose<S>(params, 0, params.rows);
  std::vector<double> scales;
  for (int64_t r = 0; r < params.rows; ++r) {
    std::vector<double> norms;
    for (int64_t k = 0; k < params.items; ++k) {
      const S* vectors = static_cast<const S*>(params.vectors) + k * params.item_stride_vectors;
      const S* weights = static_cast<const S*>(params.weights);
      const int64_t at = row_offset(params.map, 1, r) + k * params.item_stride_weights;
      norms.push_back(operand_norm<S>(vectors, 0, r, params) * (weights == nullptr ? 1 : to_double(weights[at])));
    }
    const double norm = norm_of(row_at(sums.data() + r * params.dim, params.dim));
    scales.push_back(norm_of(norms) / (normalize ? std::max(norm, params.eps) : 1));
  }
  return scales;
}

template <typename S>
void expect_superposition_agrees(SuperpositionParams params) {
  auto on_cuda = poisoned<S>(static_cast<size_t>(params.rows * params.dim));
  auto on_cpu = on_cuda;
  params.out = on_cuda.data();
  hrr_testing::run_superposition<S>(params);
  params.out = on_cpu.data();
  run_superpose<S>(params, 0, params.rows);
  expect_rows_agree(on_cuda, on_cpu, params.dim, params.dim < 16 ? term_scales<S>(params) : std::vector<double>{});
}

// |g operand| / max(|c|, eps): the few elements of a short row may cancel when c is projected out of g. Operand 1 is a,
// 2 is b.
template <typename S>
std::vector<double> upstream_scales(const BindBackwardParams& params, int operand) {
  const auto exact_row = [&](const void* rows, int of, int64_t r) {
    const std::vector<double> row = row_at(static_cast<const S*>(rows) + row_offset(params.map, of, r), params.dim);
    return hrr_testing::Exact(row.begin(), row.end());
  };
  std::vector<double> scales;
  for (int64_t r = 0; r < params.rows; ++r) {
    const auto c =
        hrr_testing::oracle_product(Product::kConvolution, exact_row(params.a, 1, r), exact_row(params.b, 2, r));
    const long double divisor = std::max(std::sqrt(hrr_testing::dot(c, c)), static_cast<long double>(params.eps));
    const long double norm = operand_norm<S>(operand == 1 ? params.a : params.b, operand, r, params);
    scales.push_back(static_cast<double>(operand_norm<S>(params.grad, 0, r, params) * norm / divisor));
  }
  return scales;
}

template <typename S>
void expect_backward_agrees(BindBackwardParams params) {
  auto cuda_a = poisoned<S>(static_cast<size_t>(params.rows * params.dim));
  auto cuda_b = cuda_a;
  auto cpu_a = cuda_a;
  auto cpu_b = cuda_a;
  params.grad_a = cuda_a.data();
  params.grad_b = cuda_b.data();
  hrr_testing::run_backward<S>(params);
  params.grad_a = cpu_a.data();
  params.grad_b = cpu_b.data();
  run_bind_backward<S>(params, 0, params.rows);
  const bool cancels = params.normalize && params.dim < 16;
  expect_rows_agree(cuda_a, cpu_a, params.dim, cancels ? upstream_scales<S>(params, 2) : std::vector<double>{});
  expect_rows_agree(cuda_b, cpu_b, params.dim, cancels ? upstream_scales<S>(params, 1) : std::vector<double>{});
}

}  // namespace torch_hrr::kernels
