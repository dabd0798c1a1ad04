// Winners in descending order on the current CUDA stream.
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/sort.h>

#include <tuple>

#include "csrc/assembly/execute.h"

namespace torch_hrr::assembly::cuda {

void sort_winners(const at::Tensor& values, const at::Tensor& indices) {
  const at::Tensor keys = at::empty(values.sizes(), values.options().dtype(at::kLong));
  const kernels::WinnerKeysParams params{values.const_data_ptr(), keys.mutable_data_ptr<int64_t>(), values.numel(),
                                         element_of(values.scalar_type())};
  execute_on_cuda(values, params);
  // Keys, not values: the order of NaN and of the zeros is then the one that chose the winners.
  const at::Tensor order = std::get<1>(at::sort(keys, /*stable=*/true, /*dim=*/-1, /*descending=*/true));
  values.copy_(values.gather(-1, order));
  indices.copy_(indices.gather(-1, order));
}

}  // namespace torch_hrr::assembly::cuda
