// Arithmetic shared by all devices: multiply-add, complex numbers, storage and compute types, divisors of normalised
// rows, ranges of powers of two.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>

#include "kernels/macros.h"

namespace torch_hrr::kernels {

using Half = c10::Half;
using BFloat16 = c10::BFloat16;

constexpr double kTurn = 6.2831853071795864769;  // 2 pi
constexpr double kLn2 = 0.69314718055994530942;

// Half types are computed in float.
template <typename S>
struct ComputeType {
  using type = float;
};
template <>
struct ComputeType<double> {
  using type = double;
};
template <typename S>
using compute_t = typename ComputeType<S>::type;

// T is a scalar or a vector of lanes.
template <typename T>
struct Complex {
  T re, im;
};

KERNEL_ISA_BEGIN

// a b + c, rounded once where the target has the instruction, otherwise twice.
KERNEL_HOST_DEVICE float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__CUDACC__) || defined(FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
KERNEL_HOST_DEVICE double multiply_add(double a, double b, double c) {
#if defined(__FMA__) || defined(__CUDACC__) || defined(FP_FAST_FMA)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// a b
template <typename T>
KERNEL_HOST_DEVICE Complex<T> multiply(Complex<T> a, Complex<T> b) {
  return {multiply_add(a.re, b.re, -(a.im * b.im)), multiply_add(a.re, b.im, a.im * b.re)};
}

template <typename T>
KERNEL_HOST_DEVICE Complex<T> scaled(T s, Complex<T> z) {
  return {s * z.re, s * z.im};
}

// a conj(b)
template <typename T>
KERNEL_HOST_DEVICE Complex<T> multiply_conjugate(Complex<T> a, Complex<T> b) {
  return {multiply_add(a.re, b.re, a.im * b.im), multiply_add(a.im, b.re, -(a.re * b.im))};
}

// A normalised row is divided by max(norm, eps). Where both are equal the divisor counts as the constant eps:
// torch 2.15's clamp_min has gradient 0 there (2.11's passes it to the norm).
template <typename T>
KERNEL_HOST_DEVICE bool norm_divides(T norm, T eps) {
  return norm > eps;
}

// Rows are scaled by a power of two in two exact steps; exponents beyond the reach of two factors saturate.
template <typename T>
KERNEL_HOST_DEVICE constexpr int within_two_factors(int64_t exponent) {
  constexpr int64_t kLimit = sizeof(T) == 4 ? 2 * 126 : 2 * 1022;
  return static_cast<int>(exponent > kLimit ? kLimit : exponent < -kLimit ? -kLimit : exponent);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
