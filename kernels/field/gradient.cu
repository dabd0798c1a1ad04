// Launches gradients of fields.
#include "kernels/field/cuda_launch.h"
#include "kernels/field/launch_gradient.cuh"

namespace torch_hrr::kernels {

void launch_gradient(Storage storage, const GradientParams& params, CudaStream stream) {
  launch_gradient_with(storage, params, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
