// Inputs, float64 oracles and launches shared by the tests of the HRR kernels on the host.
#pragma once

#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/fft/fft.cuh"
#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/hrr/superposition.h"
#include "tests/cuda_on_host/storage_of.h"

namespace torch_hrr::kernels::hrr_testing {

using cuda_on_host::all_schedules;
using cuda_on_host::host_launch;
using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;
using cuda_on_host::Schedule;

template <typename T>
const TwiddlePoint<T>* twiddle_table() {
  static const std::vector<TwiddlePoint<T>> table = [] {
    std::vector<TwiddlePoint<T>> points(kTwiddleTablePoints);
    fill_twiddle_table(points.data());
    return points;
  }();
  return table.data();
}

// How far from the oracle, relative to the norm of the row: rounding of the result (half types) or of a float
// transform.
template <typename S>
constexpr double kTolerance = 1e-6;
template <>
inline constexpr double kTolerance<double> = 1e-14;
template <>
inline constexpr double kTolerance<Half> = 1e-3;
template <>
inline constexpr double kTolerance<BFloat16> = 8e-3;

using Exact = std::vector<long double>;

// Normal elements of variance magnitude^2 / dim.
template <typename S>
struct Rows {
  std::vector<S> values;
  int64_t dim;

  Rows(int64_t rows, int64_t dim_, unsigned seed, double magnitude = 1) : dim(dim_) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal;
    values.resize(static_cast<size_t>(rows * dim));
    for (S& value : values) {
      value = static_cast<S>(magnitude * normal(generator) / std::sqrt(static_cast<double>(dim)));
    }
  }
  S* row(int64_t r) {
    return values.data() + r * dim;
  }
  const S* row(int64_t r) const {
    return values.data() + r * dim;
  }
  Exact exact(int64_t r) const {
    Exact result;
    for (int64_t i = 0; i < dim; ++i) {
      result.push_back(static_cast<long double>(static_cast<double>(row(r)[i])));
    }
    return result;
  }
};

// As planned for a GPU without shared memory for rows of other lengths than powers of two, which it pads.
template <typename S, typename Params>
Params planned(Params params) {
  params.plan = cuda_row_plan(family_of(params), kStorage<S>, params.dim, /*shared_bytes=*/0);
  params.plan.twiddles = twiddle_table<compute_t<S>>();
  return params;
}

// The sum as it is defined. Sanitizers would spend most of a run here.
#if defined(__GNUC__)
__attribute__((no_sanitize("address", "thread", "undefined")))
#endif
inline Exact
oracle_product(Product product, const Exact& a, const Exact& b) {
  const bool convolution = product == Product::kConvolution;
  const int64_t dim = static_cast<int64_t>(a.size());
  Exact result(a.size());
  const long double* fixed = convolution ? a.data() : b.data();
  const long double* moving = convolution ? b.data() : a.data();
  long double* c = result.data();
  for (int64_t m = 0; m < dim; ++m) {
    for (int64_t n = 0; n < dim; ++n) {
      const int64_t other = convolution ? (n >= m ? n - m : n - m + dim) : (n + m < dim ? n + m : n + m - dim);
      c[n] += fixed[m] * moving[other];
    }
  }
  return result;
}

// Of long rows only the last is compared with the sum, which takes most of a run.
inline int64_t first_checked_row(int64_t dim, int64_t rows) {
  return dim > 1024 ? rows - 1 : 0;
}

inline long double dot(const Exact& x, const Exact& y) {
  long double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

inline Exact scaled(Exact x, long double factor) {
  for (long double& value : x) {
    value *= factor;
  }
  return x;
}

inline Exact oracle_normalized(const Exact& c, double eps) {
  return scaled(c, 1 / std::max(std::sqrt(dot(c, c)), static_cast<long double>(eps)));
}

// norm2(out - expected) <= tolerance max(norm2(expected), scale), plus half a spacing of the type's smallest numbers.
template <typename S>
::testing::AssertionResult row_close(const S* out, const Exact& expected, double tolerance, long double scale = 0) {
  long double error = 0;
  long double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const long double difference = static_cast<long double>(static_cast<double>(out[i])) - expected[i];
    error += difference * difference;
    norm += expected[i] * expected[i];
  }
  const long double tiny = 0.5L * static_cast<long double>(static_cast<double>(std::numeric_limits<S>::denorm_min()));
  const long double allowed =
      tolerance * std::max(std::sqrt(norm), scale) + tiny * std::sqrt(static_cast<long double>(expected.size()));
  if (std::sqrt(error) <= allowed) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "error " << static_cast<double>(std::sqrt(error)) << ", allowed "
                                       << static_cast<double>(allowed) << ", norm "
                                       << static_cast<double>(std::sqrt(norm));
}

template <typename S>
::testing::AssertionResult all_nan(const S* row, int64_t dim) {
  for (int64_t i = 0; i < dim; ++i) {
    if (!std::isnan(static_cast<double>(row[i]))) {
      return ::testing::AssertionFailure() << "element " << i << " is " << static_cast<double>(row[i]);
    }
  }
  return ::testing::AssertionSuccess();
}

template <typename S>
::testing::AssertionResult same_bits(const S* x, const S* y, int64_t dim) {
  for (int64_t i = 0; i < dim; ++i) {
    if (std::memcmp(x + i, y + i, sizeof(S)) != 0) {
      return ::testing::AssertionFailure()
             << "element " << i << ": " << static_cast<double>(x[i]) << " and " << static_cast<double>(y[i]);
    }
  }
  return ::testing::AssertionSuccess();
}

// Contiguous rows for every operand.
inline RowMap contiguous_rows(int64_t rows, int64_t stride) {
  RowMap map;
  map.ndim = 1;
  map.sizes[0] = rows;
  for (int operand = 0; operand < kMaxOperands; ++operand) {
    map.strides[operand][0] = stride;
  }
  return map;
}

// The launches of each family at its parameters, compiled once for all tests: every length of rows that are computed in
// float; in double rows of at most 1024 elements that are direct or take a transform of 512 or 1024. threads = 0 takes
// the kernel's own block.
template <typename S>
void run_binding(const BindParams& params, const Schedule& schedule = {}, int threads = 0);
template <typename S>
void run_bind_superpose(const BindSuperposeParams& params, const Schedule& schedule = {}, int threads = 0);
template <typename S>
void run_backward(const BindBackwardParams& params, const Schedule& schedule = {}, int threads = 0);
template <typename S>
void run_superposition(const SuperpositionParams& params, const Schedule& schedule = {},
                       int64_t max_blocks = kMaxGridX);
template <typename S>
void run_spectral_map_kernel(const SpectralMapParams& params, const Schedule& schedule = {}, int threads = 0);
template <typename S>
void run_multibind_kernel(const MultibindParams& params, const Schedule& schedule = {}, int threads = 0);
template <typename S>
void run_packed_spectrum_kernel(const PackedSpectrumParams& params, const Schedule& schedule = {}, int threads = 0);
template <typename S>
void run_bind_spectrum_kernel(const SpectrumBindParams& params, const Schedule& schedule = {}, int threads = 0);

}  // namespace torch_hrr::kernels::hrr_testing
