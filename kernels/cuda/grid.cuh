// Shares a range of work among the threads of a grid, in strides, so that a grid of any size does all of it.
#pragma once

#include "kernels/cuda/block.cuh"

namespace torch_hrr::kernels {

// body(i) for this thread's share of [0, count) in the x direction of the grid.
template <typename Body>
KERNEL_DEVICE void for_each_of_grid(int64_t count, const Body& body) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * block_threads();
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * block_threads() + thread_rank(); i < count; i += threads) {
    body(i);
  }
}

// The same with all threads of a warp in step, for bodies with warp operations: body(i, whether i < count).
template <typename Body>
KERNEL_DEVICE void for_each_of_grid_in_step(int64_t count, const Body& body) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * block_threads();
  int64_t first = static_cast<int64_t>(blockIdx.x) * block_threads() + warp_index() * kWarpSize;
  for (; first < count; first += threads) {
    body(first + lane_index(), first + lane_index() < count);
  }
}

// body(i), called by a whole warp, for this warp's share of [0, count).
template <typename Body>
KERNEL_DEVICE void for_each_of_warps(int64_t count, const Body& body) {
  const int64_t warps = static_cast<int64_t>(gridDim.x) * warp_count();
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * warp_count() + warp_index(); i < count; i += warps) {
    body(i);
  }
}

}  // namespace torch_hrr::kernels
