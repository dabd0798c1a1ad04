// How learning control is launched; `launch_kernel` as in kernels/hrr/launch_transform.cuh.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/field/control.cuh"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

template <typename LaunchKernel>
void launch_control_with(Storage storage, const ControlParams& params, int64_t* workspace,
                         const LaunchKernel& launch_kernel, int64_t most_blocks = kMaxGridX) {
  if (params.rows == 0) {
    return;
  }
  const auto launch = [&](auto zero) {
    using T = decltype(zero);
    launch_kernel("_field_control_", control_kernel<T>, grid_for(params.rows, 1, most_blocks), dim3(kControlThreads),
                  kControlThreads / kWarpSize * sizeof(T), params, workspace, control_workspace(params));
  };
  if (storage == Storage::kDouble) {
    launch(0.0);
  } else {
    launch(0.0f);
  }
}

}  // namespace torch_hrr::kernels
