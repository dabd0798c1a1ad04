// Queues gradients of fields.
#include "kernels/field/launch_gradient.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const GradientParams& params) {
  launch_gradient_with(call.storage, params, DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
