// Which kernel the tangents of layers that learn take; `launch_kernel` as in kernels/hrr/launch_transform.cuh.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/hierarchy/plastic_tangent.cuh"

namespace torch_hrr::kernels {

template <typename T, typename LaunchKernel>
void launch_plastic_tangent_with(const PlasticTangentParams& params, const LaunchKernel& launch_kernel) {
  const PlasticParams& p = params.scan;
  const auto start = [&](auto kernel) {
    launch_kernel("_plastic_scan_tangent", kernel, grid_for(p.learners * p.units, kPlasticWarps),
                  dim3(kPlasticWarps * kWarpSize), 0, params);
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
