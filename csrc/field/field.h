// Steps and gradients of fields on a GPU, in builds that have CUDA.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/field/gradient.h"

namespace torch_hrr::field::cuda {

// At least one step into `out`, queued on the current stream without synchronisation. The parameters' pointers are
// those of the tensors; out is not empty.
void execute(const kernels::EvolveParams& params, const kernels::EvolveNumbers& numbers, int64_t steps,
             const at::Tensor& out);
void execute(const kernels::GradientParams& params, const at::Tensor& out);

}  // namespace torch_hrr::field::cuda
