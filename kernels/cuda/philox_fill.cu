// Queues the Philox fill kernel.
#include "kernels/cuda/philox_fill.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/philox_fill.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const PhiloxFillParams& params) {
  constexpr int kThreads = 256;
  if (params.words == 0) {
    return;
  }
  const dim3 grid = grid_for(params.words, 4 * kThreads);
  launch("philox_fill_kernel", philox_fill_kernel, grid, dim3(kThreads), 0, call.stream, params);
}

}  // namespace torch_hrr::kernels
