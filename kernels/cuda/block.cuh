// Block and warp primitives for kernels: all the CUDA that a .cuh file needs besides threadIdx and the like.
//
//   T* dynamic_shared<T>()      the block's shared memory, 16-byte aligned, as many bytes as the launch asked for
//   int thread_rank(), block_threads(), lane_index(), warp_index(), warp_count()     in a 1-, 2- or 3-D block
//   void block_sync(), warp_sync(mask)      barriers: every thread, or every lane of the mask, must reach them
//   T shuffle(v, lane), shuffle_down(v, d), shuffle_up(v, d), shuffle_xor(v, m)      T of 4 or 8 bytes
//   uint32_t warp_ballot(p); bool warp_any(p), warp_all(p)
//   bool block_any(p), block_all(p); int block_count(p)      also barriers
//   T warp_sum(v), block_sum(v, shared)      deterministic sums; every thread gets the same bits
//   T block_max(v, shared), block_or(v, shared)      of integers: the maximum, the bitwise or; every thread gets it
//   T warp_inclusive_sum(v)      the sum over this lane and those below
//   T block_exclusive_sum(v, shared, total)      of integers: the sum over the threads below
//
// These conventions let one source run under nvcc and under tests/cuda_on_host/shim.h. All shared memory is dynamic
// (no `__shared__` arrays): a kernel carves the typed arrays it needs out of dynamic_shared, and its launcher computes
// their size with the same function. Blocks that use sums or the default mask have a multiple of 32 threads. A kernel
// is `template <...> __global__ void` or, in a header that only one .cu file includes, `__global__ void`; helper
// functions are KERNEL_DEVICE (KERNEL_HOST_DEVICE where the CPU uses them too). No thread returns before a barrier that
// others reach. Shuffles and votes do not order memory; warp_sync does. Blocks never wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/macros.h"

#if !defined(__CUDACC__) && !defined(KERNEL_CUDA_ON_HOST)
#error "kernels/cuda/block.cuh is compiled by nvcc, or by a host compiler after tests/cuda_on_host/shim.h"
#endif

#define KERNEL_DEVICE __device__ __forceinline__

namespace torch_hrr::kernels {

constexpr int kWarpSize = 32;
constexpr uint32_t kFullWarp = 0xffffffffu;

#if defined(KERNEL_CUDA_ON_HOST)
using CallSite = cuda_on_host::CallSite;
#define KERNEL_CALL_SITE(...) __VA_ARGS__
#else
// The caller of a barrier. The shim compares callers to find divergent barriers; on the GPU this is empty.
struct CallSite {
  static KERNEL_DEVICE constexpr CallSite here() {
    return {};
  }
};
#define KERNEL_CALL_SITE(...)
#endif

template <typename T>
KERNEL_DEVICE T* dynamic_shared() {
  static_assert(alignof(T) <= 16, "dynamic_shared: shared memory is aligned to 16 bytes");
#if defined(KERNEL_CUDA_ON_HOST)
  return static_cast<T*>(cuda_on_host::dynamic_shared_memory());
#else
  extern __shared__ __align__(16) unsigned char hrr_dynamic_shared[];
  return reinterpret_cast<T*>(hrr_dynamic_shared);
#endif
}

KERNEL_DEVICE int thread_rank() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

KERNEL_DEVICE int block_threads() {
  return static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
}

KERNEL_DEVICE int lane_index() {
  return thread_rank() % kWarpSize;
}

KERNEL_DEVICE int warp_index() {
  return thread_rank() / kWarpSize;
}

KERNEL_DEVICE int warp_count() {
  return (block_threads() + kWarpSize - 1) / kWarpSize;
}

KERNEL_DEVICE void block_sync([[maybe_unused]] CallSite site = CallSite::here()) {
  __syncthreads(KERNEL_CALL_SITE(site));
}

KERNEL_DEVICE void warp_sync(uint32_t mask = kFullWarp) {
  __syncwarp(mask);
}

template <typename T>
KERNEL_DEVICE T shuffle(T value, int source_lane, uint32_t mask = kFullWarp) {
  return __shfl_sync(mask, value, source_lane);
}

// Lanes without a source keep their own value.
template <typename T>
KERNEL_DEVICE T shuffle_down(T value, unsigned delta, uint32_t mask = kFullWarp) {
  return __shfl_down_sync(mask, value, delta);
}

template <typename T>
KERNEL_DEVICE T shuffle_up(T value, unsigned delta, uint32_t mask = kFullWarp) {
  return __shfl_up_sync(mask, value, delta);
}

template <typename T>
KERNEL_DEVICE T shuffle_xor(T value, int lane_mask, uint32_t mask = kFullWarp) {
  return __shfl_xor_sync(mask, value, lane_mask);
}

KERNEL_DEVICE uint32_t warp_ballot(bool predicate, uint32_t mask = kFullWarp) {
  return __ballot_sync(mask, predicate);
}

KERNEL_DEVICE bool warp_any(bool predicate, uint32_t mask = kFullWarp) {
  return __any_sync(mask, predicate) != 0;
}

KERNEL_DEVICE bool warp_all(bool predicate, uint32_t mask = kFullWarp) {
  return __all_sync(mask, predicate) != 0;
}

KERNEL_DEVICE bool block_any(bool predicate, [[maybe_unused]] CallSite site = CallSite::here()) {
  return __syncthreads_or(predicate KERNEL_CALL_SITE(, site)) != 0;
}

KERNEL_DEVICE bool block_all(bool predicate, [[maybe_unused]] CallSite site = CallSite::here()) {
  return __syncthreads_and(predicate KERNEL_CALL_SITE(, site)) != 0;
}

KERNEL_DEVICE int block_count(bool predicate, [[maybe_unused]] CallSite site = CallSite::here()) {
  return __syncthreads_count(predicate KERNEL_CALL_SITE(, site));
}

// Sum over the 32 lanes as a butterfly: x + y = y + x at every level, so all lanes end with the same bits.
template <typename T>
KERNEL_DEVICE T warp_sum(T value) {
  for (int lane_mask = kWarpSize / 2; lane_mask > 0; lane_mask /= 2) {
    value = value + shuffle_xor(value, lane_mask);
  }
  return value;
}

// All lanes' values under `combine`, an operation on integers whose order does not matter.
template <typename T, typename Combine>
KERNEL_DEVICE T warp_reduce(T value, const Combine& combine) {
  for (int lane_mask = kWarpSize / 2; lane_mask > 0; lane_mask /= 2) {
    value = combine(value, shuffle_xor(value, lane_mask));
  }
  return value;
}

// The sum over this lane and the lanes below.
template <typename T>
KERNEL_DEVICE T warp_inclusive_sum(T value) {
  for (int delta = 1; delta < kWarpSize; delta *= 2) {
    const T below = shuffle_up(value, static_cast<unsigned>(delta));
    value += lane_index() >= delta ? below : T{0};
  }
  return value;
}

// Sum over the block: warp_sum in each warp, then the warps in ascending order. `shared` holds warp_count() elements
// (at most 32) that no thread is using; it is free again on return. The order depends on the block size alone.
template <typename T>
KERNEL_DEVICE T block_sum(T value, T* shared, CallSite site = CallSite::here()) {
  value = warp_sum(value);
  if (lane_index() == 0) {
    shared[warp_index()] = value;
  }
  block_sync(site);
  const int warps = warp_count();
  T total = shared[0];
  for (int warp = 1; warp < warps; ++warp) {
    total = total + shared[warp];
  }
  block_sync(site);
  return total;
}

// warp_reduce over the block; `shared` as for block_sum.
template <typename T, typename Combine>
KERNEL_DEVICE T block_reduce(T value, T* shared, const Combine& combine, CallSite site = CallSite::here()) {
  value = warp_reduce(value, combine);
  if (lane_index() == 0) {
    shared[warp_index()] = value;
  }
  block_sync(site);
  const int warps = warp_count();
  T total = shared[0];
  for (int warp = 1; warp < warps; ++warp) {
    total = combine(total, shared[warp]);
  }
  block_sync(site);
  return total;
}

template <typename T>
KERNEL_DEVICE T block_max(T value, T* shared, CallSite site = CallSite::here()) {
  return block_reduce(
      value, shared, [](T a, T b) { return a < b ? b : a; }, site);
}

template <typename T>
KERNEL_DEVICE T block_or(T value, T* shared, CallSite site = CallSite::here()) {
  return block_reduce(
      value, shared, [](T a, T b) { return a | b; }, site);
}

// The sum over the threads of lower rank, of integers; total = the sum over the block. `shared` as for block_sum.
template <typename T>
KERNEL_DEVICE T block_exclusive_sum(T value, T* shared, T& total, CallSite site = CallSite::here()) {
  const T through = warp_inclusive_sum(value);
  if (lane_index() == kWarpSize - 1) {
    shared[warp_index()] = through;
  }
  block_sync(site);
  const int warps = warp_count();
  const int own_warp = warp_index();
  T before = 0;
  total = 0;
  for (int warp = 0; warp < warps; ++warp) {
    const T sum = shared[warp];
    before += warp < own_warp ? sum : T{0};
    total += sum;
  }
  block_sync(site);
  return before + through - value;
}

#undef KERNEL_CALL_SITE

}  // namespace torch_hrr::kernels
