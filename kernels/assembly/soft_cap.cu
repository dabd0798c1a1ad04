// Queues soft winners of all storage types.
#include "kernels/assembly/soft_cap.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const SoftCapParams& params) {
  launch_soft_cap_with(params, device_limits("k_cap").shared_bytes, DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
