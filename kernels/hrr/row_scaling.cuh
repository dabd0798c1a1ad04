// Powers of two around a row: what brings it near 1, undoes that, and divides by its norm.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cuda/block.cuh"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <typename T>
constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

template <typename T>
KERNEL_DEVICE bool is_finite(T x) {
  return x - x == T{0};
}

// Magnitudes beyond 2^+-limit are scaled by 2^limit only, so that one representable factor does it.
template <typename T>
constexpr int kScaleLimit = sizeof(T) == 4 ? 120 : 1000;
template <typename T>
constexpr int kLargestExponent = sizeof(T) == 4 ? 126 : 1022;

// Bits in the order of magnitudes: those of zero are 0, those of infinity and NaN come last.
KERNEL_DEVICE uint32_t magnitude_bits(float x) {
  return __builtin_bit_cast(uint32_t, x) & 0x7fffffffu;
}
KERNEL_DEVICE uint32_t magnitude_bits(double x) {
  const auto bits = __builtin_bit_cast(uint64_t, x);
  return (static_cast<uint32_t>(bits >> 32) & 0x7fffffffu) | (static_cast<uint32_t>(bits) != 0 ? 1u : 0u);
}
template <typename T>
KERNEL_DEVICE uint32_t magnitude_bits(Complex<T> z) {
  const uint32_t re = magnitude_bits(z.re);
  const uint32_t im = magnitude_bits(z.im);
  return re < im ? im : re;
}

// The exponent e with magnitude 2^-e in [1, 2), for magnitudes from 2^-limit to 2^limit; 0 for zero and for what is
// not finite.
template <typename T>
KERNEL_DEVICE int scale_exponent(uint32_t magnitude) {
  constexpr int kFractionBits = sizeof(T) == 4 ? 23 : 20;
  constexpr int kBias = std::numeric_limits<T>::max_exponent - 1;
  const int exponent = static_cast<int>(magnitude >> kFractionBits) - kBias;
  if (magnitude == 0 || exponent > kBias) {
    return 0;
  }
  return exponent > kScaleLimit<T> ? kScaleLimit<T> : exponent < -kScaleLimit<T> ? -kScaleLimit<T> : exponent;
}

template <typename T>
KERNEL_DEVICE T exact_power(int exponent) {
  return ::ldexp(T{1}, exponent);
}

// x 2^exponent as two factors, each representable; saturates far outside the range of T. NaN where not `finite`.
template <typename T>
struct ScaleFactors {
  T first = 1;
  T second = 1;

  KERNEL_DEVICE explicit ScaleFactors(int64_t exponent, bool finite = true) {
    // Most rows are not scaled.
    if (exponent != 0) {
      constexpr int kLimit = 2 * kLargestExponent<T>;
      const int bounded = static_cast<int>(exponent > kLimit ? kLimit : exponent < -kLimit ? -kLimit : exponent);
      first = exact_power<T>(bounded / 2);
      second = exact_power<T>(bounded - bounded / 2);
    }
    first = finite ? first : kNan<T>;
  }

  KERNEL_DEVICE T times(T x) const {
    return x * first * second;
  }
};

// 1 / max(norm2, eps) as factor 2^exponent for a row that stands for row 2^row_exponent.
template <typename T>
struct NormalizingScale {
  T factor;
  int exponent = 0;
  bool above_eps;

  KERNEL_DEVICE NormalizingScale(T squared, int row_exponent, double eps) {
    const T norm = ::sqrt(squared);
    // Without eps the norm divides, 0 too.
    above_eps = eps == 0 || (row_exponent == 0 ? norm_divides(norm, static_cast<T>(eps))
                                               : norm_divides(static_cast<double>(norm), ::ldexp(eps, -row_exponent)));
    if (above_eps && norm > T{0}) {
      factor = T{1} / norm;
      return;
    }
    // eps may be outside the range of T; a row of zeros over eps = 0 is 0/0.
    int eps_exponent = 0;
    factor = T{1} / static_cast<T>(::frexp(eps, &eps_exponent));
    exponent = row_exponent - eps_exponent;
  }
};

// The factor for a gradient: 0 for a row of zeros, where 1 / eps would outweigh every other row.
template <typename T>
KERNEL_DEVICE T gradient_factor(const NormalizingScale<T>& scale, T squared, double eps) {
  return squared == T{0} && eps > 0 ? T{0} : scale.factor;
}

// Rows whose largest element lies from 2^-8 to below 2^9 are not scaled: float holds the squared norm of the sum of
// 2^20 products of two such rows of 2^14 elements.
constexpr int kNearExponent = 8;

// What is known of a row, or of a spectrum, once it is loaded.
struct MeasuredRow {
  int exponent = 0;  // it was scaled by 2^-exponent
  bool finite = true;
  bool zero = false;
};

// For the magnitude_bits of its largest number.
template <typename T>
KERNEL_DEVICE MeasuredRow measured_row(uint32_t largest) {
  const int exponent = scale_exponent<T>(largest);
  const bool is_near = -kNearExponent <= exponent && exponent <= kNearExponent;
  return {is_near ? 0 : exponent, largest < magnitude_bits(kInfinity<T>), largest == 0};
}

// The sum's exponent is the largest of exponent(a_k) + exponent(b_k) + exponent(w_k) over items that are not zero; it
// starts as that of no items, {0, true, true}.
template <typename T>
KERNEL_DEVICE void add_measured_item(const MeasuredRow& a, const MeasuredRow& b, T weight, MeasuredRow& sum) {
  sum.finite = sum.finite && a.finite && b.finite && is_finite(weight);
  if (sum.finite && !a.zero && !b.zero && weight != T{0}) {
    const int exponent = a.exponent + b.exponent + ::ilogb(weight);
    sum.exponent = !sum.zero && sum.exponent > exponent ? sum.exponent : exponent;
    sum.zero = false;
  }
}

// The weight of an item of scaled rows in a sum that stands for sum 2^exponent, which does not bound the weight of an
// item that is zero.
template <typename T>
KERNEL_DEVICE T scaled_weight(const MeasuredRow& a, const MeasuredRow& b, T weight, int exponent) {
  const int shift = a.exponent + b.exponent - exponent;
  return a.zero || b.zero ? T{0} : shift == 0 ? weight : static_cast<T>(::ldexp(weight, shift));
}

}  // namespace torch_hrr::kernels
