// Soft winners of all storage types.
#include "kernels/assembly/soft_cap.cuh"

#include "kernels/assembly/cuda_launch.h"

namespace torch_hrr::kernels {

void launch_soft_cap(const SoftCapParams& params, CudaStream stream) {
  launch_soft_cap_with(params, device_limits("k_cap").shared_bytes, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
