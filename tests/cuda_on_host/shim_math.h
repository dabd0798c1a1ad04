// CUDA's scalar intrinsics and atomics for the host compiler. Only what rounds the same on both sides is here: the
// approximate ones (__expf, __sinf, __fdividef, ...) are missing so that using one is a compile error.
#pragma once

#include <cmath>
#include <cstdint>

#include "tests/cuda_on_host/shim_types.h"

inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline double __fma_rn(double a, double b, double c) {
  return std::fma(a, b, c);
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float a) {
  return std::sqrt(a);
}
inline float __frcp_rn(float a) {
  return 1.0f / a;
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dsub_rn(double a, double b) {
  return a - b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __ddiv_rn(double a, double b) {
  return a / b;
}
inline double __dsqrt_rn(double a) {
  return std::sqrt(a);
}
inline double __drcp_rn(double a) {
  return 1.0 / a;
}
// On the GPU these two are within 2 ulp (float) and 1 ulp (double): results that must be bitwise equal avoid them.
inline float rsqrtf(float a) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a)));
}
inline double rsqrt(double a) {
  return 1.0 / std::sqrt(a);
}

inline int __float_as_int(float a) {
  return __builtin_bit_cast(int, a);
}
inline unsigned __float_as_uint(float a) {
  return __builtin_bit_cast(unsigned, a);
}
inline float __int_as_float(int a) {
  return __builtin_bit_cast(float, a);
}
inline float __uint_as_float(unsigned a) {
  return __builtin_bit_cast(float, a);
}
inline long long __double_as_longlong(double a) {
  return __builtin_bit_cast(long long, a);
}
inline double __longlong_as_double(long long a) {
  return __builtin_bit_cast(double, a);
}

inline int __popc(unsigned a) {
  return __builtin_popcount(a);
}
inline int __popcll(unsigned long long a) {
  return __builtin_popcountll(a);
}
inline int __clz(int a) {
  return a == 0 ? 32 : __builtin_clz(static_cast<unsigned>(a));
}
inline int __clzll(long long a) {
  return a == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(a));
}
inline int __ffs(int a) {
  return __builtin_ffs(a);
}
inline int __ffsll(long long a) {
  return __builtin_ffsll(a);
}
// The sum of products of four signed bytes each.
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) {
    sum += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  }
  return sum;
}
inline unsigned __brev(unsigned a) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) {
    reversed |= ((a >> bit) & 1u) << (31 - bit);
  }
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
inline int __mulhi(int a, int b) {
  return static_cast<int>((static_cast<int64_t>(a) * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}

#define KERNEL_MIN_MAX(type)        \
  inline type min(type a, type b) { \
    return b < a ? b : a;           \
  }                                 \
  inline type max(type a, type b) { \
    return a < b ? b : a;           \
  }
KERNEL_MIN_MAX(int)
KERNEL_MIN_MAX(unsigned)
KERNEL_MIN_MAX(long)
KERNEL_MIN_MAX(unsigned long)
KERNEL_MIN_MAX(long long)
KERNEL_MIN_MAX(unsigned long long)
#undef KERNEL_MIN_MAX
// As fminf and fmaxf: a NaN loses against a number.
inline float min(float a, float b) {
  return std::fmin(a, b);
}
inline float max(float a, float b) {
  return std::fmax(a, b);
}
inline double min(double a, double b) {
  return std::fmin(a, b);
}
inline double max(double a, double b) {
  return std::fmax(a, b);
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}

// CUDA's atomics are relaxed and fences order them; here each one orders memory, because ThreadSanitizer does not model
// fences. A missing __threadfence is therefore not found.
template <typename T, typename Update>
T hrr_atomic_update(T* address, Update update) {
  T old;
  __atomic_load(address, &old, __ATOMIC_ACQUIRE);
  T next = update(old);
  while (!__atomic_compare_exchange(address, &old, &next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    next = update(old);
  }
  return old;
}

#define KERNEL_ATOMIC(name, type, expression)                                            \
  inline type name(type* address, type value) {                                          \
    return hrr_atomic_update(address, [value](type old) -> type { return expression; }); \
  }
KERNEL_ATOMIC(atomicAdd, int, static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value)))
KERNEL_ATOMIC(atomicAdd, unsigned, old + value)
KERNEL_ATOMIC(atomicAdd, unsigned long long, old + value)
KERNEL_ATOMIC(atomicAdd, float, old + value)
KERNEL_ATOMIC(atomicAdd, double, old + value)
KERNEL_ATOMIC(atomicSub, int, static_cast<int>(static_cast<unsigned>(old) - static_cast<unsigned>(value)))
KERNEL_ATOMIC(atomicSub, unsigned, old - value)
KERNEL_ATOMIC(atomicInc, unsigned, old >= value ? 0u : old + 1u)
KERNEL_ATOMIC(atomicExch, int, (static_cast<void>(old), value))
KERNEL_ATOMIC(atomicExch, unsigned, (static_cast<void>(old), value))
KERNEL_ATOMIC(atomicExch, unsigned long long, (static_cast<void>(old), value))
KERNEL_ATOMIC(atomicExch, float, (static_cast<void>(old), value))
#define KERNEL_INTEGER_ATOMICS(type)                                                                   \
  KERNEL_ATOMIC(atomicMin, type, value < old ? value : old)                                            \
  KERNEL_ATOMIC(atomicMax, type, old < value ? value : old)                                            \
  KERNEL_ATOMIC(atomicAnd, type, old& value)                                                           \
  KERNEL_ATOMIC(atomicOr, type, old | value)                                                           \
  KERNEL_ATOMIC(atomicXor, type, old ^ value)                                                          \
  inline type atomicCAS(type* address, type compare, type value) {                                     \
    return hrr_atomic_update(address, [=](type old) -> type { return old == compare ? value : old; }); \
  }
KERNEL_INTEGER_ATOMICS(int)
KERNEL_INTEGER_ATOMICS(unsigned)
KERNEL_INTEGER_ATOMICS(unsigned long long)
#undef KERNEL_INTEGER_ATOMICS
#undef KERNEL_ATOMIC

inline long long atomicMin(long long* address, long long value) {
  return hrr_atomic_update(address, [value](long long old) { return value < old ? value : old; });
}
inline long long atomicMax(long long* address, long long value) {
  return hrr_atomic_update(address, [value](long long old) { return old < value ? value : old; });
}

inline void __threadfence() {}
inline void __threadfence_block() {}

[[noreturn]] inline void __trap() {
  __builtin_trap();
}
