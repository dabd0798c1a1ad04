// Elementary functions with the same bits on every device: sine, cosine, the angle of a point, exponential, logarithm,
// tanh, normal numbers.
//
// L is float, double or a vector Simd of either; a lane's result depends on that lane alone. The functions use only
// operations that IEEE 754 rounds once, in one order, so scalar code, AVX2, AVX-512 and CUDA agree bit by bit (except
// in the sign and payload of a NaN). Infinities, NaN, signed zeros and subnormal numbers are as in C. Errors and speed:
// docs/dev/math.md.
//
// The polynomials are minimax fits for the relative error of the whole function, with coefficients rounded one by one.
#pragma once

#include "kernels/lanes.h"
#include "kernels/math_tables.h"
#if !defined(__CUDACC__)
#include "kernels/simd.h"
#endif

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// c_0 + c_1 x + c_2 x^2 + ...
template <typename L>
KERNEL_HOST_DEVICE L horner(L, number_t<L> last) {
  return lanes_of<L>(last);
}
template <typename L, typename... Rest>
KERNEL_HOST_DEVICE L horner(L x, number_t<L> first, Rest... rest) {
  return fused_multiply_add(horner(x, rest...), x, lanes_of<L>(first));
}

// 2^n for integers n held modulo 2^32 or 2^64, within the exponents of normal numbers.
template <typename L>
KERNEL_HOST_DEVICE L power_of_two(bits_t<L> n) {
  using F = NumberFormat<number_t<L>>;
  return number_of((n + lanes_of<bits_t<L>>(F::kBias)) << F::kMantissaBits);
}

template <typename L>
KERNEL_HOST_DEVICE L magnitude(L x) {
  using T = number_t<L>;
  return number_of(bits_of(x) & lanes_of<bits_t<L>>(static_cast<bits_t<T>>(~NumberFormat<T>::kSign)));
}
template <typename L>
KERNEL_HOST_DEVICE bits_t<L> sign_of(L x) {
  return bits_of(x) & lanes_of<bits_t<L>>(NumberFormat<number_t<L>>::kSign);
}

// An angle minus the nearest multiple of pi/2, and in the two lowest bits of `quarter` that multiple modulo 4.
template <typename L>
struct QuarterTurns {
  L rest;
  bits_t<L> quarter;
};

// The same for any angle from 2^15 on. The angle is M 2^E with 2^63 <= M < 2^64. M is multiplied by 192 bits of 2/pi,
// without the leading bits that contribute only multiples of 4, so the quarter is in the highest two bits of the
// product.
KERNEL_HOST_DEVICE QuarterTurns<double> reduce_huge(double x) {
  const uint64_t bits = bits_of(x);
  const uint64_t exponent = bits >> 52;
  if (exponent == 0x7ff) {
    return {NumberLimits<double>::kNaN, 0};
  }
  const uint64_t mantissa = (bits << 11) | (uint64_t{1} << 63);
  const uint64_t offset = exponent - 1086 + 62;
  const uint64_t word = offset >> 6;
  const uint64_t shift = offset & 63;
  uint64_t factor[3];
  for (int i = 0; i < 3; ++i) {
    factor[i] = (two_over_pi_word(word + i) << shift) | (two_over_pi_word(word + i + 1) >> 1 >> (63 - shift));
  }
  const WideInteger low = static_cast<WideInteger>(mantissa) * factor[2];
  const WideInteger middle = static_cast<WideInteger>(mantissa) * factor[1] + static_cast<uint64_t>(low >> 64);
  const uint64_t high = mantissa * factor[0] + static_cast<uint64_t>(middle >> 64);
  const WideInteger product = static_cast<WideInteger>(high) << 64 | static_cast<uint64_t>(middle);
  // The 126 bits behind the quarter, as a fraction in [-1/2, 1/2) of sign and magnitude.
  const WideInteger fraction = product << 2;
  const uint64_t above_half = static_cast<uint64_t>(fraction >> 127);
  const WideInteger magnitude = above_half != 0 ? ~fraction + 1 : fraction;
  const uint64_t first = static_cast<uint64_t>(magnitude >> 64);
  const uint64_t second = static_cast<uint64_t>(magnitude);
  // In three exact parts of at most 53 bits, which the sum of two numbers approximates well enough: no angle is closer
  // to a multiple of pi/2 than 2^-62.
  const double part0 = static_cast<double>(first >> 11) * 0x1p-53;
  const double part1 = static_cast<double>((first & 0x7ff) << 42 | second >> 22) * 0x1p-106;
  const double part2 = static_cast<double>(second & 0x3fffff) * 0x1p-128;
  const double sum = part0 + part1;
  const double rest = part1 - (sum - part0) + part2;
  using C = HalfPi<double>;
  const double angle = fused_multiply_add(sum, C::kFirst, fused_multiply_add(sum, C::kSecond, rest * C::kFirst));
  return {above_half != 0 ? -angle : angle, (high >> 62) + above_half};
}
KERNEL_HOST_DEVICE QuarterTurns<float> reduce_huge(float x) {
  const QuarterTurns<double> wide = reduce_huge(static_cast<double>(x));
  return {static_cast<float>(wide.rest), static_cast<uint32_t>(wide.quarter)};
}
KERNEL_HOST_DEVICE void reduce_huge_lanes(float x, bool, QuarterTurns<float>& turns) {
  turns = reduce_huge(x);
}
KERNEL_HOST_DEVICE void reduce_huge_lanes(double x, bool, QuarterTurns<double>& turns) {
  turns = reduce_huge(x);
}
#if !defined(__CUDACC__)
// Lane by lane, and out of line: huge angles are rare.
template <typename T, int W>
__attribute__((noinline, cold)) void reduce_huge_lanes(const Simd<T, W>& x, const SimdMask<T, W>& huge,
                                                       QuarterTurns<Simd<T, W>>& turns) {
  for (int i = 0; i < W; ++i) {
    if (huge.lanes[i] != 0) {
      const QuarterTurns<T> lane = reduce_huge(static_cast<T>(x.lanes[i]));
      turns.rest.lanes[i] = lane.rest;
      turns.quarter.lanes[i] = lane.quarter;
    }
  }
}
#endif

// x >= 0. The first difference is exact, so the rest has the relative error of two roundings, one of them negligible.
template <typename L>
KERNEL_HOST_DEVICE QuarterTurns<L> quarter_turns(L x) {
  using C = HalfPi<number_t<L>>;
  const L shift = lanes_of<L>(NumberFormat<number_t<L>>::kRounding);
  const L shifted = fused_multiply_add(x, lanes_of<L>(C::kInverse), shift);
  const L n = shifted - shift;
  QuarterTurns<L> turns;
  turns.rest = fused_multiply_add(n, lanes_of<L>(-C::kFirst), x);
  turns.rest = fused_multiply_add(n, lanes_of<L>(-C::kSecond), turns.rest);
  turns.rest = fused_multiply_add(n, lanes_of<L>(-C::kThird), turns.rest);
  turns.quarter = bits_of(shifted);
  const auto huge = x > lanes_of<L>(C::kLargest);
  if (any(huge)) {
    reduce_huge_lanes(x, huge, turns);
  }
  return turns;
}

template <typename L>
struct SineCosine {
  L sine, cosine;
};

// sine and cosine of quarter pi/2 + rest, |rest| at most slightly above pi/4
template <typename L>
KERNEL_HOST_DEVICE SineCosine<L> sine_cosine_of(QuarterTurns<L> turns) {
  using B = bits_t<L>;
  constexpr int kToSign = static_cast<int>(sizeof(number_t<L>)) * 8 - 2;
  const L r = turns.rest;
  const L z = r * r;
  L s, c;
  if constexpr (sizeof(number_t<L>) == 4) {
    s = horner(z, -0x1.555544p-3f, 0x1.1106c6p-7f, -0x1.991c26p-13f);
    c = horner(z, -0.5f, 0x1.55554ap-5f, -0x1.6c0c26p-10f, 0x1.99e706p-16f);
  } else {
    s = horner(z, -0x1.5555555555548p-3, 0x1.111111110f730p-7, -0x1.a01a019be9217p-13, 0x1.71de35552b565p-19,
               -0x1.ae5e4b83eb498p-26, 0x1.5d8b559801d25p-33);
    c = horner(z, -0.5, 0x1.555555555554bp-5, -0x1.6c16c16c15015p-10, 0x1.a01a019c8f243p-16, -0x1.27e4f7f18f8c0p-22,
               0x1.1ee9dbcd2249ep-29, -0x1.8fa6833d91c30p-37);
  }
  s = fused_multiply_add(r * z, s, r);
  c = fused_multiply_add(z, c, lanes_of<L>(1));
  const B one = lanes_of<B>(1);
  const B two = lanes_of<B>(2);
  const auto odd = (turns.quarter & one) == one;
  return {number_of(bits_of(select(odd, c, s)) ^ ((turns.quarter & two) << kToSign)),
          number_of(bits_of(select(odd, s, c)) ^ (((turns.quarter + one) & two) << kToSign))};
}

// sine and cosine of x
template <typename L>
KERNEL_HOST_DEVICE SineCosine<L> sine_cosine(L x) {
  SineCosine<L> result = sine_cosine_of(quarter_turns(magnitude(x)));
  result.sine = number_of(bits_of(result.sine) ^ sign_of(x));
  return result;
}
template <typename L>
KERNEL_HOST_DEVICE L sine(L x) {
  return sine_cosine(x).sine;
}
template <typename L>
KERNEL_HOST_DEVICE L cosine(L x) {
  return sine_cosine(x).cosine;
}

// pi x, with an error just above that of one rounding
template <typename L>
KERNEL_HOST_DEVICE L times_pi(L x) {
  using C = HalfPi<number_t<L>>;
  return fused_multiply_add(x, lanes_of<L>(2 * C::kFirst), x * lanes_of<L>(2 * C::kSecond));
}

// sine and cosine of pi x. As in C23 the sine of an integer has the sign of x, and no cosine is -0.
template <typename L>
KERNEL_HOST_DEVICE SineCosine<L> sine_cosine_pi(L x) {
  using T = number_t<L>;
  using F = NumberFormat<T>;
  const L zero = lanes_of<L>(0);
  const L shift = lanes_of<L>(F::kRounding);
  // The difference from a multiple of 2 is exact; from 2^24 (2^53) on every number is such a multiple.
  const L size = magnitude(x);
  const L even = lanes_of<L>(2 * F::kRounding);
  L part = size - ((size + even) - even);
  part = select(size >= lanes_of<L>(4 / NumberLimits<T>::kEpsilon), zero, part);
  part = part + (size - size);  // NaN of infinity
  const L shifted = fused_multiply_add(part, lanes_of<L>(2), shift);
  const L rest = fused_multiply_add(shifted - shift, lanes_of<L>(T(-0.5)), part);
  SineCosine<L> result = sine_cosine_of<L>({times_pi(rest), bits_of(shifted)});
  result.sine = number_of(bits_of(result.sine + zero) ^ sign_of(x));
  result.cosine = result.cosine + zero;
  return result;
}

// sine and cosine of `phase`, a fraction of a turn in 32 bits for float and in 64 for double.
template <typename L>
KERNEL_HOST_DEVICE SineCosine<L> sine_cosine_of_phase(bits_t<L> phase) {
  using B = bits_t<L>;
  using T = number_t<L>;
  constexpr int kBits = static_cast<int>(sizeof(T)) * 8;
  const B quarter = (phase + lanes_of<B>(bits_t<T>{1} << (kBits - 3))) >> (kBits - 2);
  const L rest = signed_number(phase - (quarter << (kBits - 2)));
  // In half turns, whose angle is pi times as much.
  constexpr T kHalfTurn = sizeof(T) == 4 ? T(0x1p-31) : T(0x1p-63);
  return sine_cosine_of<L>({times_pi(rest * lanes_of<L>(kHalfTurn)), quarter});
}

// e^r - 1 for |r| <= ln(2)/2
template <typename L>
KERNEL_HOST_DEVICE L small_exponential_minus_one(L r) {
  L p;
  if constexpr (sizeof(number_t<L>) == 4) {
    p = horner(r, 0x1.fffffep-2f, 0x1.5554b4p-3f, 0x1.5556f4p-5f, 0x1.122544p-7f, 0x1.6b9a08p-10f);
  } else {
    p = horner(r, 0.5, 0x1.5555555555559p-3, 0x1.5555555555558p-5, 0x1.111111110f70dp-7, 0x1.6c16c16c172adp-10,
               0x1.a01a01af9ffc7p-13, 0x1.a01a019acdc2cp-16, 0x1.71ddf9237efaap-19, 0x1.27e4ffdafbe6dp-22,
               0x1.af5d3cc5efc94p-26, 0x1.1f2ef53081992p-29);
  }
  return fused_multiply_add(r * r, p, r);
}

// x = n ln 2 + rest
template <typename L>
struct PowerOfTwo {
  L rest;
  bits_t<L> n;
};
template <typename L>
KERNEL_HOST_DEVICE PowerOfTwo<L> split_exponent(L x) {
  using C = Ln2<number_t<L>>;
  const L shift = lanes_of<L>(NumberFormat<number_t<L>>::kRounding);
  const L shifted = fused_multiply_add(x, lanes_of<L>(C::kInverse), shift);
  const L n = shifted - shift;
  L rest = fused_multiply_add(n, lanes_of<L>(-C::kFirst), x);
  rest = fused_multiply_add(n, lanes_of<L>(-C::kSecond), rest);
  return {rest, bits_of(shifted) - bits_of(shift)};
}

// atan2(y, x) / (2 pi), the angle of (x, y) in turns: in [-1/2, 1/2] with the sign of y, NaN where both are infinite.
template <typename L>
KERNEL_HOST_DEVICE L angle_in_turns(L x, L y) {
  using T = number_t<L>;
  using C = Turn<T>;
  const auto number = [](double value) { return lanes_of<L>(static_cast<T>(value)); };
  const L zero = number(0);
  const L one = number(1);
  const L ax = magnitude(x);
  const L ay = magnitude(y);
  const auto steep = ax < ay;
  const L low = select(steep, ax, ay);
  const L high = select(steep, ay, ax);
  // From an angle of at most an eighth of a turn, subtract 0, a sixteenth or an eighth so that its tangent is below
  // 0.2: tan(a - b) = (t - tan b) / (1 + t tan b).
  const auto none = high == zero;
  const L t = select(none, zero, low / select(none, one, high));
  const auto far = number(0.66817863791929892) < t;     // tan of 3/32 of a turn
  const auto middle = number(0.19891236737965800) < t;  // of 1/32
  const L tangent = select(far, one, select(middle, number(C::kTanSixteenth), zero));
  const L base = select(far, number(0.125), select(middle, number(0.0625), zero));
  const L base_rest = select(far, zero, select(middle, number(C::kSixteenthRest), zero));
  const L s = (t - tangent) / fused_multiply_add(t, tangent, one);
  // s/(2 pi) + s R(s^2), where R holds the rest of atan's series and of 1/(2 pi).
  const L z = s * s;
  const auto term = [](int divisor) { return static_cast<T>(0.15915494309189535 / divisor); };
  const L series = horner(z, C::kInverseRest, term(-3), term(5), term(-7), term(9), term(-11), term(13), term(-15),
                          term(17), term(-19), term(21), term(-23), term(25));
  const L turns = fused_multiply_add(s, number(C::kInverse), fused_multiply_add(s, series, base_rest)) + base;
  const L first = select(steep, number(0.25) - turns, turns);
  const L second = select(x < zero, number(0.5) - first, first);
  return number_of(bits_of(second) | sign_of(y));
}

// e^x. 2^n is applied in two factors, so that results may be subnormal, 0 or infinite.
template <typename L>
KERNEL_HOST_DEVICE L exponential(L x) {
  using T = number_t<L>;
  using B = bits_t<L>;
  constexpr T kLargest = sizeof(T) == 4 ? T(89) : T(710);
  constexpr T kSmallest = sizeof(T) == 4 ? T(-104) : T(-746);
  x = select(x > lanes_of<L>(kLargest), lanes_of<L>(kLargest), x);
  x = select(x < lanes_of<L>(kSmallest), lanes_of<L>(kSmallest), x);
  const PowerOfTwo<L> power = split_exponent(x);
  const L value = small_exponential_minus_one(power.rest) + lanes_of<L>(1);
  const B even = lanes_of<B>(4096);
  const B half = ((power.n + even) >> 1) - lanes_of<B>(2048);
  return value * power_of_two<L>(half) * power_of_two<L>(power.n - half);
}

// (e^y - 1) / (e^y + 1) with y = 2 |x| and the sign of x.
template <typename L>
KERNEL_HOST_DEVICE L hyperbolic_tangent(L x) {
  using T = number_t<L>;
  constexpr T kLargest = sizeof(T) == 4 ? T(20) : T(40);  // the result is 1 long before
  L y = magnitude(x);
  y = y + y;
  y = select(y > lanes_of<L>(kLargest), lanes_of<L>(kLargest), y);
  const PowerOfTwo<L> power = split_exponent(y);
  const L factor = power_of_two<L>(power.n);
  const L one = lanes_of<L>(1);
  const L minus_one = fused_multiply_add(factor, small_exponential_minus_one(power.rest), factor - one);
  L result = minus_one / (minus_one + lanes_of<L>(2));
  if constexpr (sizeof(T) == 4) {
    // Below 0.4 the quotient's three roundings would count in full.
    const L a = magnitude(x);
    const L z = a * a;
    const L p = horner(z, -0x1.55553ap-2f, 0x1.110474p-3f, -0x1.b67baep-5f, 0x1.30eae2p-6f);
    result = select(a < lanes_of<L>(0.4f), fused_multiply_add(a * z, p, a), result);
  }
  return number_of(bits_of(result) | sign_of(x));
}

// ln(1 + f) + exponent ln 2, with 1 + f in [2/3, 4/3) in float, in [sqrt 1/2, sqrt 2) in double
template <typename L>
KERNEL_HOST_DEVICE L logarithm_of(L f, L exponent) {
  using C = Ln2<number_t<L>>;
  const L high = lanes_of<L>(C::kFirst);
  const L low = lanes_of<L>(C::kSecond);
  if constexpr (sizeof(number_t<L>) == 4) {
    const L p = horner(f, -0.5f, 0x1.555506p-2f, -0x1.fffefap-3f, 0x1.99d05cp-3f, -0x1.559c2cp-3f, 0x1.1ed450p-3f,
                       -0x1.f33cb6p-4f, 0x1.1e72b8p-3f, -0x1.07a9aap-3f);
    return fused_multiply_add(exponent, high, fused_multiply_add(f * f, p, f));
  } else {
    // ln(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)), s = f / (2 + f), from the series of 2 artanh s.
    const L s = f / (f + lanes_of<L>(2));
    const L z = s * s;
    const L r = z * horner(z, 0x1.5555555555592p-1, 0x1.999999997ff04p-2, 0x1.24924941e33bfp-2, 0x1.c71c521253889p-3,
                           0x1.74663d690df97p-3, 0x1.39a1daaac7aa8p-3, 0x1.2f04575169c35p-3);
    const L half_square = f * f * lanes_of<L>(0.5);
    const L small = fused_multiply_add(s, half_square + r, exponent * low);
    return fused_multiply_add(exponent, high, f - (half_square - small));
  }
}

// ln x for positive normal x, if exponent_bias is F::kBias
template <typename L>
KERNEL_HOST_DEVICE L logarithm_of_normal(L x, L exponent_bias) {
  using T = number_t<L>;
  using B = bits_t<L>;
  using F = NumberFormat<T>;
  const T kLowest = sizeof(T) == 4 ? T(0x1.555556p-1) : T(0x1.6a09e667f3bcdp-1);
  const B lowest = lanes_of<B>(bits_of(kLowest));
  const B shifted = bits_of(x) + lanes_of<B>(bits_of(T(1)) - bits_of(kLowest));
  const L mantissa = number_of((shifted & lanes_of<B>((bits_t<T>{1} << F::kMantissaBits) - 1)) + lowest);
  // Adding an integer to the bits of 1.5 2^23 (1.5 2^52) adds it to the number.
  const L shift = lanes_of<L>(F::kRounding);
  const L exponent = number_of((shifted >> F::kMantissaBits) + bits_of(shift)) - (shift + exponent_bias);
  return logarithm_of(mantissa - lanes_of<L>(1), exponent);
}

// ln x
template <typename L>
KERNEL_HOST_DEVICE L logarithm(L x) {
  using T = number_t<L>;
  using B = bits_t<L>;
  using Limits = NumberLimits<T>;
  const L bias = lanes_of<L>(T(NumberFormat<T>::kBias));
  L result = logarithm_of_normal(x, bias);
  // One comparison finds every x that is not a positive normal number.
  const B lowest = lanes_of<B>(bits_of(Limits::kLeastNormal));
  const auto special = bits_of(x) - lowest >= lanes_of<B>(bits_of(Limits::kInfinity) - bits_of(Limits::kLeastNormal));
  if (any(special)) {
    constexpr T kShift = NumberFormat<T>::kMantissaBits + 1;
    const L zero = lanes_of<L>(0);
    const L scale = lanes_of<L>(2 / Limits::kEpsilon);  // 2^kShift
    const auto tiny = x < lanes_of<L>(Limits::kLeastNormal);
    result = select(tiny, logarithm_of_normal(x * scale, bias + lanes_of<L>(kShift)), result);
    result = select(x == zero, lanes_of<L>(-Limits::kInfinity), result);
    result = select(x < zero, lanes_of<L>(Limits::kNaN), result);
    result = select(x < lanes_of<L>(Limits::kInfinity), result, x);
  }
  return result;
}

// Two independent normal numbers of mean 0 and variance 1 from two words of random bits, by the Box-Muller transform:
// sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi v).
//
//          words x, y   u in (0, 1]                                     v in [0, 1)
// float    32 bits      (x + 1/2) 2^-32, rounded to nearest             floor(y / 2^7) 2^-25
// double   64 bits      (floor(x / 2^12) + 1/2) 2^-52                   floor(y / 2^10) 2^-54
//
// In float, words (0, 1) of a Philox block give its normals 0 and 1, words (2, 3) its normals 2 and 3. In double, x
// joins words (0, 1) and y words (2, 3), which gives normals 0 and 1. So normal j of the sequence that starts at block
// `first` belongs to block first + j / 4 in float, first + j / 2 in double. No normal exceeds 6.77 in float, 8.58 in
// double.
template <typename L>
struct NormalPair {
  L first, second;
};
template <typename L>
KERNEL_HOST_DEVICE NormalPair<L> normal_pair(bits_t<L> x, bits_t<L> y) {
  using T = number_t<L>;
  using B = bits_t<L>;
  using F = NumberFormat<T>;
  // 2^23 (2^52): an integer below it, put into its lowest bits, is added to it.
  constexpr T kPower = 2 / NumberLimits<T>::kEpsilon / 2;
  const B power = lanes_of<B>(bits_of(kPower));
  L u;
  if constexpr (sizeof(T) == 4) {
    const L high = number_of((x >> 16) | power) - lanes_of<L>(kPower);
    const L low = number_of((x & lanes_of<B>(0xffff)) | power) - lanes_of<L>(kPower - 0.5f);
    u = fused_multiply_add(high, lanes_of<L>(0x1p-16f), low * lanes_of<L>(0x1p-32f));
  } else {
    u = (number_of((x >> 12) | power) - lanes_of<L>(kPower - 0.5)) * lanes_of<L>(0x1p-52);
  }
  const L zero = lanes_of<L>(0);
  const L log = logarithm_of_normal(u, lanes_of<L>(T(F::kBias)));
  const L radius = square_root(lanes_of<L>(-2) * log + zero);
  // The nearest quarter turn, and the rest in [-1/8, 1/8) of a turn.
  constexpr int kBits = static_cast<int>(sizeof(T)) * 8;
  constexpr bits_t<T> kEighth = bits_t<T>{1} << (kBits - 3);
  const B turned = y + lanes_of<B>(kEighth);
  const B rest = (turned & lanes_of<B>(2 * kEighth - 1)) >> (kBits - 2 - F::kMantissaBits);
  const L half_turns = (number_of(rest | power) - lanes_of<L>(T(1.5) * kPower)) * lanes_of<L>(T(0.5) / kPower);
  const SineCosine<L> turn = sine_cosine_of<L>({times_pi(half_turns), turned >> (kBits - 2)});
  return {radius * turn.cosine, radius * turn.sine};
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
