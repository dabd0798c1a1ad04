// Direct float64 sums, random rows and exactly sized memory for the kernel tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/hrr/superposition.h"
#include "kernels/numeric.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {

// Exactly `count` elements at a 64-byte boundary, so that AddressSanitizer sees the first byte beyond. All bits are set
// at first, which is NaN in every floating type: a result that depends on memory nobody wrote shows.
template <typename T>
class Buffer {
 public:
  explicit Buffer(int64_t count) : count_(count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, bytes) != 0) {
      throw std::bad_alloc();
    }
    if (bytes > 0) {
      std::memset(memory, 0xff, bytes);
    }
    data_ = static_cast<T*>(memory);
  }
  Buffer(const Buffer& other) : Buffer(other.count_) {
    std::copy_n(other.data_, count_, data_);
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    std::free(data_);
  }

  T* data() {
    return data_;
  }
  const T* data() const {
    return data_;
  }
  int64_t size() const {
    return count_;
  }

 private:
  T* data_ = nullptr;
  int64_t count_ = 0;
};

template <typename S>
struct StorageTraits;
template <>
struct StorageTraits<float> {
  static constexpr Storage kStorage = Storage::kFloat;
  static constexpr double kRounding = 0;
  static constexpr double kTolerance = 1e-6;
};
template <>
struct StorageTraits<double> {
  static constexpr Storage kStorage = Storage::kDouble;
  static constexpr double kRounding = 0;
  static constexpr double kTolerance = 1e-14;
};
// The half types are computed in float and rounded once.
template <>
struct StorageTraits<Half> {
  static constexpr Storage kStorage = Storage::kHalf;
  static constexpr double kRounding = 0x1p-11;
  static constexpr double kTolerance = 1e-6;
};
template <>
struct StorageTraits<BFloat16> {
  static constexpr Storage kStorage = Storage::kBFloat16;
  static constexpr double kRounding = 0x1p-8;
  static constexpr double kTolerance = 1e-6;
};

using StorageTypes = ::testing::Types<float, double, Half, BFloat16>;

template <typename S, typename Params>
const RowKernel<Params>& kernel_of() {
  return kernel_table<RowKernel<Params>>(StorageTraits<S>::kStorage);
}

template <typename S>
S from_double(double x) {
  return static_cast<S>(static_cast<compute_t<S>>(x));
}
template <typename S>
double to_double(S x) {
  return static_cast<double>(static_cast<compute_t<S>>(x));
}

template <typename S>
Buffer<S> random_values(int64_t count, uint64_t seed, double scale = 1) {
  Buffer<S> values(count);
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < count; ++i) {
    values.data()[i] = from_double<S>(scale * normal(generator));
  }
  return values;
}

template <typename S>
std::vector<double> row_at(const S* data, int64_t dim) {
  std::vector<double> row(static_cast<size_t>(dim));
  std::transform(data, data + dim, row.begin(), to_double<S>);
  return row;
}

// c[n] = sum_m a[m] b[(n-m) mod D]
inline std::vector<double> convolve(const std::vector<double>& a, const std::vector<double>& b) {
  const size_t dim = a.size();
  std::vector<double> twice(b);
  twice.insert(twice.end(), b.begin(), b.end());
  std::vector<double> c(dim, 0.0);
  for (size_t m = 0; m < dim; ++m) {
    for (size_t n = 0; n < dim; ++n) {
      c[n] += a[m] * twice[n + dim - m];
    }
  }
  return c;
}

// c[n] = sum_m a[(n+m) mod D] b[m]
inline std::vector<double> correlate(const std::vector<double>& a, const std::vector<double>& b) {
  const size_t dim = a.size();
  std::vector<double> twice(a);
  twice.insert(twice.end(), a.begin(), a.end());
  std::vector<double> c(dim, 0.0);
  for (size_t m = 0; m < dim; ++m) {
    for (size_t n = 0; n < dim; ++n) {
      c[n] += twice[n + m] * b[m];
    }
  }
  return c;
}

inline std::vector<double> product_of(Product product, const std::vector<double>& a, const std::vector<double>& b) {
  return product == Product::kConvolution ? convolve(a, b) : correlate(a, b);
}

// sum_i x_i y_i
inline double dot_of(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

inline double norm_of(const std::vector<double>& x) {
  double largest = 0;
  for (const double value : x) {
    largest = std::max(largest, std::abs(value));
  }
  if (largest == 0 || !std::isfinite(largest)) {
    return largest;
  }
  double sum = 0;
  for (const double value : x) {
    sum += (value / largest) * (value / largest);
  }
  return largest * std::sqrt(sum);
}

// x / max(norm2(x), eps)
inline std::vector<double> normalized(std::vector<double> x, double eps) {
  const double divisor = std::max(norm_of(x), eps);
  for (double& value : x) {
    value /= divisor;
  }
  return x;
}

// sum + factor x
inline void add_to(std::vector<double>& sum, double factor, const std::vector<double>& x) {
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] += factor * x[i];
  }
}

// norm2(got - want) <= tolerance norm2(want) and no element off by more than eight times its share of that, beyond the
// rounding of the storage type.
template <typename S>
::testing::AssertionResult is_close(const S* got, const std::vector<double>& want,
                                    double tolerance = StorageTraits<S>::kTolerance) {
  const double norm = norm_of(want);
  const double rms = norm / std::sqrt(static_cast<double>(want.size()));
  const double least = to_double(std::numeric_limits<S>::denorm_min());
  std::vector<double> errors;
  for (size_t i = 0; i < want.size(); ++i) {
    const double rounding = StorageTraits<S>::kRounding * std::abs(want[i]) * 1.001 + least;
    const double error = std::abs(to_double(got[i]) - want[i]);
    errors.push_back(std::max(error - rounding, 0.0));
    if (!(error <= rounding + 8 * tolerance * rms)) {
      return ::testing::AssertionFailure() << "element " << i << " of " << want.size() << " is " << to_double(got[i])
                                           << ", expected " << want[i] << " (rms " << rms << ")";
    }
  }
  if (!(norm_of(errors) <= tolerance * norm)) {
    return ::testing::AssertionFailure() << "relative error " << norm_of(errors) / norm << " exceeds " << tolerance;
  }
  return ::testing::AssertionSuccess();
}

template <typename S>
::testing::AssertionResult same_bits(const S* got, const S* want, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(got + i, want + i, sizeof(S)) != 0) {
      return ::testing::AssertionFailure() << "element " << i << " of " << count << " is " << to_double(got[i])
                                           << ", expected the bits of " << to_double(want[i]);
    }
  }
  return ::testing::AssertionSuccess();
}

template <typename S>
::testing::AssertionResult all_nan(const S* row, int64_t dim) {
  for (int64_t i = 0; i < dim; ++i) {
    if (!std::isnan(to_double(row[i]))) {
      return ::testing::AssertionFailure() << "element " << i << " of " << dim << " is " << to_double(row[i]);
    }
  }
  return ::testing::AssertionSuccess();
}

// Rows one after another; a stride of 0 repeats a row.
inline RowMap row_map(int64_t rows, std::vector<int64_t> strides) {
  RowMap map;
  map.ndim = 1;
  map.sizes[0] = rows;
  for (size_t i = 0; i < strides.size(); ++i) {
    map.strides[i][0] = strides[i];
  }
  return map;
}

// Runs a kernel with scratch memory of exactly the size that it asks for.
template <typename Params>
void run(const RowKernel<Params>& kernel, const Params& params, int64_t begin, int64_t end) {
  Buffer<char> scratch(kernel.scratch(params));
  kernel.run(params, begin, end, scratch.data());
}
// The kernel of a storage type, as planned.
template <typename S, typename Params>
void run_planned(Params params, int64_t begin, int64_t end) {
  params.plan = cpu_row_plan(family_of(params), StorageTraits<S>::kStorage, params.dim, items_of(params));
  run(kernel_of<S, Params>(), params, begin, end);
}
template <typename S>
void run_bind(const BindParams& params, int64_t begin, int64_t end) {
  run_planned<S>(params, begin, end);
}
template <typename S>
void run_bind_backward(const BindBackwardParams& params, int64_t begin, int64_t end) {
  run_planned<S>(params, begin, end);
}
template <typename S>
void run_bind_superpose(const BindSuperposeParams& params, int64_t begin, int64_t end) {
  run_planned<S>(params, begin, end);
}
template <typename S>
void run_superpose(const SuperpositionParams& params, int64_t begin, int64_t end) {
  run(kernel_of<S, SuperpositionParams>(), params, begin, end);
}
template <typename S>
void run_spectral_map(const SpectralMapParams& params, int64_t begin, int64_t end) {
  run_planned<S>(params, begin, end);
}
template <typename S>
void run_multibind(const MultibindParams& params, int64_t begin, int64_t end) {
  run_planned<S>(params, begin, end);
}
template <typename S>
void run_multibind_backward(const MultibindBackwardParams& params, int64_t begin, int64_t end) {
  run_planned<S>(params, begin, end);
}
template <typename S>
void run_packed_spectrum(const PackedSpectrumParams& params, int64_t begin, int64_t end) {
  run_planned<S>(params, begin, end);
}
template <typename S>
void run_bind_spectrum(const SpectrumBindParams& params, int64_t begin, int64_t end) {
  run_planned<S>(params, begin, end);
}

}  // namespace torch_hrr::kernels
