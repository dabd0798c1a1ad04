// Launches of the connectome's kernels.
#include "kernels/assembly/connectome.cuh"

namespace torch_hrr::kernels {

void launch_deliver(const DeliverLaunch& params, CudaStream stream) {
  launch_deliver_with(params, DeviceLauncher{stream});
}

void launch_stimulus_counts(const StimulusLaunch& params, CudaStream stream) {
  launch_stimulus_counts_with(params, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
