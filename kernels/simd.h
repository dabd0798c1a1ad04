// Vectors of W lanes over the compiler's vector extensions, with intrinsics where those lack an operation or the
// compiler makes poor code of it.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/lanes.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <typename T, int W>
struct Simd {
  static constexpr int kLanes = W;
  typedef T Lanes __attribute__((vector_size(W * sizeof(T))));
  Lanes lanes;

  static KERNEL_HOST_DEVICE Simd broadcast(T value) {
    return {value - Lanes{}};
  }
  static KERNEL_HOST_DEVICE Simd load(const T* source) {
    Simd result;
    __builtin_memcpy(&result.lanes, source, sizeof(Lanes));
    return result;
  }
  KERNEL_HOST_DEVICE void store(T* target) const {
    __builtin_memcpy(target, &lanes, sizeof(Lanes));
  }
};

KERNEL_ISA_END

template <typename T, int W>
struct LaneTypes<Simd<T, W>> {
  using Number = T;
  using Bits = Simd<bits_t<T>, W>;
};

KERNEL_ISA_BEGIN

template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> operator+(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes + b.lanes};
}
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> operator-(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes - b.lanes};
}
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> operator*(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes * b.lanes};
}
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> operator-(Simd<T, W> a) {
  return {-a.lanes};
}

template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> multiply_add(Simd<T, W> a, Simd<T, W> b, Simd<T, W> c) {
  constexpr int kBytes = W * static_cast<int>(sizeof(T));
  [[maybe_unused]] constexpr bool kFloat = sizeof(T) == 4;
  using Lanes [[maybe_unused]] = typename Simd<T, W>::Lanes;
#if defined(__AVX512F__)
  if constexpr (kBytes == 64 && kFloat) {
    return {(Lanes)_mm512_fmadd_ps((__m512)a.lanes, (__m512)b.lanes, (__m512)c.lanes)};
  } else if constexpr (kBytes == 64) {
    return {(Lanes)_mm512_fmadd_pd((__m512d)a.lanes, (__m512d)b.lanes, (__m512d)c.lanes)};
  } else
#endif
#if defined(__FMA__)
      if constexpr (kBytes == 32 && kFloat) {
    return {(Lanes)_mm256_fmadd_ps((__m256)a.lanes, (__m256)b.lanes, (__m256)c.lanes)};
  } else if constexpr (kBytes == 32) {
    return {(Lanes)_mm256_fmadd_pd((__m256d)a.lanes, (__m256d)b.lanes, (__m256d)c.lanes)};
  } else if constexpr (kBytes == 16 && kFloat) {
    return {(Lanes)_mm_fmadd_ps((__m128)a.lanes, (__m128)b.lanes, (__m128)c.lanes)};
  } else
#endif
  {
    static_assert(kBytes <= 64);
    return {a.lanes * b.lanes + c.lanes};
  }
}

template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> operator/(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes / b.lanes};
}

// Bit operations, of unsigned integers.
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> operator&(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes & b.lanes};
}
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> operator|(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes | b.lanes};
}
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> operator^(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes ^ b.lanes};
}
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> operator<<(Simd<T, W> a, int bits) {
  return {a.lanes << bits};
}
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> operator>>(Simd<T, W> a, int bits) {
  return {a.lanes >> bits};
}

// A condition per lane of Simd<T, W>: an integer of T's size with all bits set, or none.
template <typename T, int W>
struct SimdMask {
  using Flag = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Flag Lanes __attribute__((vector_size(W * sizeof(T))));
  Lanes lanes;
};

template <typename T, int W>
KERNEL_HOST_DEVICE SimdMask<T, W> operator<(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes < b.lanes};
}
template <typename T, int W>
KERNEL_HOST_DEVICE SimdMask<T, W> operator<=(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes <= b.lanes};
}
template <typename T, int W>
KERNEL_HOST_DEVICE SimdMask<T, W> operator>(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes > b.lanes};
}
template <typename T, int W>
KERNEL_HOST_DEVICE SimdMask<T, W> operator>=(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes >= b.lanes};
}
template <typename T, int W>
KERNEL_HOST_DEVICE SimdMask<T, W> operator==(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes == b.lanes};
}

template <typename T, int W>
KERNEL_HOST_DEVICE SimdMask<T, W> operator!=(Simd<T, W> a, Simd<T, W> b) {
  return {a.lanes != b.lanes};
}

// condition ? yes : no; the condition may come from other lanes of the same size.
template <typename T, typename S, int W>
KERNEL_HOST_DEVICE Simd<T, W> select(SimdMask<S, W> condition, Simd<T, W> yes, Simd<T, W> no) {
  static_assert(sizeof(T) == sizeof(S));
  return {condition.lanes ? yes.lanes : no.lanes};
}

// Bit j: whether the condition holds in lane j.
template <typename T, int W>
KERNEL_HOST_DEVICE uint32_t mask_of(SimdMask<T, W> condition) {
  [[maybe_unused]] constexpr int kBytes = W * static_cast<int>(sizeof(T));
#if defined(__AVX2__)
  if constexpr (kBytes == 32) {
    const __m256i lanes = (__m256i)condition.lanes;
    return static_cast<uint32_t>(sizeof(T) == 4 ? _mm256_movemask_ps(_mm256_castsi256_ps(lanes))
                                                : _mm256_movemask_pd(_mm256_castsi256_pd(lanes)));
  } else
#endif
#if defined(__x86_64__)
      if constexpr (kBytes == 16) {
    const __m128i lanes = (__m128i)condition.lanes;
    return static_cast<uint32_t>(sizeof(T) == 4 ? _mm_movemask_ps(_mm_castsi128_ps(lanes))
                                                : _mm_movemask_pd(_mm_castsi128_pd(lanes)));
  } else
#endif
  {
    uint32_t mask = 0;
    for (int j = 0; j < W; ++j) {
      mask |= static_cast<uint32_t>(condition.lanes[j] & 1) << j;
    }
    return mask;
  }
}

// Comparisons of unsigned integers as such bits.
#if defined(__AVX512F__)
// A whole vector is compared straight into a mask, by intrinsics: from the operator the compiler would make a vector
// first.
template <int kPredicate, typename T, int W>
KERNEL_HOST_DEVICE uint32_t compare_to_mask(Simd<T, W> a, Simd<T, W> b) {
  if constexpr (sizeof(T) == 4) {
    return _mm512_cmp_epu32_mask((__m512i)a.lanes, (__m512i)b.lanes, kPredicate);
  } else {
    return _mm512_cmp_epu64_mask((__m512i)a.lanes, (__m512i)b.lanes, kPredicate);
  }
}
#endif
template <typename T, int W>
KERNEL_HOST_DEVICE uint32_t less_mask(Simd<T, W> a, Simd<T, W> b) {
#if defined(__AVX512F__)
  if constexpr (W * sizeof(T) == 64) {
    return compare_to_mask<_MM_CMPINT_LT>(a, b);
  } else
#endif
  {
    return mask_of(a < b);
  }
}
template <typename T, int W>
KERNEL_HOST_DEVICE uint32_t at_least_mask(Simd<T, W> a, Simd<T, W> b) {
#if defined(__AVX512F__)
  if constexpr (W * sizeof(T) == 64) {
    return compare_to_mask<_MM_CMPINT_GE>(a, b);
  } else
#endif
  {
    return mask_of(a >= b);
  }
}
template <typename T, int W>
KERNEL_HOST_DEVICE uint32_t equal_mask(Simd<T, W> a, Simd<T, W> b) {
#if defined(__AVX512F__)
  if constexpr (W * sizeof(T) == 64) {
    return compare_to_mask<_MM_CMPINT_EQ>(a, b);
  } else
#endif
  {
    return mask_of(a == b);
  }
}

#if defined(__AVX2__) && !defined(__AVX512F__)
// For every mask of 8 lanes, the positions of its bits, packed to the front, one per byte.
struct PackedPositions {
  uint64_t of_mask[256];
};
constexpr PackedPositions make_packed_positions() {
  PackedPositions made{};
  for (int mask = 0; mask < 256; ++mask) {
    int count = 0;
    for (uint64_t bit = 0; bit < 8; ++bit) {
      if (((mask >> bit) & 1) != 0) {
        made.of_mask[mask] |= bit << (8 * count++);
      }
    }
  }
  return made;
}
static constexpr PackedPositions kPackedPositions = make_packed_positions();

KERNEL_HOST_DEVICE __m256i packed_positions(uint32_t mask) {
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(kPackedPositions.of_mask[mask])));
}
// A mask of 4 64-bit lanes as the mask of their 8 halves.
KERNEL_HOST_DEVICE uint32_t halves_of(uint32_t mask) {
  const uint32_t spread = (mask & 1) | ((mask & 2) << 1) | ((mask & 4) << 2) | ((mask & 8) << 3);
  return spread * 3;
}
#endif

// Writes the lanes of a mask, packed, to target; may write up to a whole vector.
template <typename T, int W>
KERNEL_HOST_DEVICE void compress_to(T* target, Simd<T, W> a, uint32_t mask) {
#if defined(__AVX512F__)
  // In registers, then a plain store: compression to memory is microcoded on some processors.
  if constexpr (W * sizeof(T) == 64 && sizeof(T) == 4) {
    _mm512_storeu_si512(target, _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), (__m512i)a.lanes));
  } else if constexpr (W * sizeof(T) == 64) {
    _mm512_storeu_si512(target, _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), (__m512i)a.lanes));
  } else
#elif defined(__AVX2__)
  if constexpr (W * sizeof(T) == 32) {
    const __m256i order = packed_positions(sizeof(T) == 4 ? mask : halves_of(mask));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm256_permutevar8x32_epi32((__m256i)a.lanes, order));
  } else
#endif
  {
    T lanes[W];
    a.store(lanes);
    for (; mask != 0; mask &= mask - 1) {
      *target++ = lanes[__builtin_ctz(mask)];
    }
  }
}

// table[index] in every lane.
template <int W>
KERNEL_HOST_DEVICE Simd<uint32_t, W> gather(const uint32_t* table, Simd<uint32_t, W> index) {
  using Lanes [[maybe_unused]] = typename Simd<uint32_t, W>::Lanes;
#if defined(__AVX512F__)
  // A full mask that the compiler cannot see through; otherwise it drops the zeros, and every gather waits for the
  // previous value of its register.
  if constexpr (W == 16) {
    const __m512i zero = _mm512_setzero_si512();
    const __mmask16 all = _mm512_cmpeq_epi32_mask(zero, zero);
    return {(Lanes)_mm512_mask_i32gather_epi32(zero, all, (__m512i)index.lanes, table, 4)};
  } else
#elif defined(__AVX2__)
  if constexpr (W == 8) {
    return {(Lanes)_mm256_i32gather_epi32(reinterpret_cast<const int*>(table), (__m256i)index.lanes, 4)};
  } else
#endif
  {
    Simd<uint32_t, W> result;
    for (int j = 0; j < W; ++j) {
      result.lanes[j] = table[index.lanes[j]];
    }
    return result;
  }
}

// factor times the low half of every lane.
template <int W>
KERNEL_HOST_DEVICE Simd<uint64_t, W> multiply_low_half(uint32_t factor, Simd<uint64_t, W> x) {
  const auto factors = Simd<uint64_t, W>::broadcast(factor).lanes;
  using Lanes [[maybe_unused]] = typename Simd<uint64_t, W>::Lanes;
#if defined(__AVX512F__)
  if constexpr (W == 8) {
    // The zero-masked form, as in square_root.
    return {(Lanes)_mm512_maskz_mul_epu32(0xff, (__m512i)x.lanes, (__m512i)factors)};
  } else
#endif
#if defined(__AVX2__)
      if constexpr (W == 4) {
    return {(Lanes)_mm256_mul_epu32((__m256i)x.lanes, (__m256i)factors)};
  } else
#endif
#if defined(__x86_64__)
      if constexpr (W == 2) {
    return {(Lanes)_mm_mul_epu32((__m128i)x.lanes, (__m128i)factors)};
  } else
#endif
  {
    return {(x.lanes & 0xffffffffu) * factors};
  }
}

// Every lane in another type.
template <typename U, typename T, int W>
KERNEL_HOST_DEVICE Simd<U, W> converted(Simd<T, W> a) {
  return {__builtin_convertvector(a.lanes, typename Simd<U, W>::Lanes)};
}
// The lanes of a vector L from and to numbers of another type.
template <typename L, typename T>
KERNEL_HOST_DEVICE L load_as(const T* source) {
  return converted<number_t<L>>(Simd<T, L::kLanes>::load(source));
}
template <typename T, typename U, int W>
KERNEL_HOST_DEVICE void store_as(Simd<U, W> value, T* target) {
  converted<T>(value).store(target);
}

// Whether the condition holds in any lane.
template <typename T, int W>
KERNEL_HOST_DEVICE bool any(SimdMask<T, W> condition) {
  [[maybe_unused]] constexpr int kBytes = W * static_cast<int>(sizeof(T));
#if defined(__AVX512F__)
  if constexpr (kBytes == 64) {
    return _mm512_test_epi32_mask((__m512i)condition.lanes, (__m512i)condition.lanes) != 0;
  } else
#endif
#if defined(__AVX2__)
      if constexpr (kBytes == 32) {
    return _mm256_testz_si256((__m256i)condition.lanes, (__m256i)condition.lanes) == 0;
  } else
#endif
#if defined(__x86_64__)
      if constexpr (kBytes == 16) {
    return _mm_movemask_epi8((__m128i)condition.lanes) != 0;
  } else
#endif
  {
    typename SimdMask<T, W>::Flag found = 0;
    for (int i = 0; i < W; ++i) {
      found |= condition.lanes[i];
    }
    return found != 0;
  }
}

// The bits of every number, and back.
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<bits_t<T>, W> bits_of(Simd<T, W> a) {
  return {(typename Simd<bits_t<T>, W>::Lanes)a.lanes};
}
template <int W>
KERNEL_HOST_DEVICE Simd<float, W> number_of(Simd<uint32_t, W> bits) {
  return {(typename Simd<float, W>::Lanes)bits.lanes};
}
template <int W>
KERNEL_HOST_DEVICE Simd<double, W> number_of(Simd<uint64_t, W> bits) {
  return {(typename Simd<double, W>::Lanes)bits.lanes};
}

// The nearest number to every integer in two's complement.
template <int W>
KERNEL_HOST_DEVICE Simd<float, W> signed_number(Simd<uint32_t, W> integers) {
  return converted<float>(Simd<int32_t, W>{(typename Simd<int32_t, W>::Lanes)integers.lanes});
}
template <int W>
KERNEL_HOST_DEVICE Simd<double, W> signed_number(Simd<uint64_t, W> integers) {
  return converted<double>(Simd<int64_t, W>{(typename Simd<int64_t, W>::Lanes)integers.lanes});
}

// a b + c, rounded once on every machine: lane by lane where the instruction is missing.
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> fused_multiply_add(Simd<T, W> a, Simd<T, W> b, Simd<T, W> c) {
#if defined(__FMA__)
  return multiply_add(a, b, c);
#else
  Simd<T, W> result;
  for (int i = 0; i < W; ++i) {
    result.lanes[i] =
        fused_multiply_add(static_cast<T>(a.lanes[i]), static_cast<T>(b.lanes[i]), static_cast<T>(c.lanes[i]));
  }
  return result;
#endif
}

template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> square_root(Simd<T, W> x) {
  [[maybe_unused]] constexpr int kBytes = W * static_cast<int>(sizeof(T));
  [[maybe_unused]] constexpr bool kFloat = sizeof(T) == 4;
  using Lanes [[maybe_unused]] = typename Simd<T, W>::Lanes;
#if defined(__AVX512F__)
  // The zero-masked form with a full mask: the plain one makes GCC 12 warn about its own header.
  if constexpr (kBytes == 64 && kFloat) {
    return {(Lanes)_mm512_maskz_sqrt_ps(0xffff, (__m512)x.lanes)};
  } else if constexpr (kBytes == 64) {
    return {(Lanes)_mm512_maskz_sqrt_pd(0xff, (__m512d)x.lanes)};
  } else
#endif
#if defined(__AVX2__)
      if constexpr (kBytes == 32 && kFloat) {
    return {(Lanes)_mm256_sqrt_ps((__m256)x.lanes)};
  } else if constexpr (kBytes == 32) {
    return {(Lanes)_mm256_sqrt_pd((__m256d)x.lanes)};
  } else
#endif
#if defined(__x86_64__)
      if constexpr (kBytes == 16 && kFloat) {
    return {(Lanes)_mm_sqrt_ps((__m128)x.lanes)};
  } else if constexpr (kBytes == 16) {
    return {(Lanes)_mm_sqrt_pd((__m128d)x.lanes)};
  } else
#endif
  {
    Simd<T, W> result;
    for (int i = 0; i < W; ++i) {
      result.lanes[i] = square_root(static_cast<T>(x.lanes[i]));
    }
    return result;
  }
}

// result[j] = index(j) < W ? a[index(j)] : b[index(j) - W], index known at compile time.
template <typename Index, typename T, int W, int... J>
KERNEL_HOST_DEVICE Simd<T, W> shuffle_lanes(Simd<T, W> a, Simd<T, W> b, std::integer_sequence<int, J...>) {
#if defined(__clang__)
  return {__builtin_shufflevector(a.lanes, b.lanes, Index::of(J, W)...)};
#else
  using Mask = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Mask Masks __attribute__((vector_size(W * sizeof(T))));
  return {__builtin_shuffle(a.lanes, b.lanes, Masks{Index::of(J, W)...})};
#endif
}
template <typename Index, typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> shuffle(Simd<T, W> a, Simd<T, W> b) {
  return shuffle_lanes<Index>(a, b, std::make_integer_sequence<int, W>());
}

struct EvenLanes {
  static constexpr int of(int j, int) {
    return 2 * j;
  }
};
struct OddLanes {
  static constexpr int of(int j, int) {
    return 2 * j + 1;
  }
};
struct InterleaveLow {
  static constexpr int of(int j, int w) {
    return j / 2 + (j % 2) * w;
  }
};
struct InterleaveHigh {
  static constexpr int of(int j, int w) {
    return w / 2 + j / 2 + (j % 2) * w;
  }
};
// The high half of every 64-bit integer, of two vectors one after the other.
template <int W>
KERNEL_HOST_DEVICE Simd<uint32_t, 2 * W> high_halves(Simd<uint64_t, W> a, Simd<uint64_t, W> b) {
  using Halves = typename Simd<uint32_t, 2 * W>::Lanes;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  using High = OddLanes;
#else
  using High = EvenLanes;
#endif
  return shuffle<High>(Simd<uint32_t, 2 * W>{(Halves)a.lanes}, Simd<uint32_t, 2 * W>{(Halves)b.lanes});
}

struct Reversed {
  static constexpr int of(int j, int w) {
    return w - 1 - j;
  }
};
template <int H>
struct BlockLow {
  static constexpr int of(int j, int w) {
    return (j & H) ? j - H + w : j;
  }
};
template <int H>
struct BlockHigh {
  static constexpr int of(int j, int w) {
    return (j & H) ? j + w : j + H;
  }
};

// Exchanges the H-lane blocks of two rows that lie off the diagonal.
template <int H, typename T, int W>
KERNEL_HOST_DEVICE void exchange_blocks(Simd<T, W>& upper, Simd<T, W>& lower) {
  const Simd<T, W> low = shuffle<BlockLow<H>>(upper, lower);
  lower = shuffle<BlockHigh<H>>(upper, lower);
  upper = low;
}

// One step of the transposition of N x N squares side by side; the steps H = N/2, ..., 2, 1, in any order, transpose
// them.
template <int H, typename T, int W, int N>
KERNEL_HOST_DEVICE void transpose_blocks(Simd<T, W> (&rows)[N]) {
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) {
    if ((i & H) == 0) {
      exchange_blocks<H>(rows[i], rows[i + H]);
    }
  }
}
// The steps H, H/2, ..., 1.
template <int H, typename T, int W, int N>
KERNEL_HOST_DEVICE void transpose_from(Simd<T, W> (&rows)[N]) {
  transpose_blocks<H>(rows);
  if constexpr (H > 1) {
    transpose_from<H / 2>(rows);
  }
}
template <typename T, int W, int N>
KERNEL_HOST_DEVICE void transpose(Simd<T, W> (&rows)[N]) {
  transpose_from<N / 2>(rows);
}

// Sum of numbers or vectors by halves, so in a fixed order.
template <typename T, int W>
KERNEL_HOST_DEVICE T sum_by_halves(T (&partial)[W]) {
  for (int width = W / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) {
      partial[j] = partial[j] + partial[j + width];
    }
  }
  return partial[0];
}
template <typename T, int W>
KERNEL_HOST_DEVICE T horizontal_sum(Simd<T, W> a) {
  T partial[W];
  a.store(partial);
  return sum_by_halves(partial);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
