// Which kernels the gradient of layers that learn takes; `launch_kernel` as in kernels/hrr/launch_transform.cuh.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/hierarchy/plastic_backward.cuh"
#include "kernels/hierarchy/plastic_coupled_backward.cuh"

namespace torch_hrr::kernels {

constexpr int kSpreadThreads = 256;

// Elements of the workspace of a GPU.
template <typename T>
int64_t plastic_backward_workspace(const PlasticBackwardParams& params) {
  const PlasticParams& p = params.scan;
  if (p.coupled()) {
    return p.learners * CoupledSpace<T>(p, plastic_part(p.ticks), nullptr).elements;
  }
  const BackwardSpace<T> space(p, plastic_part(p.ticks), 1, params.grad_inputs != nullptr, nullptr);
  return p.learners * p.units * space.elements;
}

template <typename T, int kChunks, typename LaunchKernel>
void launch_plastic_backward_rows(const PlasticBackwardParams& params, const LaunchKernel& launch_kernel) {
  const char* const name = "_plastic_scan_backward";
  const PlasticParams& p = params.scan;
  const int64_t length = plastic_part(p.ticks);
  const int64_t parts = (p.ticks + length - 1) / length;
  const dim3 grid = grid_for(p.learners * p.units, kPlasticWarps);
  const dim3 block(kPlasticWarps * kWarpSize);
  launch_kernel(name, plastic_parts_kernel<T, kChunks>, grid, block, 0, params, length);
  if (params.grad_inputs == nullptr) {
    launch_kernel(name, plastic_pull_kernel<T, kChunks>, grid, block, 0, params, length, int64_t{0}, parts);
    return;
  }
  // The workspace holds one part: its inputs' gradient is summed before the next part is walked.
  for (int64_t part = parts; part-- > 0;) {
    launch_kernel(name, plastic_pull_kernel<T, kChunks>, grid, block, 0, params, length, part, part + 1);
    launch_kernel(name, plastic_spread_kernel<T>, grid_for(p.learners * length * p.batch * p.size, kSpreadThreads),
                  dim3(kSpreadThreads), 0, params, length, part);
  }
}

template <typename T, typename LaunchKernel>
void launch_plastic_backward_with(const PlasticBackwardParams& params, const LaunchKernel& launch_kernel) {
  if (params.scan.coupled()) {
    const CoupledSpace<T> space(params.scan, plastic_part(params.scan.ticks), static_cast<T*>(params.workspace));
    const auto start = [&](auto kernel) {
      launch_kernel("_plastic_scan_backward", kernel, grid_for(params.scan.learners), dim3(kCoupledThreads), 0, params,
                    space);
    };
    params.scan.batch == 1 ? start(plastic_coupled_pull_kernel<T, true>) : start(plastic_coupled_pull_kernel<T, false>);
    return;
  }
  const int64_t chunks = (params.scan.size + kWarpSize - 1) / kWarpSize;
  if (chunks <= 4) {
    launch_plastic_backward_rows<T, 4>(params, launch_kernel);
  } else if (chunks <= 16) {
    launch_plastic_backward_rows<T, 16>(params, launch_kernel);
  } else {
    launch_plastic_backward_rows<T, 0>(params, launch_kernel);
  }
}

}  // namespace torch_hrr::kernels
