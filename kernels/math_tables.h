// Constants of math.h: formats of numbers, pi/2 and ln 2 in parts, the bits of 2/pi.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/macros.h"

namespace torch_hrr::kernels {

// Twice the widest integer of the language.
__extension__ typedef unsigned __int128 WideInteger;

// Adding kRounding leaves no fraction of a number below kRounding / 3, and the integer in the lowest bits.
template <typename T>
struct NumberFormat;
template <>
struct NumberFormat<float> {
  static constexpr int kMantissaBits = 23;
  static constexpr uint32_t kBias = 127;
  static constexpr uint32_t kSign = 0x80000000u;
  static constexpr float kRounding = 0x1.8p23f;
};
template <>
struct NumberFormat<double> {
  static constexpr int kMantissaBits = 52;
  static constexpr uint64_t kBias = 1023;
  static constexpr uint64_t kSign = uint64_t{1} << 63;
  static constexpr double kRounding = 0x1.8p52;
};

// The constants of std::numeric_limits, whose functions CUDA cannot call.
template <typename T>
struct NumberLimits {
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();
  static constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
  static constexpr T kLeastNormal = std::numeric_limits<T>::min();
  static constexpr T kEpsilon = std::numeric_limits<T>::epsilon();
};

// pi/2 = first + second + third, each rounded to nearest; 2/pi; the largest angle that these parts reduce.
template <typename T>
struct HalfPi;
template <>
struct HalfPi<float> {
  static constexpr float kFirst = 0x1.921fb6p+0f;
  static constexpr float kSecond = -0x1.777a5cp-25f;
  static constexpr float kThird = -0x1.ee59dap-50f;
  static constexpr float kInverse = 0x1.45f306p-1f;
  static constexpr float kLargest = 0x1p17f;
};
template <>
struct HalfPi<double> {
  static constexpr double kFirst = 0x1.921fb54442d18p+0;
  static constexpr double kSecond = 0x1.1a62633145c07p-54;
  static constexpr double kThird = -0x1.f1976b7ed8fbcp-110;
  static constexpr double kInverse = 0x1.45f306dc9c883p-1;
  static constexpr double kLargest = 0x1p30;
};

// 1/(2 pi) = inverse + rest; the tangent of a sixteenth of a turn, whose own angle is that and a rest.
template <typename T>
struct Turn;
template <>
struct Turn<float> {
  static constexpr float kInverse = 0x1.45f306p-3f;
  static constexpr float kInverseRest = 0x1.b93910p-28f;
  static constexpr float kTanSixteenth = 0x1.a8279ap-2f;
  static constexpr float kSixteenthRest = 0x1.a227d8p-31f;
};
template <>
struct Turn<double> {
  static constexpr double kInverse = 0x1.45f306dc9c883p-3;
  static constexpr double kInverseRest = -0x1.6b01ec5417056p-57;
  static constexpr double kTanSixteenth = 0x1.a827999fcef32p-2;
  static constexpr double kSixteenthRest = -0x1.1fab4fdeff87bp-59;
};

// ln 2 = first + second; its inverse.
template <typename T>
struct Ln2;
template <>
struct Ln2<float> {
  static constexpr float kFirst = 0x1.62e430p-1f;
  static constexpr float kSecond = -0x1.05c610p-29f;
  static constexpr float kInverse = 0x1.715476p+0f;
};
template <>
struct Ln2<double> {
  static constexpr double kFirst = 0x1.62e42fefa39efp-1;
  static constexpr double kSecond = 0x1.abc9e3b39803fp-56;
  static constexpr double kInverse = 0x1.71547652b82fep+0;
};

KERNEL_ISA_BEGIN

// Word 0 is 0; then the bits of 2/pi, the first half first, 64 in a word.
KERNEL_HOST_DEVICE uint64_t two_over_pi_word(uint64_t index) {
  static constexpr uint64_t kWords[] = {0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
                                        0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
                                        0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
                                        0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
                                        0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08};
  return kWords[index];
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
