// How moments are launched; `launch_kernel` as in kernels/hrr/launch_transform.cuh.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/stored.cuh"
#include "kernels/field/moments.cuh"

namespace torch_hrr::kernels {

template <typename LaunchKernel>
void launch_moments_with(Storage storage, const MomentsParams& params, const LaunchKernel& launch_kernel,
                         int64_t most_blocks = kMaxGridX) {
  const int64_t threads = params.rows() * params.channels;
  if (threads == 0) {
    return;
  }
  with_storage(storage, [&](auto zero) {
    launch_kernel("_field_moments", moments_kernel<decltype(zero)>, grid_for(threads, kMomentThreads, most_blocks),
                  dim3(kMomentThreads), 0, params);
  });
}

}  // namespace torch_hrr::kernels
