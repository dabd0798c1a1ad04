// Launches of the k-cap on the current CUDA stream.
#include "csrc/assembly/execute.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/assembly/soft_cap_launch.h"

namespace torch_hrr::assembly::cuda {

void execute(const kernels::SoftCapParams& params, const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  kernels::launch_soft_cap(params, c10::cuda::getCurrentCUDAStream().stream());
}

}  // namespace torch_hrr::assembly::cuda
