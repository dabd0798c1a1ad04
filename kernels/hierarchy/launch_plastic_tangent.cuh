// Which kernel the tangents of layers that learn take; `launch_kernel` as in kernels/hrr/launch_transform.cuh.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/hierarchy/plastic_coupled_tangent.cuh"
#include "kernels/hierarchy/plastic_tangent.cuh"

namespace torch_hrr::kernels {

// Elements of the workspace of a GPU.
template <typename T>
int64_t plastic_tangent_workspace(const PlasticTangentParams& params) {
  const PlasticParams& p = params.scan;
  return p.learners * (p.coupled() ? CoupledTangentSpace<T>::elements(p) : p.units * plastic_tangent_space(p));
}

template <typename T, typename LaunchKernel>
void launch_plastic_tangent_with(const PlasticTangentParams& params, const LaunchKernel& launch_kernel) {
  const PlasticParams& p = params.scan;
  const auto launch_blocks = [&](auto kernel, dim3 grid, int threads) {
    launch_kernel("_plastic_scan_tangent", kernel, grid, dim3(static_cast<unsigned>(threads)), 0, params);
  };
  if (p.coupled()) {
    const dim3 grid = grid_for(p.learners);
    p.batch == 1 ? launch_blocks(plastic_coupled_tangent_kernel<T, true>, grid, kCoupledThreads)
                 : launch_blocks(plastic_coupled_tangent_kernel<T, false>, grid, kCoupledThreads);
    return;
  }
  const auto start = [&](auto kernel) {
    launch_blocks(kernel, grid_for(p.learners * p.units, kPlasticWarps), kPlasticWarps * kWarpSize);
  };
  // Two rows in registers.
  constexpr int kMost = sizeof(T) == 4 ? 16 : 8;
  const int64_t chunks = (p.size + kWarpSize - 1) / kWarpSize;
  if (chunks <= 4) {
    start(plastic_tangent_kernel<T, 4>);
  } else if (chunks <= kMost) {
    start(plastic_tangent_kernel<T, kMost>);
  } else {
    start(plastic_tangent_kernel<T, 0>);
  }
}

}  // namespace torch_hrr::kernels
