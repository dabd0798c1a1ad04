// Launches the gradient of layers that learn.
#include "kernels/hierarchy/cuda_launch.h"
#include "kernels/hierarchy/launch_plastic_backward.cuh"

namespace torch_hrr::kernels {

int64_t plastic_backward_workspace(Storage storage, const PlasticBackwardParams& params) {
  return storage == Storage::kDouble ? plastic_backward_workspace<double>(params)
                                     : plastic_backward_workspace<float>(params);
}

void launch_plastic_backward(Storage storage, const PlasticBackwardParams& params, CudaStream stream) {
  const DeviceLauncher launcher{stream};
  storage == Storage::kDouble ? launch_plastic_backward_with<double>(params, launcher)
                              : launch_plastic_backward_with<float>(params, launcher);
}

}  // namespace torch_hrr::kernels
