// Elementary functions of double lanes, branch-free and accurate to a few ulp: logarithm, exponential, angles in turns.
//
// Taylor series after reductions of the argument; the lanes never mix, so a value does not depend on its neighbours.
#pragma once

#include "kernels/simd.h"

namespace torch_hrr::kernels {
HRR_ISA_BEGIN

template <int W>
using DoubleLanes = Simd<double, W>;
template <int W>
struct LongLanes {
  typedef int64_t type __attribute__((vector_size(W * sizeof(int64_t))));
};

template <int W>
HRR_HOST_DEVICE DoubleLanes<W> divide(DoubleLanes<W> a, DoubleLanes<W> b) {
  return {a.lanes / b.lanes};
}
template <int W>
HRR_HOST_DEVICE DoubleLanes<W> magnitude(DoubleLanes<W> x) {
  using Bits = typename LongLanes<W>::type;
  return {(typename DoubleLanes<W>::Lanes)((Bits)x.lanes & INT64_MAX)};
}
// magnitude with the sign of another number
template <int W>
HRR_HOST_DEVICE DoubleLanes<W> with_sign_of(DoubleLanes<W> x, DoubleLanes<W> sign) {
  using Bits = typename LongLanes<W>::type;
  return {(typename DoubleLanes<W>::Lanes)(((Bits)x.lanes & INT64_MAX) | ((Bits)sign.lanes & INT64_MIN))};
}

// The nearest integer to x, |x| < 2^51, as a number and as an integer: the sum with 1.5 2^52 has no fraction left.
constexpr double kRounding = 6755399441055744.0;
template <int W>
HRR_HOST_DEVICE DoubleLanes<W> nearest(DoubleLanes<W> x, typename LongLanes<W>::type& integer) {
  using Bits = typename LongLanes<W>::type;
  const DoubleLanes<W> shifted = x + DoubleLanes<W>::broadcast(kRounding);
  const DoubleLanes<W> shift = DoubleLanes<W>::broadcast(kRounding);
  integer = (Bits)shifted.lanes - (Bits)shift.lanes;
  return shifted - shift;
}

// c_0 + c_1 x + ... + c_{N-1} x^{N-1}
template <int W, int N>
HRR_HOST_DEVICE DoubleLanes<W> polynomial(const double (&coefficients)[N], DoubleLanes<W> x) {
  DoubleLanes<W> sum = DoubleLanes<W>::broadcast(coefficients[N - 1]);
#pragma GCC unroll 16
  for (int i = N - 2; i >= 0; --i) {
    sum = multiply_add(sum, x, DoubleLanes<W>::broadcast(coefficients[i]));
  }
  return sum;
}

constexpr double kLn2High = 0x1.62e42fefa3800p-1;
constexpr double kLn2Low = 0x1.ef35793c76730p-45;

// ln x of positive normal numbers: x = 2^e m with m in [sqrt(1/2), sqrt 2), ln m = 2 artanh((m-1)/(m+1)).
template <int W>
HRR_HOST_DEVICE DoubleLanes<W> logarithm(DoubleLanes<W> x) {
  using V = DoubleLanes<W>;
  using Bits = typename LongLanes<W>::type;
  constexpr double kSeries[] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const Bits offset = (Bits)x.lanes - kSqrtHalf;
  const Bits exponent = offset >> 52;
  const V mantissa{(typename V::Lanes)((Bits)x.lanes - (exponent << 52))};
  // An integer below 2^51 added to the bits of 1.5 2^52 is the number 1.5 2^52 + integer.
  const V shift = V::broadcast(kRounding);
  const V e = V{(typename V::Lanes)((Bits)shift.lanes + exponent)} - shift;
  const V one = V::broadcast(1);
  const V s = divide(mantissa - one, mantissa + one);
  const V twice = s + s;
  const V square = s * s;
  const V series = polynomial(kSeries, square);
  return multiply_add(e, V::broadcast(kLn2High), multiply_add(twice, series, e * V::broadcast(kLn2Low)));
}

// e^x: x = n ln 2 + r; 2^n as two factors, so that results may be subnormal, 0 or infinite.
template <int W>
HRR_HOST_DEVICE DoubleLanes<W> exponential(DoubleLanes<W> x) {
  using V = DoubleLanes<W>;
  using Bits = typename LongLanes<W>::type;
  constexpr double kSeries[] = {
      1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
      1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  constexpr double kLimit = 1400;
  x = select(x < V::broadcast(kLimit), x, V::broadcast(kLimit));
  x = select(V::broadcast(-kLimit) < x, x, V::broadcast(-kLimit));
  Bits n;
  const V whole = nearest(x * V::broadcast(1.4426950408889634), n);
  V r = multiply_add(whole, V::broadcast(-kLn2High), x);
  r = multiply_add(whole, V::broadcast(-kLn2Low), r);
  // Half of n stays within the exponents of normal numbers: |n| <= 2020.
  const Bits half = n >> 1;
  const V first{(typename V::Lanes)((half + 1023) << 52)};
  const V second{(typename V::Lanes)((n - half + 1023) << 52)};
  return polynomial(kSeries, r) * first * second;
}

// The angle of (x, y) in turns, in [-1/2, 1/2]; 0 where both are 0.
template <int W>
HRR_HOST_DEVICE DoubleLanes<W> angle_in_turns(DoubleLanes<W> x, DoubleLanes<W> y) {
  using V = DoubleLanes<W>;
  constexpr double kSeries[] = {1.0,       -1.0 / 3, 1.0 / 5,   -1.0 / 7, 1.0 / 9,   -1.0 / 11, 1.0 / 13,
                                -1.0 / 15, 1.0 / 17, -1.0 / 19, 1.0 / 21, -1.0 / 23, 1.0 / 25};
  constexpr double kTanSixteenth = 0.41421356237309503;  // of a turn
  constexpr double kTanThirtysecond = 0.19891236737965800;
  const V ax = magnitude(x);
  const V ay = magnitude(y);
  const SimdMask<double, W> steep = ax < ay;
  const V low = select(steep, ax, ay);
  const V high = select(steep, ay, ax);
  const V one = V::broadcast(1);
  // An angle of at most an eighth of a turn, minus the eighth or the sixteenth that brings its tangent below 0.2:
  // tan(a - b) = (t - tan b) / (1 + t tan b).
  const V t = select(V::broadcast(0) < high, divide(low, select(V::broadcast(0) < high, high, one)), V::broadcast(0));
  const SimdMask<double, W> far = V::broadcast(0.66817863791929892) < t;  // 3/32 of a turn
  const SimdMask<double, W> middle = V::broadcast(kTanThirtysecond) < t;
  const V tangent = select(far, one, select(middle, V::broadcast(kTanSixteenth), V::broadcast(0)));
  const V base = select(far, V::broadcast(0.125), select(middle, V::broadcast(0.0625), V::broadcast(0)));
  const V s = divide(t - tangent, multiply_add(t, tangent, one));
  const V turns = multiply_add(s * polynomial(kSeries, s * s), V::broadcast(1 / kTurn), base);
  const V first = select(steep, V::broadcast(0.25) - turns, turns);
  const V second = select(x < V::broadcast(0), V::broadcast(0.5) - first, first);
  return with_sign_of(second, y);
}

// sine and cosine of an angle in turns, |angle| < 2^50
template <int W>
HRR_HOST_DEVICE void sine_cosine(DoubleLanes<W> turns, DoubleLanes<W>& sine, DoubleLanes<W>& cosine) {
  using V = DoubleLanes<W>;
  using Bits = typename LongLanes<W>::type;
  constexpr double kSine[] = {1.0,
                              -1.0 / 6,
                              1.0 / 120,
                              -1.0 / 5040,
                              1.0 / 362880,
                              -1.0 / 39916800,
                              1.0 / 6227020800,
                              -1.0 / 1307674368000,
                              1.0 / 355687428096000};
  constexpr double kCosine[] = {1.0,
                                -1.0 / 2,
                                1.0 / 24,
                                -1.0 / 720,
                                1.0 / 40320,
                                -1.0 / 3628800,
                                1.0 / 479001600,
                                -1.0 / 87178291200,
                                1.0 / 20922789888000,
                                -1.0 / 6402373705728000};
  Bits quarter;
  // Turns modulo 1 first: that difference is exact.
  const V whole = nearest(turns, quarter);
  const V part = turns - whole;
  const V quarters = nearest(part * V::broadcast(4), quarter);
  const V r = multiply_add(quarters, V::broadcast(-0.25), part) * V::broadcast(kTurn);
  const V square = r * r;
  const V s = r * polynomial(kSine, square);
  const V c = polynomial(kCosine, square);
  const SimdMask<double, W> odd{-(quarter & 1)};
  const Bits sine_sign = (quarter & 2) << 62;
  const Bits cosine_sign = ((quarter + 1) & 2) << 62;
  sine = {(typename V::Lanes)((Bits)select(odd, c, s).lanes ^ sine_sign)};
  cosine = {(typename V::Lanes)((Bits)select(odd, s, c).lanes ^ cosine_sign)};
}

HRR_ISA_END
}  // namespace torch_hrr::kernels
