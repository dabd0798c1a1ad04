// Powers of two around a row: what brings it into the safe range, undoes that, and divides by its norm.
#pragma once

#include <cmath>
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

// The exponent e with magnitude 2^-e in [1, 2); 0 for a row of zeros or one that is not finite.
template <typename T>
KERNEL_DEVICE int scale_exponent(T magnitude) {
  if (magnitude == T{0} || !is_finite(magnitude)) {
    return 0;
  }
  const int exponent = ::ilogb(magnitude);
  return exponent > kScaleLimit<T> ? kScaleLimit<T> : exponent < -kScaleLimit<T> ? -kScaleLimit<T> : exponent;
}

template <typename T>
KERNEL_DEVICE T exact_power(int exponent) {
  return ::ldexp(T{1}, exponent);
}

// x 2^exponent as two factors, each representable; saturates far outside the range of T.
template <typename T>
struct ScaleFactors {
  T first = 1;
  T second = 1;

  KERNEL_DEVICE explicit ScaleFactors(int64_t exponent) {
    // Most rows were never scaled.
    if (exponent != 0) {
      constexpr int kLimit = 2 * kLargestExponent<T>;
      const int bounded = static_cast<int>(exponent > kLimit ? kLimit : exponent < -kLimit ? -kLimit : exponent);
      first = exact_power<T>(bounded / 2);
      second = exact_power<T>(bounded - bounded / 2);
    }
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

// What scales a row that left the safe range. One that is not measured is taken as it stands.
struct MeasuredRow {
  int exponent = 0;  // the row is scaled by 2^-exponent
  bool finite = true;
  bool zero = false;
};

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
  return a.zero || b.zero ? T{0} : static_cast<T>(::ldexp(weight, a.exponent + b.exponent - exponent));
}

}  // namespace torch_hrr::kernels
