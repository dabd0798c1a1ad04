// Rows of storage types to and from the compute type, sixteen elements at a time.
#pragma once

#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

constexpr int kConvertBlock = 16;

typedef uint16_t Bits16 __attribute__((vector_size(32)));
typedef uint32_t Bits32 __attribute__((vector_size(64)));

KERNEL_HOST_DEVICE Bits32 select(Bits32 mask, Bits32 yes, Bits32 no) {
  return (mask & yes) | (~mask & no);
}

// Of magnitudes, below 2^31, by the sign of a difference: without AVX-512 the compiler compares elements one by one.
KERNEL_HOST_DEVICE Bits32 above(Bits32 magnitude, uint32_t bound) {
  typedef int32_t Signed __attribute__((vector_size(64)));
  return (Bits32)((Signed)(bound - magnitude) >> 31);
}

KERNEL_HOST_DEVICE Simd<float, 16> as_float(Bits32 bits) {
  return {(Simd<float, 16>::Lanes)bits};
}

KERNEL_HOST_DEVICE Simd<float, 16> widen(BFloat16, Bits16 bits) {
  return as_float(__builtin_convertvector(bits, Bits32) << 16);
}

// Round to nearest even; every NaN becomes the quiet one.
KERNEL_HOST_DEVICE Bits16 narrow(BFloat16, Simd<float, 16> value) {
  const Bits32 bits = (Bits32)value.lanes;
  const Bits32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Bits32 nan = above(bits & 0x7fffffffu, 0x7f800000);
  return __builtin_convertvector(select(nan, Bits32{} + 0x7fc0u, rounded), Bits16);
}

#if defined(__AVX512F__)
KERNEL_HOST_DEVICE Simd<float, 16> widen(Half, Bits16 bits) {
  return {(Simd<float, 16>::Lanes)_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits)};
}
KERNEL_HOST_DEVICE Bits16 narrow(Half, Simd<float, 16> value) {
  return (Bits16)_mm512_maskz_cvtps_ph(0xffff, (__m512)value.lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__F16C__)
KERNEL_HOST_DEVICE Simd<float, 16> widen(Half, Bits16 bits) {
  __m128i halves[2];
  __builtin_memcpy(halves, &bits, sizeof(bits));
  const __m256 wide[2] = {_mm256_cvtph_ps(halves[0]), _mm256_cvtph_ps(halves[1])};
  Simd<float, 16> result;
  __builtin_memcpy(&result.lanes, wide, sizeof(wide));
  return result;
}
KERNEL_HOST_DEVICE Bits16 narrow(Half, Simd<float, 16> value) {
  __m256 wide[2];
  __builtin_memcpy(wide, &value.lanes, sizeof(wide));
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m128i halves[2] = {_mm256_cvtps_ph(wide[0], kNearest), _mm256_cvtps_ph(wide[1], kNearest)};
  Bits16 result;
  __builtin_memcpy(&result, halves, sizeof(result));
  return result;
}
#else
// The exponent is moved by a multiplication, which also normalises subnormals.
KERNEL_HOST_DEVICE Simd<float, 16> widen(Half, Bits16 bits) {
  const Bits32 wide = __builtin_convertvector(bits, Bits32);
  const Bits32 magnitude = (wide & 0x7fffu) << 13;
  const Simd<float, 16> scaled = as_float(magnitude) * Simd<float, 16>::broadcast(0x1p112f);
  const Bits32 special = (Bits32)((wide & 0x7c00u) == 0x7c00u);
  const Bits32 finite = (Bits32)scaled.lanes;
  return as_float(select(special, magnitude | 0x7f800000u, finite) | ((wide & 0x8000u) << 16));
}
// Adding a power of two makes the float unit round a subnormal half at its last bit; normal ones round as integers.
KERNEL_HOST_DEVICE Bits16 narrow(Half, Simd<float, 16> value) {
  const Bits32 bits = (Bits32)value.lanes;
  const Bits32 magnitude = bits & 0x7fffffffu;
  const Bits32 small = (Bits32)((as_float(magnitude) + Simd<float, 16>::broadcast(0.5f)).lanes) - 0x3f000000u;
  const Bits32 normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  Bits32 result = select(above(magnitude, 0x387fffff), normal, small);
  result = select(above(magnitude, 0x477fefff), Bits32{} + 0x7c00u, result);
  result = select(above(magnitude, 0x7f800000), Bits32{} + 0x7e00u, result);
  return __builtin_convertvector(result | ((bits >> 16) & 0x8000u), Bits16);
}
#endif

// target[i] = source[i] in the compute type
template <typename S>
KERNEL_HOST_DEVICE void widen_row(const S* source, int64_t count, compute_t<S>* target) {
  if constexpr (sizeof(S) == sizeof(compute_t<S>)) {
    __builtin_memcpy(target, source, static_cast<size_t>(count) * sizeof(S));
  } else {
    Bits16 block;
    int64_t i = 0;
    for (; i + kConvertBlock <= count; i += kConvertBlock) {
      __builtin_memcpy(&block, source + i, sizeof(block));
      widen(S{}, block).store(target + i);
    }
    if (i < count) {
      float tail[kConvertBlock];
      block = Bits16{};
      __builtin_memcpy(&block, source + i, static_cast<size_t>(count - i) * sizeof(S));
      widen(S{}, block).store(tail);
      __builtin_memcpy(target + i, tail, static_cast<size_t>(count - i) * sizeof(float));
    }
  }
}

// target[i] = source[i] * scale, rounded to the storage type
template <typename S>
KERNEL_HOST_DEVICE void narrow_row(const compute_t<S>* source, int64_t count, compute_t<S> scale, S* target) {
  if constexpr (sizeof(S) == sizeof(compute_t<S>)) {
    for (int64_t i = 0; i < count; ++i) {
      target[i] = source[i] * scale;
    }
  } else {
    const Simd<float, 16> factor = Simd<float, 16>::broadcast(scale);
    int64_t i = 0;
    for (; i + kConvertBlock <= count; i += kConvertBlock) {
      const Bits16 block = narrow(S{}, Simd<float, 16>::load(source + i) * factor);
      __builtin_memcpy(static_cast<void*>(target + i), &block, sizeof(block));
    }
    if (i < count) {
      float tail[kConvertBlock] = {};
      __builtin_memcpy(tail, source + i, static_cast<size_t>(count - i) * sizeof(float));
      const Bits16 block = narrow(S{}, Simd<float, 16>::load(tail) * factor);
      __builtin_memcpy(static_cast<void*>(target + i), &block, static_cast<size_t>(count - i) * sizeof(S));
    }
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
