// Queues learning control by fields.
#include "kernels/field/launch_control.cuh"

namespace torch_hrr::kernels {

int64_t workspace_bytes(Storage, const ControlParams& params) {
  return params.rows * control_workspace(params) * static_cast<int64_t>(sizeof(int64_t));
}

void queue(const CudaCall& call, const ControlParams& params) {
  launch_control_with(call.storage, params, static_cast<int64_t*>(call.workspace), DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
