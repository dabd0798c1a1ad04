// Queues moments of fields.
#include "kernels/field/launch_moments.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const MomentsParams& params) {
  launch_moments_with(call.storage, params, DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
