// Queues the tangents of layers that learn.
#include "kernels/cuda/stored.cuh"
#include "kernels/hierarchy/launch_plastic_tangent.cuh"

namespace torch_hrr::kernels {

int64_t workspace_bytes(Storage storage, const PlasticTangentParams& params) {
  const int64_t elements = storage == Storage::kDouble ? plastic_tangent_workspace<double>(params)
                                                       : plastic_tangent_workspace<float>(params);
  return elements * storage_bytes(storage);
}

void queue(const CudaCall& call, const PlasticTangentParams& params) {
  PlasticTangentParams own = params;
  own.workspace = call.workspace;
  with_compute_type(call.storage,
                    [&](auto zero) { launch_plastic_tangent_with<decltype(zero)>(own, DeviceLauncher{call.stream}); });
}

}  // namespace torch_hrr::kernels
