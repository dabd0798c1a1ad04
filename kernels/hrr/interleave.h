// Vectors of real and of imaginary parts stored as pairs of numbers, the first pair first or last, and such pairs taken
// apart.
#pragma once

#include "kernels/fft/butterflies.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// The lane in whose place this one comes if every R lanes go from the last to the first.
template <int R>
constexpr int reversed_lane(int lane) {
  return lane / R * R + R - 1 - lane % R;
}
// Interleave two vectors, every R lanes from the last to the first.
template <int R>
struct InterleaveReversedLow {
  static constexpr int of(int j, int w) {
    return reversed_lane<R>(j / 2) + (j % 2) * w;
  }
};
template <int R>
struct InterleaveReversedHigh {
  static constexpr int of(int j, int w) {
    return reversed_lane<R>(w / 2 + j / 2) + (j % 2) * w;
  }
};

// Take the pairs of two vectors apart, every R of them from the last to the first.
template <int R>
struct ReversedEvenLanes {
  static constexpr int of(int j, int) {
    return 2 * reversed_lane<R>(j);
  }
};
template <int R>
struct ReversedOddLanes {
  static constexpr int of(int j, int) {
    return 2 * reversed_lane<R>(j) + 1;
  }
};

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
  } else
#endif
  {
    for (; mask != 0; mask &= mask - 1) {
      const int lane = __builtin_ctz(mask);
      target[lane] = a.lanes[lane];
    }
  }
}

// parts <- the first `end` lanes: all of them, some or, for end <= 0, none.
template <typename T, int W>
KERNEL_HOST_DEVICE void store_up_to(Simd<T, W> x, int64_t end, T* parts) {
  if (end >= W) {
    x.store(parts);
  } else if (end > 0) {
    store_lanes(x, (1u << end) - 1, parts);
  }
}
// parts <- W bins, the first one first or last, of their numbers those up to `end`
template <typename T, int W>
KERNEL_HOST_DEVICE void interleave(const ComplexLanes<T, W>& bins, T* parts, int64_t end = 2 * W) {
  store_up_to(shuffle<InterleaveLow>(bins.re, bins.im), end, parts);
  store_up_to(shuffle<InterleaveHigh>(bins.re, bins.im), end - W, parts + W);
}
template <typename T, int W>
KERNEL_HOST_DEVICE void interleave_reversed(const ComplexLanes<T, W>& bins, T* parts, int64_t end = 2 * W) {
  store_up_to(shuffle<InterleaveReversedLow<W>>(bins.re, bins.im), end, parts);
  store_up_to(shuffle<InterleaveReversedHigh<W>>(bins.re, bins.im), end - W, parts + W);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
