// Vectors of 32-bit integers and masks of their lanes, as wide as a Philox call: gathers, comparisons, compression.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/philox.h"

namespace torch_hrr::kernels {
HRR_ISA_BEGIN

using LaneWords = PhiloxWords;
typedef int32_t LaneInts __attribute__((vector_size(4 * kPhiloxLanes)));

HRR_HOST_DEVICE LaneWords broadcast_lanes(uint32_t value) {
  return value - LaneWords{};
}

#if defined(__AVX512F__)

struct LaneMask {
  __mmask16 bits;
};

HRR_HOST_DEVICE bool any(LaneMask mask) {
  return mask.bits != 0;
}
HRR_HOST_DEVICE uint32_t bits_of(LaneMask mask) {
  return mask.bits;
}
HRR_HOST_DEVICE LaneMask operator&(LaneMask a, LaneMask b) {
  return {static_cast<__mmask16>(a.bits & b.bits)};
}
// a < b as unsigned numbers, lane by lane
HRR_HOST_DEVICE LaneMask below(LaneWords a, LaneWords b) {
  return {_mm512_cmplt_epu32_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b))};
}
HRR_HOST_DEVICE LaneMask differs(LaneWords a, LaneWords b) {
  return {_mm512_cmpneq_epu32_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b))};
}
// a where the mask is set, else b
HRR_HOST_DEVICE LaneWords choose(LaneMask mask, LaneWords a, LaneWords b) {
  return reinterpret_cast<LaneWords>(
      _mm512_mask_blend_epi32(mask.bits, reinterpret_cast<__m512i>(b), reinterpret_cast<__m512i>(a)));
}
// table[index] in the lanes of the mask, 0 elsewhere
HRR_HOST_DEVICE LaneWords gather(const uint32_t* table, LaneWords index, LaneMask mask) {
  return reinterpret_cast<LaneWords>(
      _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), mask.bits, reinterpret_cast<__m512i>(index), table, 4));
}
// The lanes of the mask, in order, and anything behind them up to a whole vector; their number.
HRR_HOST_DEVICE int store_lanes(uint32_t* target, LaneWords words, LaneMask mask) {
  _mm512_storeu_si512(target, _mm512_maskz_compress_epi32(mask.bits, reinterpret_cast<__m512i>(words)));
  return __builtin_popcount(mask.bits);
}

#else

struct LaneMask {
  LaneInts lanes;  // -1 or 0
};

HRR_HOST_DEVICE uint32_t bits_of(LaneMask mask) {
#if defined(__AVX2__)
  return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(mask.lanes)));
#elif defined(__x86_64__)
  return static_cast<uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(mask.lanes)));
#else
  uint32_t bits = 0;
  for (int lane = 0; lane < kPhiloxLanes; ++lane) {
    bits |= static_cast<uint32_t>(mask.lanes[lane] & 1) << lane;
  }
  return bits;
#endif
}
HRR_HOST_DEVICE bool any(LaneMask mask) {
  return bits_of(mask) != 0;
}
HRR_HOST_DEVICE LaneMask operator&(LaneMask a, LaneMask b) {
  return {a.lanes & b.lanes};
}
HRR_HOST_DEVICE LaneMask below(LaneWords a, LaneWords b) {
  return {reinterpret_cast<LaneInts>(a < b)};
}
HRR_HOST_DEVICE LaneMask differs(LaneWords a, LaneWords b) {
  return {reinterpret_cast<LaneInts>(a != b)};
}
HRR_HOST_DEVICE LaneWords choose(LaneMask mask, LaneWords a, LaneWords b) {
  const LaneWords chosen = reinterpret_cast<LaneWords>(mask.lanes);
  return (a & chosen) | (b & ~chosen);
}
HRR_HOST_DEVICE LaneWords gather(const uint32_t* table, LaneWords index, LaneMask mask) {
#if defined(__AVX2__)
  return reinterpret_cast<LaneWords>(
      _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), reinterpret_cast<const int*>(table),
                                  reinterpret_cast<__m256i>(index), reinterpret_cast<__m256i>(mask.lanes), 4));
#else
  LaneWords words{};
  for (int lane = 0; lane < kPhiloxLanes; ++lane) {
    words[lane] = mask.lanes[lane] != 0 ? table[index[lane]] : 0;
  }
  return words;
#endif
}
HRR_HOST_DEVICE int store_lanes(uint32_t* target, LaneWords words, LaneMask mask) {
  uint32_t lanes[kPhiloxLanes];
  __builtin_memcpy(lanes, &words, sizeof(words));
  constexpr uint32_t kAll = (1u << kPhiloxLanes) - 1;
  uint32_t bits = bits_of(mask);
  if (bits == kAll) {
    __builtin_memcpy(target, &words, sizeof(words));
    return kPhiloxLanes;
  }
  int count = 0;
  for (; bits != 0; bits &= bits - 1) {
    target[count++] = lanes[__builtin_ctz(bits)];
  }
  return count;
}

#endif

HRR_ISA_END
}  // namespace torch_hrr::kernels
