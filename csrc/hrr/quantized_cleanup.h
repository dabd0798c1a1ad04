// The search over codes of rows, on the device that holds them.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "kernels/hrr/quantized_rows.h"

namespace torch_hrr::hrr::cuda {

void execute(const kernels::QuantizeParams& params, const at::Tensor& codes);
// As run() of quantized_cleanup, for queries [count, D] in the compute type; `order` may be undefined.
std::tuple<at::Tensor, at::Tensor> quantized_cleanup(const at::Tensor& queries, const at::Tensor& rows,
                                                     const at::Tensor& codes, const at::Tensor& bounds,
                                                     const at::Tensor& order, int64_t top_k);

}  // namespace torch_hrr::hrr::cuda
