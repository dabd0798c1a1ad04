// CUDA's built-in vector types for the host compiler, with CUDA's sizes and alignments.
#pragma once

#include <cstdint>

#define KERNEL_VECTOR_TYPE_2(type, scalar)      \
  struct alignas(2 * sizeof(scalar)) type {     \
    scalar x, y;                                \
  };                                            \
  inline type make_##type(scalar x, scalar y) { \
    return {x, y};                              \
  }
#define KERNEL_VECTOR_TYPE_3(type, scalar)                \
  struct type {                                           \
    scalar x, y, z;                                       \
  };                                                      \
  inline type make_##type(scalar x, scalar y, scalar z) { \
    return {x, y, z};                                     \
  }
#define KERNEL_VECTOR_TYPE_4(type, scalar, alignment)               \
  struct alignas(alignment) type {                                  \
    scalar x, y, z, w;                                              \
  };                                                                \
  inline type make_##type(scalar x, scalar y, scalar z, scalar w) { \
    return {x, y, z, w};                                            \
  }

KERNEL_VECTOR_TYPE_2(char2, signed char)
KERNEL_VECTOR_TYPE_2(uchar2, unsigned char)
KERNEL_VECTOR_TYPE_2(short2, short)
KERNEL_VECTOR_TYPE_2(ushort2, unsigned short)
KERNEL_VECTOR_TYPE_2(int2, int)
KERNEL_VECTOR_TYPE_2(uint2, unsigned)
KERNEL_VECTOR_TYPE_2(longlong2, long long)
KERNEL_VECTOR_TYPE_2(ulonglong2, unsigned long long)
KERNEL_VECTOR_TYPE_2(float2, float)
KERNEL_VECTOR_TYPE_2(double2, double)
KERNEL_VECTOR_TYPE_3(int3, int)
KERNEL_VECTOR_TYPE_3(uint3, unsigned)
KERNEL_VECTOR_TYPE_3(float3, float)
KERNEL_VECTOR_TYPE_3(double3, double)
KERNEL_VECTOR_TYPE_4(char4, signed char, 4)
KERNEL_VECTOR_TYPE_4(uchar4, unsigned char, 4)
KERNEL_VECTOR_TYPE_4(short4, short, 8)
KERNEL_VECTOR_TYPE_4(ushort4, unsigned short, 8)
KERNEL_VECTOR_TYPE_4(int4, int, 16)
KERNEL_VECTOR_TYPE_4(uint4, unsigned, 16)
KERNEL_VECTOR_TYPE_4(float4, float, 16)

#undef KERNEL_VECTOR_TYPE_2
#undef KERNEL_VECTOR_TYPE_3
#undef KERNEL_VECTOR_TYPE_4

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1) : x(x_size), y(y_size), z(z_size) {}
};
