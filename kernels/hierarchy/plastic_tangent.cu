// Launches the tangents of layers that learn.
#include "kernels/hierarchy/cuda_launch.h"
#include "kernels/hierarchy/launch_plastic_tangent.cuh"

namespace torch_hrr::kernels {

int64_t plastic_tangent_workspace(Storage storage, const PlasticTangentParams& params) {
  return storage == Storage::kDouble ? plastic_tangent_workspace<double>(params)
                                     : plastic_tangent_workspace<float>(params);
}

void launch_plastic_tangent(Storage storage, const PlasticTangentParams& params, CudaStream stream) {
  const DeviceLauncher launcher{stream};
  storage == Storage::kDouble ? launch_plastic_tangent_with<double>(params, launcher)
                              : launch_plastic_tangent_with<float>(params, launcher);
}

}  // namespace torch_hrr::kernels
