// Which block and shared memory a kernel of transforms takes, and which of its lengths a row does.
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

// launch_log2(integral_constant<log2 M>) for the transform of rows of `dim` elements.
template <int kFirst, int kLast, typename Launch>
void with_device_fft(Lengths<kFirst, kLast>, const char* name, const RowPlan& row, int64_t dim,
                     const Launch& launch_log2) {
  if (row.length == int64_t{2} << kFirst && (row.path == RowPath::kHalf || row.path == RowPath::kPadded)) {
    launch_log2(std::integral_constant<int, kFirst>{});
  } else if constexpr (kFirst < kLast) {
    with_device_fft(Lengths<kFirst + 1, kLast>{}, name, row, dim, launch_log2);
  } else {
    throw std::runtime_error(std::string(name) + ": dim must be at most 4096, or a power of two up to 8192, got " +
                             std::to_string(dim));
  }
}

// The same for rows whose bins half-length transforms give.
template <typename Lengths, typename Launch>
void with_device_spectrum(Lengths lengths, const char* name, const RowPlan& row, int64_t dim,
                          const Launch& launch_log2) {
  if (row.path != RowPath::kHalf) {
    throw std::runtime_error(std::string(name) + ": dim must be a power of two from 32 to 8192, got " +
                             std::to_string(dim));
  }
  with_device_fft(lengths, name, row, dim, launch_log2);
}

// Starts the kernel of one length, whose last argument is the twiddle table; threads = 0 takes kBlockThreads.
template <int kLog2, typename T, typename Kernel, typename LaunchKernel, typename... Args>
void launch_transform(const char* name, int64_t rows, const TwiddlePoint<T>* twiddles, const Kernel& kernel,
                      const LaunchKernel& launch_kernel, int threads, const Args&... args) {
  using Fft = RowFft<T, kLog2>;
  const int block = threads == 0 ? kBlockThreads<kLog2> : threads;
  launch_kernel(name, kernel, grid_for(rows, block / Fft::kThreads), dim3(static_cast<unsigned>(block)),
                Fft::shared_bytes(block), args..., twiddles);
}

// launch(table) with the twiddle table of the type that rows of this storage are computed in.
template <typename Launch>
void with_twiddles(Storage storage, const void* twiddles, const Launch& launch) {
  if (storage == Storage::kDouble) {
    launch(static_cast<const TwiddlePoint<double>*>(twiddles));
  } else {
    launch(static_cast<const TwiddlePoint<float>*>(twiddles));
  }
}

}  // namespace torch_hrr::kernels
