// Stores past the caches, for results larger than they are.
#pragma once

#include "kernels/convert.h"
#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Results of at least so many bytes leave the caches anyway, and a plain store would read their lines first.
constexpr int64_t kStreamBytes = int64_t{1} << 25;
constexpr int64_t kLineBytes = 64;

// A store past the caches, for memory that will not be read soon; the address is a multiple of the vector's size. Other
// threads see it after finish_streaming.
template <typename T, int W>
KERNEL_HOST_DEVICE void stream(Simd<T, W> a, T* target) {
  [[maybe_unused]] constexpr int kBytes = W * static_cast<int>(sizeof(T));
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

// A line of memory from elements of the compute type.
template <typename S>
KERNEL_HOST_DEVICE void stream_line(const compute_t<S>* source, S* target) {
  constexpr int kElements = static_cast<int>(kLineBytes) / static_cast<int>(sizeof(S));
  if constexpr (sizeof(S) == 2) {
    using Halves = Simd<uint16_t, kConvertBlock>;
    for (int j = 0; j < kElements; j += kConvertBlock) {
      stream(Halves{narrow(S{}, Simd<float, kConvertBlock>::load(source + j))},
             reinterpret_cast<uint16_t*>(target) + j);
    }
  } else {
    constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(S));
    for (int j = 0; j < kElements; j += kLanes) {
      stream(Simd<S, kLanes>::load(source + j), target + j);
    }
  }
}

// target[i] = source[i], rounded to the storage type; whole lines stream if asked to.
template <typename S>
KERNEL_HOST_DEVICE void write_elements(const compute_t<S>* source, int64_t count, bool streams, S* target) {
  constexpr int64_t kElements = kLineBytes / static_cast<int64_t>(sizeof(S));
  const auto misplaced = static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) % kLineBytes);
  // Elements that straddle a line never come to its begin, where streaming stores must lie.
  if (!streams || misplaced % static_cast<int64_t>(sizeof(S)) != 0) {
    return narrow_row(source, count, compute_t<S>{1}, target);
  }
  int64_t i = misplaced == 0 ? 0 : (kLineBytes - misplaced) / static_cast<int64_t>(sizeof(S));
  i = i < count ? i : count;
  narrow_row(source, i, compute_t<S>{1}, target);
  for (; i + kElements <= count; i += kElements) {
    stream_line(source + i, target + i);
  }
  narrow_row(source + i, count - i, compute_t<S>{1}, target + i);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
