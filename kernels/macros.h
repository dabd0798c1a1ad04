// Macros of every kernel file: compiler-specific spellings and the namespace of an instruction set.
#pragma once

#if defined(__CUDACC__)
#define KERNEL_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define KERNEL_HOST_DEVICE inline __attribute__((always_inline))
#endif

#define KERNEL_RESTRICT __restrict__

// A file that is compiled once per instruction set gets KERNEL_ISA (avx512, avx2 or scalar) on its command line. All
// functions that it includes live in an inline namespace of that name, so the linker can never replace code of one
// instruction set by another's. Plain structs that callers share stay outside: they emit no code.
#if defined(KERNEL_ISA)
#define KERNEL_ISA_BEGIN inline namespace KERNEL_ISA {
#define KERNEL_ISA_END }
#else
#define KERNEL_ISA_BEGIN
#define KERNEL_ISA_END
#endif
