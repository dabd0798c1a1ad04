// Calls of the family's operators through the dispatcher: the public ones, and the private one that two files use.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "csrc/include/torch_hrr/torch_hrr.h"

namespace torch_hrr::hrr {

std::tuple<at::Tensor, at::Tensor> bind_backward(const at::Tensor& grad, const at::Tensor& a, const at::Tensor& b);

}  // namespace torch_hrr::hrr
