// Launches the maps of a library's bins.
#include "kernels/hrr/library_bins.cuh"

#include "kernels/hrr/cuda_launch.h"

namespace torch_hrr::kernels {

void launch_map_library_bins(const LibraryBinsParams& params, CudaStream stream) {
  launch_library_bins(params, [&](const char* name, auto kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                                  const LibraryBinsParams& argument) {
    launch(name, kernel, grid, block, shared_bytes, stream, argument);
  });
}

}  // namespace torch_hrr::kernels
