// Calls of the family's operators through the dispatcher, private ones included.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "csrc/include/torch_hrr/torch_hrr.h"

namespace torch_hrr::hrr {

std::tuple<at::Tensor, at::Tensor> bind_backward(const at::Tensor& grad, const at::Tensor& a, const at::Tensor& b);
std::tuple<at::Tensor, at::Tensor> unbind_backward(const at::Tensor& grad, const at::Tensor& bound,
                                                   const at::Tensor& role);
std::tuple<at::Tensor, at::Tensor> bind_normalize_backward(const at::Tensor& grad, const at::Tensor& a,
                                                           const at::Tensor& b, double eps);

} // namespace torch_hrr::hrr
