// Launches of field steps and gradients on the current CUDA stream.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "csrc/field/field.h"
#include "csrc/rows.h"
#include "kernels/field/cuda_launch.h"

namespace torch_hrr::field::cuda {

void execute(const kernels::EvolveParams& params, const kernels::EvolveNumbers& numbers, int64_t steps,
             const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  const at::Tensor workspace = steps > 1 ? at::empty_like(out) : at::Tensor();
  kernels::launch_evolve(storage_of(out), params, numbers, steps,
                         workspace.defined() ? workspace.mutable_data_ptr() : nullptr,
                         c10::cuda::getCurrentCUDAStream().stream());
}

void execute(const kernels::GradientParams& params, const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  kernels::launch_gradient(storage_of(out), params, c10::cuda::getCurrentCUDAStream().stream());
}

void execute(const kernels::MomentsParams& params, const at::Tensor& field) {
  const c10::cuda::CUDAGuard guard(field.device());
  kernels::launch_moments(storage_of(field), params, c10::cuda::getCurrentCUDAStream().stream());
}

void execute(const kernels::ControlParams& params, const at::Tensor& field) {
  const c10::cuda::CUDAGuard guard(field.device());
  const at::Tensor workspace =
      at::empty({params.rows * kernels::control_workspace(params)}, field.options().dtype(at::kLong));
  kernels::launch_control(storage_of(field), params, workspace.mutable_data_ptr<int64_t>(),
                          c10::cuda::getCurrentCUDAStream().stream());
}

}  // namespace torch_hrr::field::cuda
