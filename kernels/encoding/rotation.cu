// Queues rotations at analytic and at held frequencies.
#include "kernels/encoding/launch_rotation.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const RotationParams& params, const TurnArrays& turns) {
  launch_rotation_with(call.storage, params, turns, DeviceLauncher{call.stream});
}
void queue(const CudaCall& call, const RotationParams& params, const HeldFrequencies& held) {
  launch_rotation_with(call.storage, params, held, DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
