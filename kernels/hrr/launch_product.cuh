// Which kernel a product of rows, or its gradient, takes; `launch_kernel` as in launch_transform.cuh.
#pragma once

#include "kernels/hrr/circular_convolution.cuh"
#include "kernels/hrr/circular_convolution_backward.cuh"
#include "kernels/hrr/launch_transform.cuh"

namespace torch_hrr::kernels {

// kernel(integral_constant<log2 M>) with its twiddles.
template <typename Lengths, typename T, typename Params, typename Kernel, typename LaunchKernel, typename... Args>
void launch_length(const char* name, const Params& params, const TwiddlePoint<T>* twiddles, const Kernel& kernel,
                   const LaunchKernel& launch_kernel, int threads, const Args&... args) {
  if (params.rows == 0 || params.dim == 0) {
    return;
  }
  with_device_fft(Lengths{}, name, params.plan, params.dim, [&](auto log2) {
    launch_transform<decltype(log2)::value>(name, params.rows, twiddles, kernel(log2), launch_kernel, threads, params,
                                            args...);
  });
}

template <bool kManyItems, typename Lengths = AllLengths, typename T, typename LaunchKernel>
void launch_product(const char* name, Storage storage, const BindSuperposeParams& params, Product product,
                    const TwiddlePoint<T>* twiddles, const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return product_kernel<T, decltype(log2)::value, kManyItems>; };
  launch_length<Lengths>(name, params, twiddles, kernel, launch_kernel, threads, product, storage);
}

template <typename Lengths = AllLengths, typename T, typename LaunchKernel>
void launch_product_backward(const char* name, Storage storage, const BindBackwardParams& params,
                             const TwiddlePoint<T>* twiddles, const LaunchKernel& launch_kernel, int threads = 0) {
  if (params.grad_a == nullptr && params.grad_b == nullptr) {
    return;
  }
  const auto kernel = [](auto log2) { return product_backward_kernel<T, decltype(log2)::value>; };
  launch_length<Lengths>(name, params, twiddles, kernel, launch_kernel, threads, storage);
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
