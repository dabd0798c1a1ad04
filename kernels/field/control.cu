// Launches learning control by fields.
#include "kernels/field/cuda_launch.h"
#include "kernels/field/launch_control.cuh"

namespace torch_hrr::kernels {

void launch_control(Storage storage, const ControlParams& params, int64_t* workspace, CudaStream stream) {
  launch_control_with(storage, params, workspace, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
