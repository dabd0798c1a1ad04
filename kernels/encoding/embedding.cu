// Launches sinusoids that are added to rows of a table.
#include "kernels/encoding/cuda_launch.h"
#include "kernels/encoding/launch_sinusoid.cuh"

namespace torch_hrr::kernels {

void launch_sinusoids(Storage storage, const TableParams& params, const TurnArrays& turns, CudaStream stream) {
  launch_sinusoids_with(storage, params, turns, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
