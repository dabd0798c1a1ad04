// Launches rotations at analytic and at held frequencies.
#include "kernels/encoding/cuda_launch.h"
#include "kernels/encoding/launch_rotation.cuh"

namespace torch_hrr::kernels {

void launch_sinusoids(Storage storage, const RotationParams& params, const TurnArrays& turns, CudaStream stream) {
  launch_rotation_with(storage, params, turns, DeviceLauncher{stream});
}
void launch_sinusoids(Storage storage, const RotationParams& params, const HeldFrequencies& held, CudaStream stream) {
  launch_rotation_with(storage, params, held, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
