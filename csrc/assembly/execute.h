// Runs prepared parameters of the assembly family on the device that holds their tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "csrc/execute.h"
#include "kernels/assembly/soft_cap.h"
#include "kernels/assembly/winners.h"

namespace torch_hrr::assembly {

// How the kernels of k_winners name a supported type.
inline kernels::Element element_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return kernels::Element::kDouble;
    case at::kHalf:
      return kernels::Element::kHalf;
    case at::kBFloat16:
      return kernels::Element::kBFloat16;
    case at::kInt:
      return kernels::Element::kInt32;
    case at::kLong:
      return kernels::Element::kInt64;
    default:
      return kernels::Element::kFloat;
  }
}

// The CUDA side, in builds that have it: queued on the current stream, no synchronisation.
namespace cuda {
// Winners [..., k] by ascending index, sorted in place by descending value; equal ones keep their order.
void sort_winners(const at::Tensor& values, const at::Tensor& indices);
}  // namespace cuda

// `out` tells the device; neither rows nor k nor n may be 0. On a GPU `sorted` is not looked at.
template <typename Params>
void execute(const Params& params, const at::Tensor& out) {
  execute_rows(params, params.rows, out, kernels::kernel_table<kernels::RowKernel<Params>>());
}

}  // namespace torch_hrr::assembly
