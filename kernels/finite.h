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
  // Several sums of the widest vectors there are, so that none of them waits for its last addition.
  constexpr int kSums = 4;
  constexpr int kWidest = kVectorBytes / static_cast<int>(sizeof(T));
  using V = Simd<T, kWidest>;
  const V zero = V::broadcast(0);
  V check[kSums] = {zero, zero, zero, zero};
  int64_t i = 0;
  for (; i + kSums * kWidest <= count; i += kSums * kWidest) {
#pragma GCC unroll 4
    for (int sum = 0; sum < kSums; ++sum) {
      check[sum] = multiply_add(V::load(x + i + sum * kWidest), zero, check[sum]);
    }
  }
  T result = horizontal_sum(check[0] + check[1] + (check[2] + check[3]));
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
