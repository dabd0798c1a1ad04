// Rows with NaN or infinity: found, and written.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/convert.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

KERNEL_HOST_DEVICE bool is_finite(double x) {
  return x - x == 0;
}

template <typename T>
KERNEL_HOST_DEVICE bool all_finite(const T* x, int64_t count) {
  constexpr int kLanes = 64 / static_cast<int>(sizeof(T));
  using V = Simd<T, kLanes>;
  const V zero = V::broadcast(0);
  V check = zero;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    check = multiply_add(V::load(x + i), zero, check);
  }
  T result = horizontal_sum(check);
  for (; i < count; ++i) {
    result += x[i] * 0;
  }
  return result == 0;
}

template <typename S>
KERNEL_HOST_DEVICE void fill_nan(S* target, int64_t count) {
  const compute_t<S> nan = std::numeric_limits<compute_t<S>>::quiet_NaN();
  compute_t<S> block[kConvertBlock];
  for (int i = 0; i < kConvertBlock; ++i) {
    block[i] = nan;
  }
  for (int64_t i = 0; i < count; i += kConvertBlock) {
    narrow_row<S>(block, count - i < kConvertBlock ? count - i : kConvertBlock, 1, target + i);
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
