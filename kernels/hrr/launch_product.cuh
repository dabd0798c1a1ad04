// Which kernel, block and shared memory a product of rows takes.
//
// `launch_kernel(name, kernel, grid, block, shared_bytes, arguments...)` starts it: on the device in .cu files, on the
// host in tests.
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/hrr/circular_convolution.cuh"
#include "kernels/hrr/circular_convolution_backward.cuh"
#include "kernels/hrr/direct_convolution.cuh"

namespace torch_hrr::kernels {

// The lengths a program instantiates: all of them, or fewer in a test.
template <int kFirstLog2, int kLastLog2>
struct Lengths {};
using AllLengths = Lengths<kMinDeviceFftLog2, kMaxDeviceFftLog2>;

// launch_log2(integral_constant<log2 M>) for the transform of rows of `dim` elements.
template <int kFirst, int kLast, typename Launch>
void with_device_fft(Lengths<kFirst, kLast>, const char* name, int64_t dim, const Launch& launch_log2) {
  if (transform_length(dim) == int64_t{2} << kFirst && algorithm_for(dim) != Algorithm::kLibrary) {
    launch_log2(std::integral_constant<int, kFirst>{});
  } else if constexpr (kFirst < kLast) {
    with_device_fft(Lengths<kFirst + 1, kLast>{}, name, dim, launch_log2);
  } else {
    throw std::runtime_error(std::string(name) + ": dim must be at most 4096, or a power of two up to 8192, got " +
                             std::to_string(dim));
  }
}

// threads = 0 takes the block from kBlockShapes.
template <typename S, bool kRecord, typename Lengths = AllLengths, typename LaunchKernel>
void launch_product(const char* name, const RecordParams& params, Product product,
                    const TwiddlePoint<compute_t<S>>* twiddles, const LaunchKernel& launch_kernel, int threads = 0) {
  if (params.rows == 0 || params.dim == 0) {
    return;
  }
  if (algorithm_for(params.dim) == Algorithm::kDirect) {
    threads = threads == 0 ? kDirectThreads : threads;
    launch_kernel(name, direct_product_kernel<S>, grid_for(params.rows, direct_rows_per_block(params.dim, threads)),
                  dim3(static_cast<unsigned>(threads)), std::size_t{0}, params, product);
    return;
  }
  with_device_fft(Lengths{}, name, params.dim, [&](auto log2) {
    constexpr int kLog2 = decltype(log2)::value;
    using Fft = RowFft<compute_t<S>, kLog2>;
    const int block = threads == 0 ? kBlockThreads<kLog2> : threads;
    launch_kernel(name, product_kernel<S, kLog2, kRecord>, grid_for(params.rows, block / Fft::kThreads),
                  dim3(static_cast<unsigned>(block)), Fft::shared_bytes(block), params, product, twiddles);
  });
}

template <typename S, typename Lengths = AllLengths, typename LaunchKernel>
void launch_product_backward(const char* name, const BindingBackwardParams& params,
                             const TwiddlePoint<compute_t<S>>* twiddles, const LaunchKernel& launch_kernel,
                             int threads = 0) {
  if (params.rows == 0 || params.dim == 0 || (params.grad_a == nullptr && params.grad_b == nullptr)) {
    return;
  }
  if (algorithm_for(params.dim) == Algorithm::kDirect) {
    threads = threads == 0 ? kDirectThreads : threads;
    launch_kernel(name, direct_backward_kernel<S>, grid_for(params.rows, direct_rows_per_block(params.dim, threads)),
                  dim3(static_cast<unsigned>(threads)), std::size_t{0}, params);
    return;
  }
  with_device_fft(Lengths{}, name, params.dim, [&](auto log2) {
    constexpr int kLog2 = decltype(log2)::value;
    using Fft = RowFft<compute_t<S>, kLog2>;
    const int block = threads == 0 ? kBlockThreads<kLog2> : threads;
    launch_kernel(name, product_backward_kernel<S, kLog2>, grid_for(params.rows, block / Fft::kThreads),
                  dim3(static_cast<unsigned>(block)), Fft::shared_bytes(block), params, twiddles);
  });
}

// A single product as a record of one item.
inline RecordParams record_of_one(const BindingParams& params) {
  RecordParams record;
  record.a = params.a;
  record.b = params.b;
  record.out = params.out;
  record.rows = params.rows;
  record.items = 1;
  record.dim = params.dim;
  record.map = params.map;
  record.normalize = params.normalize;
  record.eps = params.eps;
  return record;
}

}  // namespace torch_hrr::kernels
