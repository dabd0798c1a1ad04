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
at::Tensor cut_inverse(const at::Tensor& a, double eps);
at::Tensor inverse_backward(const at::Tensor& grad, const at::Tensor& a, double eps);
at::Tensor unitary_jacobian(const at::Tensor& v, const at::Tensor& a);
at::Tensor bind_power_log(const at::Tensor& a, const at::Tensor& exponent, int64_t order);
at::Tensor bind_power_backward(const at::Tensor& grad, const at::Tensor& a, const at::Tensor& exponent);

}  // namespace torch_hrr::hrr
