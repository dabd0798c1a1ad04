// Launches of layers that learn on the current CUDA stream.
#include <ATen/ops/empty.h>
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

void execute(const kernels::CompetingParams& params, const at::Tensor& outputs) {
  const c10::cuda::CUDAGuard guard(outputs.device());
  // The allocator keeps it until the stream has passed the launch.
  const at::Tensor workspace = at::empty({params.scan.learners, params.workspace_elements()}, outputs.options());
  kernels::CompetingParams own = params;
  own.workspace = workspace.mutable_data_ptr();
  kernels::launch_competing(storage_of(outputs), own, c10::cuda::getCurrentCUDAStream().stream());
}

void execute(const kernels::PlasticBackwardParams& params, const at::Tensor& grad_weight) {
  const c10::cuda::CUDAGuard guard(grad_weight.device());
  const kernels::Storage storage = storage_of(grad_weight);
  // The allocator keeps it until the stream has passed the launches.
  const at::Tensor workspace = at::empty({kernels::plastic_backward_workspace(storage, params)}, grad_weight.options());
  kernels::PlasticBackwardParams own = params;
  own.workspace = workspace.mutable_data_ptr();
  kernels::launch_plastic_backward(storage, own, c10::cuda::getCurrentCUDAStream().stream());
}

void execute(const kernels::PlasticTangentParams& params, const at::Tensor& tangent_weight) {
  const c10::cuda::CUDAGuard guard(tangent_weight.device());
  const kernels::Storage storage = storage_of(tangent_weight);
  const at::Tensor workspace =
      at::empty({kernels::plastic_tangent_workspace(storage, params)}, tangent_weight.options());
  kernels::PlasticTangentParams own = params;
  own.workspace = workspace.mutable_data_ptr();
  kernels::launch_plastic_tangent(storage, own, c10::cuda::getCurrentCUDAStream().stream());
}

}  // namespace torch_hrr::hierarchy::cuda
