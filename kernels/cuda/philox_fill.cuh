// Fills a buffer from Philox counters, one thread a block of four words.
#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/philox.h"

namespace torch_hrr::kernels {

__global__ void philox_fill_kernel(PhiloxFillParams params) {
  const PhiloxKey key = philox_key(params.key);
  const int64_t threads = static_cast<int64_t>(gridDim.x) * block_threads();
  for (int64_t j = 4 * (static_cast<int64_t>(blockIdx.x) * block_threads() + thread_rank()); j < params.words;
       j += 4 * threads) {
    const PhiloxBlock block =
        philox4x32(philox_counter(params.first + static_cast<uint64_t>(j / 4), params.stream), key);
    for (int w = 0; w < 4; ++w) {
      if (j + w < params.words) {
        params.out[j + w] = block.word[w];
      }
    }
  }
}

}  // namespace torch_hrr::kernels
