// Launches field steps.
#include "kernels/field/cuda_launch.h"
#include "kernels/field/launch_evolve.cuh"

namespace torch_hrr::kernels {

void launch_evolve(Storage storage, const EvolveParams& params, const EvolveNumbers& numbers, int64_t steps,
                   void* workspace, CudaStream stream) {
  EvolveOptions options;
  options.most_shared = device_limits("field_evolve").shared_bytes;
  launch_evolve_with(storage, params, numbers, steps, workspace, DeviceLauncher{stream}, options);
}

}  // namespace torch_hrr::kernels
