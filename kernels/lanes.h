// A single number as a vector of one lane: the operations on float and double that formulas over lanes use.
//
// simd.h has the same operations on vectors, so that a template over L compiles for float, double and Simd<T, W>. Every
// operation is exact or rounds once as IEEE 754 says, so all instruction sets and devices give the same bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/macros.h"

namespace torch_hrr::kernels {

// The number in a lane of L, and unsigned integers of its size in as many lanes.
template <typename L>
struct LaneTypes {};
template <>
struct LaneTypes<float> {
  using Number = float;
  using Bits = uint32_t;
};
template <>
struct LaneTypes<double> {
  using Number = double;
  using Bits = uint64_t;
};
template <>
struct LaneTypes<uint32_t> {
  using Number = uint32_t;
  using Bits = uint32_t;
};
template <>
struct LaneTypes<uint64_t> {
  using Number = uint64_t;
  using Bits = uint64_t;
};
template <typename L>
using number_t = typename LaneTypes<L>::Number;
template <typename L>
using bits_t = typename LaneTypes<L>::Bits;

KERNEL_ISA_BEGIN

// The same number in every lane of L.
template <typename L>
KERNEL_HOST_DEVICE L lanes_of(number_t<L> value) {
  if constexpr (sizeof(L) == sizeof(value)) {
    return value;
  } else {
    return L::broadcast(value);
  }
}

// The same of a number of every lane, or of numbers of each.
template <typename L, typename N>
KERNEL_HOST_DEVICE L in_lanes(const N& value) {
  if constexpr (std::is_same_v<L, N>) {
    return value;
  } else {
    return lanes_of<L>(value);
  }
}

// a b + c, rounded once on every machine: without the instruction, libm's function takes some nanoseconds.
KERNEL_HOST_DEVICE float fused_multiply_add(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
KERNEL_HOST_DEVICE double fused_multiply_add(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

KERNEL_HOST_DEVICE float square_root(float x) {
  return __builtin_sqrtf(x);
}
KERNEL_HOST_DEVICE double square_root(double x) {
  return __builtin_sqrt(x);
}

KERNEL_HOST_DEVICE uint32_t bits_of(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(x));
  return bits;
}
KERNEL_HOST_DEVICE uint64_t bits_of(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof(x));
  return bits;
}
KERNEL_HOST_DEVICE float number_of(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
KERNEL_HOST_DEVICE double number_of(uint64_t bits) {
  double x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

// The nearest number to an integer in two's complement.
KERNEL_HOST_DEVICE float signed_number(uint32_t integer) {
  return static_cast<float>(static_cast<int32_t>(integer));
}
KERNEL_HOST_DEVICE double signed_number(uint64_t integer) {
  return static_cast<double>(static_cast<int64_t>(integer));
}

// condition ? yes : no
KERNEL_HOST_DEVICE float select(bool condition, float yes, float no) {
  return condition ? yes : no;
}
KERNEL_HOST_DEVICE double select(bool condition, double yes, double no) {
  return condition ? yes : no;
}
KERNEL_HOST_DEVICE bool any(bool condition) {
  return condition;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
