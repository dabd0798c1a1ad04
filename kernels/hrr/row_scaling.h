// Norms and exact powers of two of a row on the CPU, without emitting shared code.
#pragma once

#include "kernels/finite.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// x 2^exponent; exact up to the final rounding, for any exponent.
KERNEL_HOST_DEVICE double scale_by_power(double x, int exponent) {
  return __builtin_ldexp(x, exponent);
}

// The exponent that brings a magnitude into [1, 2); 0 for 0 and for what is not finite.
KERNEL_HOST_DEVICE int unit_exponent(double magnitude) {
  return magnitude == 0 || !is_finite(magnitude) ? 0 : -__builtin_ilogb(magnitude);
}

// max(largest, max_i |x_i|), or NaN as soon as one element is NaN or infinite.
template <typename T>
KERNEL_HOST_DEVICE double largest_magnitude(const T* x, int64_t count, double largest) {
  for (int64_t i = 0; i < count; ++i) {
    const double magnitude = x[i] < 0 ? -static_cast<double>(x[i]) : static_cast<double>(x[i]);
    if (!is_finite(magnitude)) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    largest = largest < magnitude ? magnitude : largest;
  }
  return largest;
}

// x_i <- x_i 2^exponent, in two exact steps because one factor may not be representable.
template <typename T>
KERNEL_HOST_DEVICE void scale_row(T* x, int64_t count, int exponent) {
  const T first = static_cast<T>(scale_by_power(1, exponent / 2));
  const T second = static_cast<T>(scale_by_power(1, exponent - exponent / 2));
  for (int64_t i = 0; i < count; ++i) {
    x[i] = x[i] * first * second;
  }
}

// The same for elements near 1: an exponent beyond the type saturates, with 0 left 0.
template <typename T>
KERNEL_HOST_DEVICE void rescale_row(T* x, int64_t count, int64_t exponent) {
  if (exponent != 0) {
    scale_row(x, count, within_two_factors<T>(exponent));
  }
}

// sum_i x_i y_i: W running sums, then halves, then the tail; the order depends on the count alone.
template <int W, typename T>
KERNEL_HOST_DEVICE T dot(const T* x, const T* y, int64_t count) {
  using V = Simd<T, W>;
  V sum = V::broadcast(0);
  int64_t i = 0;
  for (; i + W <= count; i += W) {
    sum = multiply_add(V::load(x + i), V::load(y + i), sum);
  }
  T result = horizontal_sum(sum);
  for (; i < count; ++i) {
    result = multiply_add(x[i], y[i], result);
  }
  return result;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
