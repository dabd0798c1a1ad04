// Queues layers that learn.
#include "kernels/cuda/stored.cuh"
#include "kernels/hierarchy/launch_plastic.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const PlasticParams& params) {
  with_compute_type(call.storage,
                    [&](auto zero) { launch_plastic_with<decltype(zero)>(params, DeviceLauncher{call.stream}); });
}

int64_t workspace_bytes(Storage storage, const CompetingParams& params) {
  return params.scan.learners * params.workspace_elements() * storage_bytes(storage);
}

void queue(const CudaCall& call, const CompetingParams& params) {
  CompetingParams own = params;
  own.workspace = call.workspace;
  with_compute_type(call.storage,
                    [&](auto zero) { launch_competing_with<decltype(zero)>(own, DeviceLauncher{call.stream}); });
}

}  // namespace torch_hrr::kernels
