// Stores past the caches, for results larger than they are.
#pragma once

#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// A store past the caches, for memory that will not be read soon; the address is a multiple of the vector's size. Other
// threads see it after finish_streaming.
template <typename T, int W>
KERNEL_HOST_DEVICE void stream(Simd<T, W> a, T* target) {
  constexpr int kBytes = W * static_cast<int>(sizeof(T));
#if defined(__AVX512F__)
  if constexpr (kBytes == 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(target), (__m512i)a.lanes);
  } else
#endif
#if defined(__AVX2__)
      if constexpr (kBytes == 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(target), (__m256i)a.lanes);
  } else
#endif
#if defined(__x86_64__)
      if constexpr (kBytes == 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(target), (__m128i)a.lanes);
  } else
#endif
  {
    a.store(target);
  }
}
KERNEL_HOST_DEVICE void finish_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
