// Kernels of the procedural connectome: edges from rows delivered to counts, sums of stimuli.
#pragma once

#include "kernels/assembly/connectome_draw.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"

namespace torch_hrr::kernels {

template <bool kTwoLevel>
__global__ void deliver_kernel(DeliverLaunch params) {
  deliver_edges<kTwoLevel>(params);
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
