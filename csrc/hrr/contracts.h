// What the HRR operators accept and what they return, for every device and for Meta.
#pragma once

#include <optional>

#include "csrc/checks.h"

namespace torch_hrr::hrr {

// Sizes, with the row length last, and dtype of a result.
template <typename Int>
struct ResultContract {
  Sizes<Int> sizes;
  at::ScalarType dtype;
};

inline at::ScalarType promote(const at::Tensor& a, const at::Tensor& b) {
  return c10::promoteTypes(a.scalar_type(), b.scalar_type());
}

// Operators of one row: [..., D] gives [..., D].
template <typename Int>
ResultContract<Int> row_contract(const char* op, const Argument& a) {
  check_floating(op, {a});
  check_rank(op, a, 1, "[..., D]");
  check_not_empty_last<Int>(op, a);
  const auto sizes = sizes_of<Int>(a.tensor);
  check_numel<Int>(op, sizes);
  return {Sizes<Int>(sizes.begin(), sizes.end()), a.tensor.scalar_type()};
}

// bind, unbind, bind_normalize: [..., D] and [..., D] give [..., D].
template <typename Int>
ResultContract<Int> binding_contract(const char* op, const Argument& a, const Argument& b, double eps = 0) {
  check_floating(op, {a, b});
  check_rank(op, a, 1, "[..., D]");
  check_rank(op, b, 1, "[..., D]");
  check_same_last<Int>(op, a, b);
  check_not_empty_last<Int>(op, a);
  check_eps(op, eps);
  ResultContract<Int> result{{}, promote(a.tensor, b.tensor)};
  const auto description = std::string("the leading dimensions of ") + a.name + " and " + b.name;
  broadcast_into<Int>(op, sizes_of<Int>(a.tensor).slice(0, static_cast<size_t>(a.tensor.dim()) - 1),
                      description.c_str(), result.sizes);
  broadcast_into<Int>(op, sizes_of<Int>(b.tensor).slice(0, static_cast<size_t>(b.tensor.dim()) - 1),
                      description.c_str(), result.sizes);
  result.sizes.push_back(sizes_of<Int>(a.tensor).back());
  check_numel<Int>(op, result.sizes);
  return result;
}

// The gradients of those: grad broadcasts with a and b; both results have the common shape.
template <typename Int>
ResultContract<Int> binding_backward_contract(const char* op, const Argument& grad, const Argument& a,
                                              const Argument& b, double eps = 0) {
  ResultContract<Int> result = binding_contract<Int>(op, a, b, eps);
  check_floating(op, {a, grad});
  check_rank(op, grad, 1, "[..., D]");
  check_same_last<Int>(op, a, grad);
  broadcast_into<Int>(op, sizes_of<Int>(grad.tensor), "grad and the result", result.sizes);
  result.dtype = c10::promoteTypes(result.dtype, grad.tensor.scalar_type());
  check_numel<Int>(op, result.sizes);
  return result;
}

// The batch sizes of [..., K, D] vectors with optional [..., K] weights; K joins as the last of them.
template <typename Int>
ResultContract<Int> items_contract(const char* op, std::initializer_list<Argument> vectors,
                                   const std::optional<at::Tensor>& weights, double eps) {
  const Argument& first = *vectors.begin();
  check_floating(op, vectors);
  ResultContract<Int> result{{}, first.tensor.scalar_type()};
  for (const Argument& argument : vectors) {
    check_rank(op, argument, 2, "[..., K, D]");
    check_same_last<Int>(op, first, argument);
    check_not_empty_last<Int>(op, argument);
    result.dtype = c10::promoteTypes(result.dtype, argument.tensor.scalar_type());
    broadcast_into<Int>(op, sizes_of<Int>(argument.tensor).slice(0, static_cast<size_t>(argument.tensor.dim()) - 1),
                        "the leading dimensions and K of the arguments", result.sizes);
  }
  if (weights.has_value()) {
    const Argument argument{"weights", *weights};
    check_floating(op, {first, argument});
    check_rank(op, argument, 1, "[..., K]");
    result.dtype = c10::promoteTypes(result.dtype, weights->scalar_type());
    broadcast_into<Int>(op, sizes_of<Int>(*weights), "weights and the dimensions [..., K] of the vectors",
                        result.sizes);
  }
  check_eps(op, eps);
  result.sizes.push_back(sizes_of<Int>(first.tensor).back());
  check_numel<Int>(op, result.sizes);
  return result;
}

template <typename Int>
ResultContract<Int> without_items(ResultContract<Int> contract) {
  contract.sizes.erase(contract.sizes.end() - 2);
  return contract;
}

// superpose: vectors [..., K, D], weights [..., K]; sizes still contain K.
template <typename Int>
ResultContract<Int> superpose_contract(const at::Tensor& vectors, const std::optional<at::Tensor>& weights,
                                       double eps) {
  return items_contract<Int>("superpose", {{"vectors", vectors}}, weights, eps);
}

// bind_superpose: a and b [..., K, D], weights [..., K]; sizes still contain K.
template <typename Int>
ResultContract<Int> record_contract(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& weights,
                                    double eps) {
  return items_contract<Int>("bind_superpose", {{"a", a}, {"b", b}}, weights, eps);
}

// An out argument of exactly this shape, dtype and device that shares no memory with the inputs or itself.
void check_out(const char* op, const at::Tensor& out, const ResultContract<int64_t>& contract,
               std::initializer_list<Argument> inputs);
// The same for Meta: shape and dtype.
void check_out(const char* op, const at::Tensor& out, const ResultContract<c10::SymInt>& contract,
               std::initializer_list<Argument> inputs);

}  // namespace torch_hrr::hrr
