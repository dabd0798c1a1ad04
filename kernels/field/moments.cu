// Launches moments of fields.
#include "kernels/field/cuda_launch.h"
#include "kernels/field/launch_moments.cuh"

namespace torch_hrr::kernels {

void launch_moments(Storage storage, const MomentsParams& params, CudaStream stream) {
  launch_moments_with(storage, params, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
