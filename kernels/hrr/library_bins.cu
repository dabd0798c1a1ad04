// Queues the maps of a library's bins.
#include "kernels/hrr/library_bins.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const LibraryBinsParams& params) {
  launch_library_bins(params, DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
