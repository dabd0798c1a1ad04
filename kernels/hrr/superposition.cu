// Launches superpose.
#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/launch_superposition.cuh"

namespace torch_hrr::kernels {

int64_t superposition_workspace_bytes(Storage storage, const SuperpositionParams& params) {
  const SuperpositionPlan plan = superposition_plan(params.items, params.dim, storage_bytes(storage));
  const int64_t compute_bytes = storage == Storage::kDouble ? sizeof(double) : sizeof(float);
  return superposition_workspace_elements(plan, params.rows, params.dim) * compute_bytes;
}

void launch_superposition(Storage storage, const SuperpositionParams& params, void* workspace, CudaStream stream) {
  launch_superposition(storage, params, workspace, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
