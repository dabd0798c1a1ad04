// What the HRR operators accept and what they return: contracts that several of them share.
#pragma once

#include <optional>
#include <ostream>

#include "csrc/contract.h"

namespace torch_hrr::hrr {

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

// For errors.
struct LeadingDimensions {
  const char* a;
  const char* b;

  friend std::ostream& operator<<(std::ostream& out, const LeadingDimensions& of) {
    return out << "the leading dimensions of " << of.a << " and " << of.b;
  }
};

// bind, unbind, bind_normalize: [..., D] and [..., D] give [..., D].
template <typename Int>
ResultContract<Int> bind_contract(const char* op, const Argument& a, const Argument& b, double eps = 0) {
  check_floating(op, {a, b});
  check_rank(op, a, 1, "[..., D]");
  check_rank(op, b, 1, "[..., D]");
  check_same_last<Int>(op, a, b);
  check_not_empty_last<Int>(op, a);
  check_eps(op, eps);
  ResultContract<Int> result{{}, promote(a.tensor, b.tensor)};
  const LeadingDimensions description{a.name, b.name};
  broadcast_into<Int>(op, all_but_last(sizes_of<Int>(a.tensor)), description, result.sizes);
  broadcast_into<Int>(op, all_but_last(sizes_of<Int>(b.tensor)), description, result.sizes);
  result.sizes.push_back(sizes_of<Int>(a.tensor).back());
  check_numel<Int>(op, result.sizes);
  return result;
}

// The gradients of those: grad broadcasts with a and b; both results have the common shape.
template <typename Int>
ResultContract<Int> bind_backward_contract(const char* op, const Argument& grad, const Argument& a, const Argument& b,
                                           double eps = 0) {
  ResultContract<Int> result = bind_contract<Int>(op, a, b, eps);
  check_floating(op, {a, grad});
  check_rank(op, grad, 1, "[..., D]");
  check_same_last<Int>(op, a, grad);
  broadcast_into<Int>(op, sizes_of<Int>(grad.tensor), "grad and the result", result.sizes);
  result.dtype = c10::promoteTypes(result.dtype, grad.tensor.scalar_type());
  check_numel<Int>(op, result.sizes);
  return result;
}

// Of an operator that sums over items: the result has sizes [..., D].
template <typename Int>
struct SumContract : ResultContract<Int> {
  Int items;

  c10::ArrayRef<Int> batch() const {
    return all_but_last<Int>(this->sizes);
  }
  // [..., K, D], and [..., K] of the weights
  Sizes<Int> item_sizes() const {
    Sizes<Int> sizes = this->sizes;
    sizes.insert(sizes.end() - 1, items);
    return sizes;
  }
  Sizes<Int> weight_sizes() const {
    Sizes<Int> sizes = this->sizes;
    sizes.back() = items;
    return sizes;
  }
};

// Vectors [..., K, D] with optional weights [..., K].
template <typename Int>
SumContract<Int> sum_contract(const char* op, std::initializer_list<Argument> vectors,
                              const std::optional<at::Tensor>& weights, double eps) {
  const Argument& first = *vectors.begin();
  check_floating(op, vectors);
  SumContract<Int> result{{{}, first.tensor.scalar_type()}, 0};
  for (const Argument& argument : vectors) {
    check_rank(op, argument, 2, "[..., K, D]");
    check_same_last<Int>(op, first, argument);
    check_not_empty_last<Int>(op, argument);
    result.dtype = c10::promoteTypes(result.dtype, argument.tensor.scalar_type());
    broadcast_into<Int>(op, all_but_last(sizes_of<Int>(argument.tensor)),
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
  const Int dim = sizes_of<Int>(first.tensor).back();
  result.sizes.push_back(dim);
  check_numel<Int>(op, result.sizes);
  result.sizes.pop_back();
  result.items = result.sizes.back();
  result.sizes.back() = dim;
  return result;
}

}  // namespace torch_hrr::hrr
