// Launches the maps of a library's bins.
#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/library_bins.cuh"

namespace torch_hrr::kernels {

void launch_map_library_bins(const LibraryBinsParams& params, CudaStream stream) {
  launch_library_bins(params, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
