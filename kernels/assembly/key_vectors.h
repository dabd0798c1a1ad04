// Vectors of unsigned keys: comparisons to bit masks, and compression of the lanes that a mask names.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/macros.h"
#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Of the two numbers; std's would be shared between instruction sets.
template <typename T>
KERNEL_HOST_DEVICE constexpr T lesser(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
KERNEL_HOST_DEVICE constexpr T greater(T a, T b) {
  return a < b ? b : a;
}

#if defined(__AVX512F__)
constexpr int kKeyVectorBytes = 64;
#else
constexpr int kKeyVectorBytes = 32;
#endif
template <typename Key>
inline constexpr int kKeyLanes = kKeyVectorBytes / static_cast<int>(sizeof(Key));

template <typename Key>
inline constexpr uint32_t kAllLanes = (1u << kKeyLanes<Key>)-1;

template <typename Key>
using KeyVector = Simd<Key, kKeyLanes<Key>>;

template <typename Key>
KERNEL_HOST_DEVICE KeyVector<Key> smaller(KeyVector<Key> a, KeyVector<Key> b) {
  return {a.lanes < b.lanes ? a.lanes : b.lanes};
}
template <typename Key>
KERNEL_HOST_DEVICE KeyVector<Key> larger(KeyVector<Key> a, KeyVector<Key> b) {
  return {a.lanes < b.lanes ? b.lanes : a.lanes};
}

// Lane j of the result is lane j ^ kDistance.
template <int kDistance>
struct ExchangedLanes {
  static constexpr int of(int j, int) {
    return j ^ kDistance;
  }
};
template <int kDistance, typename Key>
KERNEL_HOST_DEVICE KeyVector<Key> exchanged(KeyVector<Key> keys) {
  return shuffle<ExchangedLanes<kDistance>>(keys, keys);
}

// The lanes folded in halves by an operation on vectors.
template <int kHalf, typename Key, typename Fold>
KERNEL_HOST_DEVICE Key folded(KeyVector<Key> keys, const Fold& fold) {
  if constexpr (kHalf == 0) {
    return keys.lanes[0];
  } else {
    return folded<kHalf / 2>(fold(keys, exchanged<kHalf>(keys)), fold);
  }
}
template <typename Key>
KERNEL_HOST_DEVICE Key smallest_lane(KeyVector<Key> keys) {
  return folded<kKeyLanes<Key> / 2>(keys, [](KeyVector<Key> a, KeyVector<Key> b) { return smaller(a, b); });
}
template <typename Key>
KERNEL_HOST_DEVICE Key largest_lane(KeyVector<Key> keys) {
  return folded<kKeyLanes<Key> / 2>(keys, [](KeyVector<Key> a, KeyVector<Key> b) { return larger(a, b); });
}
// Modulo the key's range.
template <typename Key>
KERNEL_HOST_DEVICE int64_t sum_of(KeyVector<Key> counts) {
  return static_cast<int64_t>(
      folded<kKeyLanes<Key> / 2>(counts, [](KeyVector<Key> a, KeyVector<Key> b) { return a + b; }));
}

// sums[j] + (keys[j] >= least[j]), modulo the key's range.
template <typename Key>
KERNEL_HOST_DEVICE KeyVector<Key> count_at_least(KeyVector<Key> sums, KeyVector<Key> keys, KeyVector<Key> least) {
  return {sums.lanes - (typename KeyVector<Key>::Lanes)(keys.lanes >= least.lanes)};
}

#if defined(__AVX512F__)

// compress_to of the kLanes indices that go with the keys.
template <typename Key>
KERNEL_HOST_DEVICE void compress_indices_to(int32_t* target, const int32_t* indices, uint32_t mask) {
  if constexpr (sizeof(Key) == 4) {
    const __m512i loaded = _mm512_loadu_si512(indices);
    _mm512_storeu_si512(target, _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), loaded));
  } else {
    const __m256i loaded = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target),
                        _mm256_maskz_compress_epi32(static_cast<__mmask8>(mask), loaded));
  }
}
// The same of first, first + 1, ...
template <typename Key>
KERNEL_HOST_DEVICE void compress_positions_to(int32_t* target, int32_t first, uint32_t mask) {
  if constexpr (sizeof(Key) == 4) {
    const __m512i ramp = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i packed = _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), ramp);
    _mm512_storeu_si512(target, _mm512_add_epi32(packed, _mm512_set1_epi32(first)));
  } else {
    const __m256i packed =
        _mm256_maskz_compress_epi32(static_cast<__mmask8>(mask), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm256_add_epi32(packed, _mm256_set1_epi32(first)));
  }
}

// Bit i: whether masks[i] is not 0, for 64-byte aligned masks.
KERNEL_HOST_DEVICE uint64_t nonzero_mask(const uint16_t (&masks)[64]) {
  const __m512i low = _mm512_load_si512(masks);
  const __m512i high = _mm512_load_si512(masks + 32);
  return _mm512_test_epi16_mask(low, low) | static_cast<uint64_t>(_mm512_test_epi16_mask(high, high)) << 32;
}

#elif defined(__AVX2__)

template <typename Key>
KERNEL_HOST_DEVICE void compress_indices_to(int32_t* target, const int32_t* indices, uint32_t mask) {
  if constexpr (sizeof(Key) == 4) {
    const __m256i loaded = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target),
                        _mm256_permutevar8x32_epi32(loaded, packed_positions(mask)));
  } else {
    const __m256i loaded = _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(indices)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target),
                     _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(loaded, packed_positions(mask))));
  }
}
template <typename Key>
KERNEL_HOST_DEVICE void compress_positions_to(int32_t* target, int32_t first, uint32_t mask) {
  const __m256i positions = _mm256_add_epi32(packed_positions(mask), _mm256_set1_epi32(first));
  if constexpr (sizeof(Key) == 4) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), positions);
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm256_castsi256_si128(positions));
  }
}

KERNEL_HOST_DEVICE uint64_t nonzero_mask(const uint16_t (&masks)[64]) {
  const __m256i zero = _mm256_setzero_si256();
  uint64_t mask = 0;
  for (int i = 0; i < 64; i += 32) {
    const __m256i low = _mm256_cmpeq_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(masks + i)), zero);
    const __m256i high = _mm256_cmpeq_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(masks + i + 16)), zero);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8);
    mask |= static_cast<uint64_t>(~static_cast<uint32_t>(_mm256_movemask_epi8(packed))) << i;
  }
  return mask;
}

#else

template <typename Key>
KERNEL_HOST_DEVICE void compress_indices_to(int32_t* target, const int32_t* indices, uint32_t mask) {
  for (; mask != 0; mask &= mask - 1) {
    *target++ = indices[__builtin_ctz(mask)];
  }
}
template <typename Key>
KERNEL_HOST_DEVICE void compress_positions_to(int32_t* target, int32_t first, uint32_t mask) {
  for (; mask != 0; mask &= mask - 1) {
    *target++ = first + __builtin_ctz(mask);
  }
}
KERNEL_HOST_DEVICE uint64_t nonzero_mask(const uint16_t (&masks)[64]) {
  uint64_t mask = 0;
  for (int i = 0; i < 64; ++i) {
    mask |= static_cast<uint64_t>(masks[i] != 0) << i;
  }
  return mask;
}

#endif

// Asks for the line a page ahead of one that is read: long rows come from far, and the hardware's own prefetch starts
// anew with every page. Past the end of a row it does nothing.
KERNEL_HOST_DEVICE void prefetch_ahead(const void* address) {
  constexpr int64_t kPage = 4096;
  __builtin_prefetch(static_cast<const char*>(address) + kPage);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
