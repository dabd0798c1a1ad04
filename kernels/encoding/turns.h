// Angles as fixed-point fractions of a turn: integers wrap where angles do, so no angle is ever too large.
//
// A frequency in turns per position and a position are both held modulo 2^64 with 64 fractional bits. Their product
// modulo 1, a 64-bit fraction of a turn, is the angle; sine and cosine take its quarter and what is left.
#pragma once

#include <cstdint>

#include "kernels/math.h"

namespace torch_hrr::kernels {

// whole + fraction 2^-64, in two's complement.
struct FixedPoint {
  uint64_t fraction = 0;
  uint64_t whole = 0;
};

KERNEL_ISA_BEGIN

KERNEL_HOST_DEVICE FixedPoint fixed_point(WideInteger value) {
  return {static_cast<uint64_t>(value), static_cast<uint64_t>(value >> 64)};
}

// |x| = mantissa 2^exponent; subnormal numbers count as 0.
struct BinaryParts {
  uint64_t mantissa;
  int exponent;
  bool negative;
};
KERNEL_HOST_DEVICE BinaryParts binary_parts(double x) {
  const uint64_t bits = bits_of(x);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  const uint64_t mantissa = exponent == 0 ? 0 : (bits & 0xfffffffffffffu) | (uint64_t{1} << 52);
  return {mantissa, exponent - 1075, bits >> 63 != 0};
}

// A finite position, exact but for bits below 2^-64 and above 2^63.
KERNEL_HOST_DEVICE FixedPoint fixed_position(double x) {
  const BinaryParts parts = binary_parts(x);
  const int shift = parts.exponent + 64;
  const WideInteger mantissa = parts.mantissa;
  const WideInteger size = shift >= 128 || shift <= -64 ? 0 : shift >= 0 ? mantissa << shift : mantissa >> -shift;
  return fixed_point(parts.negative ? -size : size);
}

// radians / (2 pi) to the nearest multiple of 2^-64, for |radians| <= 2^60; larger ones lose the low bits. 1/(2 pi) has
// 128 bits here, so the product with a mantissa has 181.
KERNEL_HOST_DEVICE FixedPoint turns_of(double radians) {
  constexpr uint64_t kHigh = 0xa2f9836e4e441529u;  // 2^130 / (2 pi)
  constexpr uint64_t kLow = 0xfc2757d1f534ddc1u;
  const BinaryParts parts = binary_parts(radians);
  const WideInteger low = static_cast<WideInteger>(parts.mantissa) * kLow;
  const WideInteger high = static_cast<WideInteger>(parts.mantissa) * kHigh + static_cast<uint64_t>(low >> 64);
  const uint64_t rest = static_cast<uint64_t>(low);
  const int shift = 66 - parts.exponent;
  WideInteger size = 0;
  if (shift > 64 && shift < 192) {
    size = (high >> (shift - 64)) + ((high >> (shift - 65)) & 1);
  } else if (shift > 0 && shift <= 64) {
    size = (high << (64 - shift)) + (shift == 64 ? 0 : rest >> shift) + ((rest >> (shift - 1)) & 1);
  } else if (shift > -64 && shift <= 0) {
    size = ((high << 64) + rest) << -shift;
  }
  return fixed_point(parts.negative ? -size : size);
}

// The 64 bits below the point of a product of two fractions, but for the three lowest places.
template <typename L>
KERNEL_HOST_DEVICE L fraction_product(L a, L b) {
  const L low = lanes_of<L>(0xffffffffu);
  const L a_high = a >> 32;
  const L b_high = b >> 32;
  return a_high * b_high + ((a_high * (b & low)) >> 32) + (((a & low) * b_high) >> 32);
}

// position turn + offset modulo 1
KERNEL_HOST_DEVICE uint64_t phase_of(FixedPoint position, FixedPoint turn, uint64_t offset) {
  uint64_t phase = position.whole * turn.fraction + offset;
  if (position.fraction != 0) {
    phase += position.fraction * turn.whole + fraction_product(position.fraction, turn.fraction);
  }
  return phase;
}

// To the nearest of 2^32 parts of a turn, enough for float.
KERNEL_HOST_DEVICE uint32_t short_phase(uint64_t phase) {
  return static_cast<uint32_t>((phase + 0x80000000u) >> 32);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
