// Compiler-independent spellings used by every kernel file.
#pragma once

#if defined(__CUDACC__)
#define KERNEL_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define KERNEL_HOST_DEVICE inline __attribute__((always_inline))
#endif

#define KERNEL_RESTRICT __restrict__

// A file that is compiled once per instruction set defines KERNEL_ISA (avx512, avx2, scalar) on its command line. Every
// function it includes lives in an inline namespace of that name, so that the linker can never merge the AVX-512 code
// of one object file into another. Plain structs that cross the boundary stay outside: they emit no code.
#if defined(KERNEL_ISA)
#define KERNEL_ISA_BEGIN inline namespace KERNEL_ISA {
#define KERNEL_ISA_END }
#else
#define KERNEL_ISA_BEGIN
#define KERNEL_ISA_END
#endif
