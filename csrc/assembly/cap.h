// The k-cap on a CUDA device, in builds that have it.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/assembly/soft_cap.h"

namespace torch_hrr::assembly::cuda {

// Queued on the current stream, no synchronisation; params.rows and params.n must not be 0.
void execute(const kernels::SoftCapParams& params, const at::Tensor& out);

}  // namespace torch_hrr::assembly::cuda
