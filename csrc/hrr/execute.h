// Runs prepared parameters on the device that holds their tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/superposition.h"

namespace torch_hrr::hrr {

// `out` tells dtype and device; params.rows must not be 0.
void execute(const kernels::BindingParams& params, const at::Tensor& out);
void execute(const kernels::BindingBackwardParams& params, const at::Tensor& out);
void execute(const kernels::RecordParams& params, const at::Tensor& out);
void execute(const kernels::SuperpositionParams& params, const at::Tensor& out);

// The CUDA side, in builds that have it: queued on the current stream, no synchronisation.
namespace cuda {
void execute(const kernels::BindingParams& params, const at::Tensor& out);
void execute(const kernels::BindingBackwardParams& params, const at::Tensor& out);
void execute(const kernels::RecordParams& params, const at::Tensor& out);
void execute(const kernels::SuperpositionParams& params, const at::Tensor& out);
} // namespace cuda

} // namespace torch_hrr::hrr
