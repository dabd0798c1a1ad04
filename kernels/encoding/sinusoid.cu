// Launches sinusoids at analytic and at held frequencies.
#include "kernels/encoding/cuda_launch.h"
#include "kernels/encoding/launch_sinusoid.cuh"

namespace torch_hrr::kernels {

void launch_sinusoids(Storage storage, const SinusoidParams& params, const TurnArrays& turns, CudaStream stream) {
  launch_sinusoids_with(storage, params, turns, DeviceLauncher{stream});
}
void launch_sinusoids(Storage storage, const SinusoidParams& params, const HeldFrequencies& held, CudaStream stream) {
  launch_sinusoids_with(storage, params, held, DeviceLauncher{stream});
}
void launch_angle_gradient(const AngleGradientParams& params, const HeldFrequencies& held, CudaStream stream) {
  launch_angle_gradient_with(params, held, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
