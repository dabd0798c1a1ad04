// Some lanes of a vector in memory, and halves of a vector.
#pragma once

#include <cstdint>

#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

#if defined(__AVX512F__)
// The lanes of a mask; the others are 0, and nothing is read for them.
template <int W, typename T>
KERNEL_HOST_DEVICE Simd<T, W> load_lanes(uint32_t mask, const T* source) {
  using Lanes = typename Simd<T, W>::Lanes;
  if constexpr (W == 16) {
    return {(Lanes)_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), source)};
  } else if constexpr (W == 8 && sizeof(T) == 4) {
    return {(Lanes)_mm256_maskz_loadu_ps(static_cast<__mmask8>(mask), source)};
  } else if constexpr (W == 8) {
    return {(Lanes)_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), source)};
  } else {
    static_assert(W == 4 && sizeof(T) == 8);
    return {(Lanes)_mm256_maskz_loadu_pd(static_cast<__mmask8>(mask), source)};
  }
}

// Half 0 or 1 of a vector.
template <int kHalf, typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W / 2> half_of(Simd<T, W> a) {
  static_assert(W * sizeof(T) == 64);
  return {(typename Simd<T, W / 2>::Lanes) _mm512_extractf32x8_ps((__m512)a.lanes, kHalf)};
}
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, 2 * W> joined(Simd<T, W> low, Simd<T, W> high) {
  static_assert(W * sizeof(T) == 32);
  const __m512 lanes = _mm512_castps256_ps512((__m256)low.lanes);
  return {(typename Simd<T, 2 * W>::Lanes) _mm512_insertf32x8(lanes, (__m256)high.lanes, 1)};
}
#endif

// Stores the lanes of a mask alone.
template <typename T, int W>
KERNEL_HOST_DEVICE void store_lanes(Simd<T, W> a, uint32_t mask, T* target) {
#if defined(__AVX512F__)
  if constexpr (W == 16 && sizeof(T) == 4) {
    _mm512_mask_storeu_ps(target, static_cast<__mmask16>(mask), (__m512)a.lanes);
  } else if constexpr (W == 8 && sizeof(T) == 4) {
    _mm256_mask_storeu_ps(target, static_cast<__mmask8>(mask), (__m256)a.lanes);
  } else if constexpr (W == 8) {
    _mm512_mask_storeu_pd(target, static_cast<__mmask8>(mask), (__m512d)a.lanes);
  } else if constexpr (W == 4 && sizeof(T) == 8) {
    _mm256_mask_storeu_pd(target, static_cast<__mmask8>(mask), (__m256d)a.lanes);
  } else
#endif
  {
    for (; mask != 0; mask &= mask - 1) {
      const int lane = __builtin_ctz(mask);
      target[lane] = a.lanes[lane];
    }
  }
}

#if defined(__AVX512F__)
// Stores the lanes of half 0 or 1 that the mask names, by a masked store of the whole vector. From a half the compiler
// would make an extraction to memory, which may fault even at lanes that its mask leaves out.
template <int kHalf, typename T, int W>
KERNEL_HOST_DEVICE void store_lanes_of_half(Simd<T, W> a, uint32_t mask, T* target) {
  store_lanes(a, mask << (kHalf * W / 2), target - kHalf * W / 2);
}
#endif

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
