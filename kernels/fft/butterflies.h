// Small discrete Fourier transforms on vectors of lanes: x_k <- sum_j e^{-2 pi i jk/R} x_j for R = 2, 4, 8, 16;
// odd_transforms.h has the odd primes.
#pragma once

#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

template <typename T, int W>
using ComplexLanes = Complex<Simd<T, W>>;

template <typename C>
KERNEL_HOST_DEVICE C add(C a, C b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename C>
KERNEL_HOST_DEVICE C subtract(C a, C b) {
  return {a.re - b.re, a.im - b.im};
}
// a - i b and a + i b
template <typename C>
KERNEL_HOST_DEVICE C subtract_i(C a, C b) {
  return {a.re + b.im, a.im - b.re};
}
template <typename C>
KERNEL_HOST_DEVICE C add_i(C a, C b) {
  return {a.re - b.im, a.im + b.re};
}

template <typename C>
KERNEL_HOST_DEVICE void butterfly2(C& x0, C& x1) {
  const C sum = add(x0, x1);
  x1 = subtract(x0, x1);
  x0 = sum;
}

// a + s b
template <typename T, int W>
KERNEL_HOST_DEVICE ComplexLanes<T, W> add_multiple(ComplexLanes<T, W> a, double s, ComplexLanes<T, W> b) {
  const Simd<T, W> factor = Simd<T, W>::broadcast(static_cast<T>(s));
  return {multiply_add(factor, b.re, a.re), multiply_add(factor, b.im, a.im)};
}
template <typename T, int W>
KERNEL_HOST_DEVICE ComplexLanes<T, W> multiple(double s, ComplexLanes<T, W> b) {
  const Simd<T, W> factor = Simd<T, W>::broadcast(static_cast<T>(s));
  return {factor * b.re, factor * b.im};
}

template <typename C>
KERNEL_HOST_DEVICE void butterfly4(C& x0, C& x1, C& x2, C& x3) {
  const C t0 = add(x0, x2);
  const C t1 = subtract(x0, x2);
  const C t2 = add(x1, x3);
  const C t3 = subtract(x1, x3);
  x0 = add(t0, t2);
  x1 = subtract_i(t1, t3);
  x2 = subtract(t0, t2);
  x3 = add_i(t1, t3);
}

template <typename T, int W>
KERNEL_HOST_DEVICE void butterfly8(ComplexLanes<T, W> (&x)[8]) {
  using C = ComplexLanes<T, W>;
  using V = Simd<T, W>;
  butterfly4(x[0], x[2], x[4], x[6]);
  butterfly4(x[1], x[3], x[5], x[7]);
  const V half = V::broadcast(static_cast<T>(0.70710678118654752440));
  // w_8 o = (o.re + o.im, o.im - o.re)/sqrt 2 and w_8^3 o = (o.im - o.re, -o.re - o.im)/sqrt 2
  const C o1{x[3].re + x[3].im, x[3].im - x[3].re};
  const C o3{x[7].im - x[7].re, x[7].re + x[7].im};
  const C e0 = x[0];
  const C e1 = x[2];
  const C e2 = x[4];
  const C e3 = x[6];
  const C o0 = x[1];
  const C o2 = x[5];
  x[0] = add(e0, o0);
  x[4] = subtract(e0, o0);
  x[1] = {multiply_add(o1.re, half, e1.re), multiply_add(o1.im, half, e1.im)};
  x[5] = {multiply_add(-o1.re, half, e1.re), multiply_add(-o1.im, half, e1.im)};
  x[2] = subtract_i(e2, o2);
  x[6] = add_i(e2, o2);
  x[3] = {multiply_add(o3.re, half, e3.re), multiply_add(-o3.im, half, e3.im)};
  x[7] = {multiply_add(-o3.re, half, e3.re), multiply_add(o3.im, half, e3.im)};
}

// x <- w_8 x and x <- w_8^3 x
template <typename T, int W>
KERNEL_HOST_DEVICE void turn_eighth(ComplexLanes<T, W>& x) {
  const Simd<T, W> half = Simd<T, W>::broadcast(static_cast<T>(0.70710678118654752440));
  x = {(x.re + x.im) * half, (x.im - x.re) * half};
}
template <typename T, int W>
KERNEL_HOST_DEVICE void turn_three_eighths(ComplexLanes<T, W>& x) {
  const Simd<T, W> half = Simd<T, W>::broadcast(static_cast<T>(0.70710678118654752440));
  x = {(x.im - x.re) * half, (x.re + x.im) * -half};
}
template <typename T, int W>
KERNEL_HOST_DEVICE void turn(ComplexLanes<T, W>& x, double re, double im) {
  using V = Simd<T, W>;
  x = multiply(x, ComplexLanes<T, W>{V::broadcast(static_cast<T>(re)), V::broadcast(static_cast<T>(im))});
}

// 16 = 4 x 4: four transforms over j, j+4, j+8, j+12, these twiddles w_16^{jk} on x_{j+4k}, four transforms over j.
template <typename T, int W>
KERNEL_HOST_DEVICE void turn_inside_butterfly16(ComplexLanes<T, W> (&x)[16]) {
  constexpr double kCos = 0.92387953251128675613;
  constexpr double kSin = 0.38268343236508977173;
  turn(x[5], kCos, -kSin);        // w^1
  turn_eighth(x[9]);              // w^2
  turn(x[13], kSin, -kCos);       // w^3
  turn_eighth(x[6]);              // w^2
  x[10] = {x[10].im, -x[10].re};  // w^4
  turn_three_eighths(x[14]);      // w^6
  turn(x[7], kSin, -kCos);        // w^3
  turn_three_eighths(x[11]);      // w^6
  turn(x[15], -kCos, kSin);       // w^9
}

template <typename T, int W>
KERNEL_HOST_DEVICE void butterfly16(ComplexLanes<T, W> (&x)[16]) {
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    butterfly4(x[j], x[j + 4], x[j + 8], x[j + 12]);
  }
  turn_inside_butterfly16<T, W>(x);
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    butterfly4(x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3]);
  }
  // Output k + 4 j stands at 4 k + j.
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
#pragma GCC unroll 4
    for (int j = k + 1; j < 4; ++j) {
      const ComplexLanes<T, W> swapped = x[4 * k + j];
      x[4 * k + j] = x[k + 4 * j];
      x[k + 4 * j] = swapped;
    }
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
