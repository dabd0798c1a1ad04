// Launches of layers that learn on the current CUDA stream.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "csrc/hierarchy/plastic.h"
#include "csrc/rows.h"
#include "kernels/hierarchy/cuda_launch.h"

namespace torch_hrr::hierarchy::cuda {

void execute(const kernels::PlasticParams& params, const at::Tensor& outputs) {
  const c10::cuda::CUDAGuard guard(outputs.device());
  kernels::launch_plastic(storage_of(outputs), params, c10::cuda::getCurrentCUDAStream().stream());
}

}  // namespace torch_hrr::hierarchy::cuda
