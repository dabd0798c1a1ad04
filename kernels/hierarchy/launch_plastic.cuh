// Which kernels layers that learn take; `launch_kernel` as in kernels/hrr/launch_transform.cuh.
#pragma once

#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/hierarchy/plastic.cuh"
#include "kernels/hierarchy/plastic_competing.cuh"

namespace torch_hrr::kernels {

// For the inputs and outputs of a tile.
constexpr int64_t kPlasticSharedBytes = 32 * 1024;

template <typename T, typename LaunchKernel>
void launch_plastic_rows(const PlasticParams& params, const LaunchKernel& launch_kernel, int64_t most_shared) {
  const int64_t tick_bytes = params.batch * (params.size + kPlasticWarps) * static_cast<int64_t>(sizeof(T));
  const int64_t tile = std::min(params.ticks, most_shared / tick_bytes);
  const int64_t groups = (params.units + kPlasticWarps - 1) / kPlasticWarps;
  const auto start = [&](auto kernel) {
    launch_kernel("plastic_scan", kernel, grid_for(params.learners * groups), dim3(kPlasticWarps * kWarpSize),
                  static_cast<std::size_t>(tile * tick_bytes), params, tile);
  };
  // Rows in registers: up to 32 of 4 bytes.
  const int64_t chunks = (params.size + kWarpSize - 1) / kWarpSize;
  if (chunks <= 4) {
    start(plastic_rows_kernel<T, 4>);
  } else if (chunks <= 8) {
    start(plastic_rows_kernel<T, 8>);
  } else if (chunks <= 16) {
    start(plastic_rows_kernel<T, 16>);
  } else if (sizeof(T) == 4 && chunks <= 32) {
    start(plastic_rows_kernel < T, sizeof(T) == 4 ? 32 : 0 >);
  } else {
    start(plastic_rows_kernel<T, 0>);
  }
}

template <typename T, typename LaunchKernel>
void launch_plastic_with(const PlasticParams& params, const LaunchKernel& launch_kernel,
                         int64_t most_shared = kPlasticSharedBytes) {
  if (!params.coupled()) {
    return launch_plastic_rows<T>(params, launch_kernel, most_shared);
  }
  const auto start = [&](auto kernel) {
    launch_kernel("plastic_scan", kernel, grid_for(params.learners), dim3(kCoupledThreads), 0, params);
  };
  params.batch == 1 ? start(plastic_coupled_kernel<T, true>) : start(plastic_coupled_kernel<T, false>);
}

template <typename T, typename LaunchKernel>
void launch_competing_with(const CompetingParams& params, const LaunchKernel& launch_kernel) {
  launch_kernel("plastic_scan", plastic_competing_kernel<T>, grid_for(params.scan.learners), dim3(kCoupledThreads),
                kCompetingSharedBytes, params);
}

}  // namespace torch_hrr::kernels
