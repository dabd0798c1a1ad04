// Queues sinusoids at analytic and at held frequencies.
#include "kernels/encoding/launch_sinusoid.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const SinusoidParams& params, const TurnArrays& turns) {
  launch_sinusoids_with(call.storage, params, turns, DeviceLauncher{call.stream});
}
void queue(const CudaCall& call, const SinusoidParams& params, const HeldFrequencies& held) {
  launch_sinusoids_with(call.storage, params, held, DeviceLauncher{call.stream});
}
void queue(const CudaCall& call, const AngleGradientParams& params, const HeldFrequencies& held) {
  launch_angle_gradient_with(params, held, DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
