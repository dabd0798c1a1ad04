// Queues sinusoids that are added to rows of a table.
#include "kernels/encoding/launch_sinusoid.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const TableParams& params, const TurnArrays& turns) {
  launch_sinusoids_with(call.storage, params, turns, DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
