// Launches of k_winners and of the k-cap on the current CUDA stream.
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/sort.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <tuple>

#include "csrc/assembly/execute.h"
#include "kernels/assembly/cuda_launch.h"

namespace torch_hrr::assembly::cuda {

void execute(const kernels::SoftCapParams& params, const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  kernels::launch_soft_cap(params, c10::cuda::getCurrentCUDAStream().stream());
}

void execute(const kernels::WinnersParams& params, const at::Tensor& inputs) {
  const c10::cuda::CUDAGuard guard(inputs.device());
  const at::Tensor workspace = at::empty({kernels::winners_workspace_bytes(params)}, inputs.options().dtype(at::kByte));
  kernels::launch_winners(params, workspace.numel() > 0 ? workspace.mutable_data_ptr() : nullptr,
                          c10::cuda::getCurrentCUDAStream().stream());
}

void sort_winners(const at::Tensor& values, const at::Tensor& indices) {
  const c10::cuda::CUDAGuard guard(values.device());
  const at::Tensor keys = at::empty(values.sizes(), values.options().dtype(at::kLong));
  kernels::launch_winner_keys(element_of(values.scalar_type()), values.const_data_ptr(), values.numel(),
                              keys.mutable_data_ptr<int64_t>(), c10::cuda::getCurrentCUDAStream().stream());
  // Keys, not values: the order of NaN and of the zeros is then the one that chose the winners.
  const at::Tensor order = std::get<1>(at::sort(keys, /*stable=*/true, /*dim=*/-1, /*descending=*/true));
  values.copy_(values.gather(-1, order));
  indices.copy_(indices.gather(-1, order));
}

}  // namespace torch_hrr::assembly::cuda
