// For each of K factors the product of all others, of which many derivatives are made.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <cstdint>

namespace torch_hrr::hrr {

// K decides how many operators are called, so it is a constant of a compiled graph.
inline int64_t count_along(const at::Tensor& factors, int64_t dim) {
  return factors.sym_size(dim).guard_int(__FILE__, __LINE__);
}

// For each k along `dim`, with K >= 2, the product of all other factors. What the others of a pair share is found from
// the products of pairs, by 2 log2(K) calls of `multiply`. DTensor has strategies for all that is called, unlike flip
// and cumprod_backward.
template <typename Multiply>
at::Tensor products_of_others(const at::Tensor& factors, int64_t dim, const Multiply& multiply) {
  const int64_t count = count_along(factors, dim);
  const int64_t pairs = count / 2;
  const at::Tensor left = factors.narrow(dim, 0, pairs);
  const at::Tensor right = factors.narrow(dim, pairs, pairs);
  if (count == 2) {
    return at::cat({right, left}, dim);
  }
  const at::Tensor unpaired = factors.narrow(dim, 2 * pairs, count - 2 * pairs);
  const at::Tensor others = products_of_others(at::cat({multiply(left, right), unpaired}, dim), dim, multiply);
  const at::Tensor of_pairs = others.narrow(dim, 0, pairs);
  return at::cat({multiply(of_pairs, right), multiply(of_pairs, left), others.narrow(dim, pairs, count - 2 * pairs)},
                 dim);
}

}  // namespace torch_hrr::hrr
