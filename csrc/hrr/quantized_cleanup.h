// The search over codes of rows, on the device that holds them.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "kernels/hrr/quantized_rows.h"

namespace torch_hrr::hrr {

// A query of a smaller norm counts as zero, whose cosines and derivative are 0.
inline double least_norm(const at::Tensor& rows) {
  return rows.scalar_type() == at::kDouble ? 1e-300 : 1e-37;
}

}  // namespace torch_hrr::hrr

namespace torch_hrr::hrr::cuda {

// The items that `search` describes and queries [count, D] in the compute type; `order`, its places, may be undefined.
std::tuple<at::Tensor, at::Tensor> quantized_cleanup(const kernels::CleanupParams& search, const at::Tensor& queries,
                                                     const at::Tensor& order);

}  // namespace torch_hrr::hrr::cuda
