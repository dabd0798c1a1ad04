// Queues superpose.
#include "kernels/hrr/launch_superposition.cuh"

namespace torch_hrr::kernels {

int64_t workspace_bytes(Storage storage, const SuperpositionParams& params) {
  const SuperpositionPlan plan = superposition_plan(params.items, params.dim, storage_bytes(storage));
  const int64_t compute_bytes = storage == Storage::kDouble ? sizeof(double) : sizeof(float);
  return superposition_workspace_elements(plan, params.rows, params.dim) * compute_bytes;
}

void queue(const CudaCall& call, const SuperpositionParams& params) {
  launch_superposition(call.storage, params, call.workspace, DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
