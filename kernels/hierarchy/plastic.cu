// Launches layers that learn.
#include "kernels/hierarchy/cuda_launch.h"
#include "kernels/hierarchy/launch_plastic.cuh"

namespace torch_hrr::kernels {

void launch_plastic(Storage storage, const PlasticParams& params, CudaStream stream) {
  const DeviceLauncher launcher{stream};
  storage == Storage::kDouble ? launch_plastic_with<double>(params, launcher)
                              : launch_plastic_with<float>(params, launcher);
}

void launch_competing(Storage storage, const CompetingParams& params, CudaStream stream) {
  const DeviceLauncher launcher{stream};
  storage == Storage::kDouble ? launch_competing_with<double>(params, launcher)
                              : launch_competing_with<float>(params, launcher);
}

}  // namespace torch_hrr::kernels
