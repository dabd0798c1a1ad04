// The k largest elements of each row in a stated total order: parameters and the order, shared by every device.
//
// Order: NaN (whatever its sign and payload) before +infinity before ... before -infinity; -0 equals +0; among equal
// elements the lower index comes first. As keys: order_key is an unsigned integer that grows with the element, equal
// exactly for equal elements; the winners are the k largest pairs (key, -index).
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/macros.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

enum class Element : int32_t { kFloat, kDouble, kHalf, kBFloat16, kInt32, kInt64 };

// Output row r: values[r * k + i], indices[r * k + i] for i < k of input[r * row_stride + j], j < n.
struct WinnersParams {
  const void* input = nullptr;
  void* values = nullptr;      // the input's bits
  int64_t* indices = nullptr;  // ascending, or by descending element (ties ascending) where `sorted` is set
  int64_t rows = 0;
  int64_t n = 0;  // below 2^31
  int64_t k = 0;  // 0 to n
  int64_t row_stride = 0;
  Element element = Element::kFloat;
  bool sorted = false;
};
// By ascending index whatever `sorted` says; values may be null.
int64_t workspace_bytes(Storage storage, const WinnersParams& params);
void queue(const CudaCall& call, const WinnersParams& params);

// keys[i] orders as int64 what element values[i] orders, equal for equal elements: a stable descending sort of the keys
// of a row's winners gives the order of WinnersParams::sorted.
struct WinnerKeysParams {
  const void* values = nullptr;
  int64_t* keys = nullptr;
  int64_t count = 0;
  Element element = Element::kFloat;
};
void queue(const CudaCall& call, const WinnerKeysParams& params);

KERNEL_ISA_BEGIN

// Keys of IEEE bits: the sign bit is flipped for positive numbers, all bits for negative ones; -0 becomes +0 and every
// NaN the largest key. Float16 and bfloat16 are widened to float first, which keeps their order.
KERNEL_HOST_DEVICE constexpr uint32_t order_key_of_float_bits(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return 0xffffffffu;
  }
  return magnitude == 0 ? 0x80000000u : ((bits >> 31) != 0 ? ~bits : bits | 0x80000000u);
}
KERNEL_HOST_DEVICE constexpr uint64_t order_key_of_double_bits(uint64_t bits) {
  const uint64_t magnitude = bits & 0x7fffffffffffffffu;
  if (magnitude > 0x7ff0000000000000u) {
    return 0xffffffffffffffffu;
  }
  return magnitude == 0 ? 0x8000000000000000u : ((bits >> 63) != 0 ? ~bits : bits | 0x8000000000000000u);
}
// The number of a finite number's key, T as wide as the key.
template <typename T, typename Key>
KERNEL_HOST_DEVICE T number_of_order_key(Key key) {
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  return __builtin_bit_cast(T, (key & kSign) != 0 ? key ^ kSign : ~key);
}
KERNEL_HOST_DEVICE constexpr uint32_t order_key_of_integer(int32_t value) {
  return static_cast<uint32_t>(value) ^ 0x80000000u;
}
KERNEL_HOST_DEVICE constexpr uint64_t order_key_of_integer(int64_t value) {
  return static_cast<uint64_t>(value) ^ 0x8000000000000000u;
}

// use(S{}) with the type of the elements.
template <typename Use>
auto with_element(Element element, const Use& use) {
  switch (element) {
    case Element::kDouble:
      return use(double{});
    case Element::kHalf:
      return use(Half{});
    case Element::kBFloat16:
      return use(BFloat16{});
    case Element::kInt32:
      return use(int32_t{});
    case Element::kInt64:
      return use(int64_t{});
    case Element::kFloat:
      break;
  }
  return use(float{});
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
