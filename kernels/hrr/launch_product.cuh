// Which kernel a product of rows, or its gradient, takes; `launch_kernel` as in launch_transform.cuh.
#pragma once

#include "kernels/hrr/circular_convolution.cuh"
#include "kernels/hrr/circular_convolution_backward.cuh"
#include "kernels/hrr/launch_transform.cuh"

namespace torch_hrr::kernels {

template <typename T, bool kManyItems, typename Lengths = AllLengths, typename LaunchKernel>
void launch_product(const char* name, Storage storage, const BindSuperposeParams& params, Product product,
                    const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return product_kernel<T, decltype(log2)::value, kManyItems>; };
  launch_transform<T, Lengths>(name, half_points(params.plan), params, kernel, launch_kernel, threads, params, product,
                               storage);
}

template <typename T, typename Lengths = AllLengths, typename LaunchKernel>
void launch_product_backward(Storage storage, const BindBackwardParams& params, const LaunchKernel& launch_kernel,
                             int threads = 0) {
  if (params.grad_a == nullptr && params.grad_b == nullptr) {
    return;
  }
  const auto kernel = [](auto log2) { return product_backward_kernel<T, decltype(log2)::value>; };
  launch_transform<T, Lengths>("bind_backward", half_points(params.plan), params, kernel, launch_kernel, threads,
                               params, storage);
}

// A single product as a record of one item.
inline BindSuperposeParams sum_of_one(const BindParams& params) {
  BindSuperposeParams record;
  record.a = params.a;
  record.b = params.b;
  record.out = params.out;
  record.rows = params.rows;
  record.items = 1;
  record.dim = params.dim;
  record.plan = params.plan;
  record.map = params.map;
  record.normalize = params.normalize;
  record.eps = params.eps;
  return record;
}

}  // namespace torch_hrr::kernels
