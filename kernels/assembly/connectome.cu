// Queues the connectome's kernels.
#include "kernels/assembly/connectome.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const DeliverLaunch& params) {
  launch_deliver_with(params, DeviceLauncher{call.stream});
}

void queue(const CudaCall& call, const StimulusLaunch& params) {
  launch_stimulus_counts_with(params, DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
