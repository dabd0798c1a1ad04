// Queues field steps.
#include "kernels/field/launch_evolve.cuh"

namespace torch_hrr::kernels {

int64_t workspace_bytes(Storage storage, const EvolveParams& params, const EvolveNumbers&, int64_t steps) {
  return steps > 1 ? params.elements() * storage_bytes(storage) : 0;
}

void queue(const CudaCall& call, const EvolveParams& params, const EvolveNumbers& numbers, int64_t steps) {
  EvolveOptions options;
  options.most_shared = device_limits("field_evolve").shared_bytes;
  launch_evolve_with(call.storage, params, numbers, steps, call.workspace, DeviceLauncher{call.stream}, options);
}

}  // namespace torch_hrr::kernels
