// Kernels of the procedural connectome: edges from rows delivered to counts, sums of stimuli.
#pragma once

#include "kernels/assembly/connectome_draw.cuh"
#include "kernels/assembly/connectome_launch.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"

namespace torch_hrr::kernels {

template <typename Params>
KERNEL_DEVICE PhiloxKey key_of_batch(const Params& params, int64_t batch) {
  return philox_key(params.keys != nullptr ? params.keys[batch] : params.key);
}

// A warp a column block of a row; blocks (., y) do batches y, y + gridDim.y, ...
template <bool kTwoLevel>
__global__ void deliver_kernel(DeliverLaunch params) {
  const uint32_t* tables = nullptr;
  const int64_t blocks = block_count(params.gaps, params.n);
  for (int64_t batch = blockIdx.y; batch < params.batches; batch += gridDim.y) {
    const int64_t rows = params.row_counts != nullptr ? params.row_counts[batch] : params.row_count;
    if (static_cast<int64_t>(blockIdx.x) * warp_count() >= rows * blocks) {
      continue;
    }
    if (tables == nullptr) {
      tables = shared_gap_tables<kTwoLevel>(*params.gaps.tables);
      block_sync();
    }
    const PhiloxKey key = key_of_batch(params, batch);
    for_each_of_warps(rows * blocks, [&](int64_t item) {
      const int64_t entry = batch * params.row_count + item / blocks;
      const int64_t block = item % blocks;
      const int64_t row = params.rows[entry];
      if (row < 0 || row > INT32_MAX) {
        return;
      }
      const int32_t sign = params.signs != nullptr ? params.signs[entry] : params.sign;
      int32_t* counts = params.counts + batch * params.n + block * params.gaps.width;
      for_each_edge_of_warp<kTwoLevel>(tables, key, static_cast<uint32_t>(row), static_cast<uint32_t>(block),
                                       columns_of_block(params.gaps, params.n, block),
                                       [&](const LaneEdges<kTwoLevel>& lane) {
#pragma unroll
                                         for (int g = 0; g < kGapsOfDraw<kTwoLevel>; ++g) {
                                           if (lane.edges[g]) {
                                             atomicAdd(counts + lane.columns[g], sign);
                                           }
                                         }
                                       });
    });
  }
}

__global__ void stimulus_counts_kernel(StimulusLaunch params) {
  for_each_of_grid(params.batches * params.n, [&](int64_t item) {
    const int64_t batch = item / params.n;
    params.counts[item] = stimulus_count(params.table, key_of_batch(params, batch), item - batch * params.n);
  });
}

template <typename Launcher>
void launch_deliver_with(const DeliverLaunch& params, const Launcher& launcher) {
  if (params.gaps.empty || params.batches <= 0 || params.row_count <= 0 || params.n <= 0) {
    return;
  }
  const dim3 grid = table_grid(params.row_count * block_count(params.gaps, params.n), params.batches);
  const bool two_level = params.gaps.two_level;
  launcher("deliver_kernel", two_level ? deliver_kernel<true> : deliver_kernel<false>, grid, dim3(kConnectomeThreads),
           two_level ? kGapSharedBytes<true> : kGapSharedBytes<false>, params);
}

template <typename Launcher>
void launch_stimulus_counts_with(const StimulusLaunch& params, const Launcher& launcher) {
  if (params.batches > 0 && params.n > 0) {
    launcher("stimulus_counts_kernel", stimulus_counts_kernel, grid_for(params.batches * params.n, kConnectomeThreads),
             dim3(kConnectomeThreads), 0, params);
  }
}

}  // namespace torch_hrr::kernels
