// Which kernel, block and shared memory Bluestein's sum takes; `launch_kernel` as in launch_transform.cuh.
#pragma once

#include "kernels/hrr/chirp.cuh"
#include "kernels/hrr/launch_transform.cuh"

namespace torch_hrr::kernels {

// launch_log2(integral_constant<log2 L>) for rows of `dim` elements.
template <int kFirst, int kLast, typename Launch>
void with_chirp_fft(Lengths<kFirst, kLast>, const char* name, int64_t dim, const Launch& launch_log2) {
  if (dim > 0 && device_chirp_log2(dim) == kFirst) {
    launch_log2(std::integral_constant<int, kFirst>{});
  } else if constexpr (kFirst < kLast) {
    with_chirp_fft(Lengths<kFirst + 1, kLast>{}, name, dim, launch_log2);
  } else {
    throw std::runtime_error(std::string(name) + ": dim must be from 1 to " + std::to_string(kMaxDeviceChirpDim) +
                             ", got " + std::to_string(dim));
  }
}

template <typename Lengths, typename Params, typename Kernel, typename LaunchKernel>
void launch_chirp(const char* name, const Params& params, int64_t rows, int64_t dim,
                  const TwiddlePoint<double>* twiddles, const Kernel& kernel, const LaunchKernel& launch_kernel,
                  int threads) {
  if (rows == 0) {
    return;
  }
  with_chirp_fft(Lengths{}, name, dim, [&](auto log2) {
    launch_transform<decltype(log2)::value>(name, rows, twiddles, kernel(log2), launch_kernel, threads, params);
  });
}

template <typename Lengths = AllLengths, typename LaunchKernel>
void launch_chirp_map(const ChirpMapParams& params, const TwiddlePoint<double>* twiddles,
                      const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return chirp_map_kernel<decltype(log2)::value>; };
  launch_chirp<Lengths>("chirp_map", params, params.map.rows, params.map.dim, twiddles, kernel, launch_kernel, threads);
}

template <typename Lengths = AllLengths, typename LaunchKernel>
void launch_chirp_multibind(const ChirpMultibindParams& params, const TwiddlePoint<double>* twiddles,
                            const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return chirp_multibind_kernel<decltype(log2)::value>; };
  launch_chirp<Lengths>("chirp_multibind", params, params.multibind.rows, params.multibind.dim, twiddles, kernel,
                        launch_kernel, threads);
}

template <typename Lengths = AllLengths, typename LaunchKernel>
void launch_chirp_packed(const ChirpPackedParams& params, const TwiddlePoint<double>* twiddles,
                         const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return chirp_packed_kernel<decltype(log2)::value>; };
  launch_chirp<Lengths>("chirp_packed", params, params.packed.rows, params.packed.dim, twiddles, kernel, launch_kernel,
                        threads);
}

}  // namespace torch_hrr::kernels
