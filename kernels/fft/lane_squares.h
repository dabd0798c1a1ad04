// Rows become vectors with a row in each lane, and such vectors rows, by N x N squares of numbers.
#pragma once

#include "kernels/masked_lanes.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// In the longest vectors two squares lie side by side: halves of them are loaded and stored, which takes the place of a
// step of shuffles.
template <int W, typename T>
constexpr int kSquare = W * sizeof(T) == 64 ? W / 2 : W;

// x[p] <- number p of all W rows; load(row) gives N numbers of one.
template <int N, typename T, int W, typename Load>
KERNEL_HOST_DEVICE void load_square(const Load& load, Simd<T, W> (&x)[N]) {
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) {
    if constexpr (N == W) {
      x[i] = load(i);
    } else {
      x[i] = joined(load(i), load(i + N));
    }
  }
  transpose(x);
}

// Numbers p to p + N - 1 of all W rows <- x, which is transposed.
template <int N, typename T, int W>
KERNEL_HOST_DEVICE void store_square(Simd<T, W> (&x)[N], T* const* rows, int64_t p) {
  transpose(x);
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) {
    if constexpr (N == W) {
      x[i].store(rows[i] + p);
    } else {
      half_of<0>(x[i]).store(rows[i] + p);
      half_of<1>(x[i]).store(rows[i + N] + p);
    }
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
