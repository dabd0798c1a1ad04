// Fills a buffer from Philox counters: one block of four words per thread.
#pragma once

#include "kernels/cuda/element_run.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/philox.h"

namespace torch_hrr::kernels {

__global__ void philox_fill_kernel(PhiloxFillParams params) {
  const PhiloxKey key = philox_key(params.key);
  const bool aligned = is_run_aligned<uint32_t, 4>(params.out);
  for_each_of_grid((params.words + 3) / 4, [&](int64_t i) {
    const PhiloxBlock block = philox4x32(philox_counter(params.first + static_cast<uint64_t>(i), params.stream), key);
    const int64_t left = params.words - 4 * i;
    store_run(params.out + 4 * i, __builtin_bit_cast(ElementRun<uint32_t, 4>, block),
              left < 4 ? static_cast<int>(left) : 4, aligned);
  });
}

}  // namespace torch_hrr::kernels
