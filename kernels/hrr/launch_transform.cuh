// Which block and shared memory a kernel of transforms takes, and which of its lengths the rows are planned with.
//
// `launch_kernel(name, kernel, grid, block, shared_bytes, arguments...)` starts it: on the device in .cu files, on the
// host in tests.
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/hrr/row_io.cuh"

namespace torch_hrr::kernels {

// The lengths a program instantiates: all of them, or fewer in a test.
template <int kFirstLog2, int kLastLog2>
struct Lengths {};
using AllLengths = Lengths<kMinDeviceFftLog2, kMaxDeviceFftLog2>;

// Complex numbers of the transform of rows that are halved or padded; 0 of others.
inline int64_t half_points(const RowPlan& plan) {
  return plan.path == RowPath::kHalf || plan.path == RowPath::kPadded ? plan.length / 2 : 0;
}

template <int kFirst, int kLast, typename Launch>
void with_device_fft(Lengths<kFirst, kLast>, const char* name, int64_t points, const Launch& launch_log2) {
  if (points == int64_t{1} << kFirst) {
    launch_log2(std::integral_constant<int, kFirst>{});
  } else if constexpr (kFirst < kLast) {
    with_device_fft(Lengths<kFirst + 1, kLast>{}, name, points, launch_log2);
  } else {
    throw std::runtime_error(std::string(name) + ": rows must be planned with a transform of 16 to 4096 numbers, got " +
                             std::to_string(points));
  }
}

// Starts kernel(integral_constant<log2 M>) for the rows of params by a transform of M points; its last argument are the
// plan's twiddles. threads = 0 takes kBlockThreads.
template <typename T, typename Lengths, typename Params, typename Kernel, typename LaunchKernel, typename... Args>
void launch_transform(const char* name, int64_t points, const Params& params, const Kernel& kernel,
                      const LaunchKernel& launch_kernel, int threads, const Args&... args) {
  if (params.rows == 0) {
    return;
  }
  with_device_fft(Lengths{}, name, points, [&](auto log2) {
    constexpr int kLog2 = decltype(log2)::value;
    using Fft = RowFft<T, kLog2>;
    const int block = threads == 0 ? kBlockThreads<kLog2> : threads;
    launch_kernel(name, kernel(log2), grid_for(params.rows, block / Fft::kThreads), dim3(static_cast<unsigned>(block)),
                  Fft::shared_bytes(block), args..., static_cast<const TwiddlePoint<T>*>(params.plan.twiddles));
  });
}

}  // namespace torch_hrr::kernels
