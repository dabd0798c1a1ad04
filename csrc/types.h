// The type in which values are computed (float for the half types, otherwise the type itself), and optional tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace torch_hrr {

inline bool is_half(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}

inline at::ScalarType compute_type(at::ScalarType type) {
  return is_half(type) ? at::kFloat : type;
}

using OptionalTensor = std::optional<at::Tensor>;

inline bool is_given(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined();
}

// Undefined if the argument is absent.
inline at::Tensor in_type(const std::optional<at::Tensor>& tensor, at::ScalarType type) {
  return tensor.has_value() ? tensor->to(type) : at::Tensor();
}

inline at::Tensor in_compute_type(const at::Tensor& tensor) {
  return is_half(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}

// Undefined tensors stay undefined.
inline std::vector<at::Tensor> in_compute_type(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> wide;
  wide.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    wide.push_back(tensor.defined() ? in_compute_type(tensor) : tensor);
  }
  return wide;
}

}  // namespace torch_hrr
