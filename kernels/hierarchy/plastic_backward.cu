// Queues the gradient of layers that learn.
#include "kernels/cuda/stored.cuh"
#include "kernels/hierarchy/launch_plastic_backward.cuh"

namespace torch_hrr::kernels {

int64_t workspace_bytes(Storage storage, const PlasticBackwardParams& params) {
  const int64_t elements = storage == Storage::kDouble ? plastic_backward_workspace<double>(params)
                                                       : plastic_backward_workspace<float>(params);
  return elements * storage_bytes(storage);
}

void queue(const CudaCall& call, const PlasticBackwardParams& params) {
  PlasticBackwardParams own = params;
  own.workspace = call.workspace;
  with_compute_type(call.storage,
                    [&](auto zero) { launch_plastic_backward_with<decltype(zero)>(own, DeviceLauncher{call.stream}); });
}

}  // namespace torch_hrr::kernels
