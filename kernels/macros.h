// Compiler-independent spellings used by every kernel file.
#pragma once

#if defined(__CUDACC__)
#define HRR_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define HRR_HOST_DEVICE inline __attribute__((always_inline))
#endif

#define HRR_RESTRICT __restrict__

// A file that is compiled once per instruction set defines HRR_ISA (avx512, avx2, scalar) on its command line. Every
// function it includes lives in an inline namespace of that name, so that the linker can never merge the AVX-512 code
// of one object file into another. Plain structs that cross the boundary stay outside: they emit no code.
#if defined(HRR_ISA)
#define HRR_ISA_BEGIN inline namespace HRR_ISA {
#define HRR_ISA_END }
#else
#define HRR_ISA_BEGIN
#define HRR_ISA_END
#endif
