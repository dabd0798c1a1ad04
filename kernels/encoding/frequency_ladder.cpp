// Analytic frequencies in sums of two doubles: one double would err by 2^-56 turns, too much for positions near 2^31.
#include "kernels/encoding/frequency_ladder.h"

#include <cmath>

namespace torch_hrr::kernels {
namespace {

// high + low, |low| at most half a unit in the last place of high.
struct DoubleDouble {
  double high;
  double low;
};

DoubleDouble normalized(double high, double low) {
  const double sum = high + low;
  return {sum, low - (sum - high)};
}
DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const double sum = a.high + b.high;
  const double part = sum - a.high;
  const double error = (a.high - (sum - part)) + (b.high - part);
  return normalized(sum, error + a.low + b.low);
}
DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const double product = a.high * b.high;
  const double error = std::fma(a.high, b.high, -product);
  return normalized(product, error + (a.high * b.low + a.low * b.high));
}
DoubleDouble operator/(DoubleDouble a, double b) {
  const double quotient = a.high / b;
  const double rest = std::fma(-quotient, b, a.high) + a.low;
  return normalized(quotient, rest / b);
}

constexpr DoubleDouble kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// 2^n (e^(r / 256))^256 with |r| <= ln(2) / 2.
DoubleDouble exponential(DoubleDouble x) {
  constexpr int kHalvings = 8;
  constexpr int kTerms = 12;
  const double n = std::nearbyint(x.high / kLn2.high);
  const DoubleDouble r = (x + kLn2 * DoubleDouble{-n, 0}) / (1 << kHalvings);
  DoubleDouble sum = {1, 0};
  for (int term = kTerms; term > 0; --term) {
    sum = DoubleDouble{1, 0} + sum * r / term;
  }
  for (int i = 0; i < kHalvings; ++i) {
    sum = sum * sum;
  }
  const int exponent = static_cast<int>(n);
  return {std::ldexp(sum.high, exponent), std::ldexp(sum.low, exponent)};
}

// One step of Newton's method doubles the digits of libm's logarithm. The power of two is split off, since e^-y of a
// large base would be subnormal.
DoubleDouble logarithm(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  const double y = std::log(fraction);
  const DoubleDouble error = DoubleDouble{fraction, 0} * exponential({-y, 0}) + DoubleDouble{-1, 0};
  return kLn2 * DoubleDouble{static_cast<double>(exponent), 0} + (DoubleDouble{y, 0} + error);
}

// x 2^64 = integer + rest, both exact, 0 <= rest < 1.
struct Scaled {
  WideInteger integer;
  double rest;
};
Scaled scaled_by_2_64(double x) {
  const BinaryParts parts = binary_parts(x);
  const int shift = parts.exponent + 64;
  if (shift >= 0) {
    const WideInteger size = static_cast<WideInteger>(parts.mantissa) << shift;
    return {parts.negative ? -size : size, 0};
  }
  const double scaled = std::ldexp(x, 64);
  const double below = std::floor(scaled);
  return {static_cast<WideInteger>(static_cast<int64_t>(below)), scaled - below};
}

// A number of turns, at most 2^63, to 64 fractional bits.
FixedPoint fixed_turns(DoubleDouble turns) {
  const Scaled high = scaled_by_2_64(turns.high);
  const Scaled low = scaled_by_2_64(turns.low);
  return fixed_point(high.integer + low.integer + static_cast<WideInteger>(std::nearbyint(high.rest + low.rest)));
}

}  // namespace

std::vector<FixedPoint> frequency_ladder(int64_t dim, double base, double scale) {
  constexpr DoubleDouble kInverseTurn = {0x1.45f306dc9c883p-3, -0x1.6b01ec5417056p-57};  // 1 / (2 pi)
  std::vector<FixedPoint> turns(static_cast<size_t>((dim + 1) / 2));
  if (turns.empty()) {
    return turns;
  }
  const DoubleDouble ratio = exponential(logarithm(base) * DoubleDouble{-2, 0} / static_cast<double>(dim));
  DoubleDouble frequency = kInverseTurn * DoubleDouble{scale, 0};
  for (FixedPoint& turn : turns) {
    turn = fixed_turns(frequency);
    frequency = frequency * ratio;
  }
  return turns;
}

}  // namespace torch_hrr::kernels
