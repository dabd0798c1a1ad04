// Which kernel, block and shared memory a map of spectra, a packed spectrum or a product of many rows takes;
// `launch_kernel` as in launch_product.cuh.
#pragma once

#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/packed_spectrum.cuh"
#include "kernels/hrr/spectral_map.cuh"

namespace torch_hrr::kernels {

// launch_log2(integral_constant<log2 M>) for the rows whose bins half-length transforms give.
template <typename Lengths, typename Launch>
void with_device_spectrum(const char* name, int64_t dim, const Launch& launch_log2) {
  if (algorithm_for(dim) != Algorithm::kNative) {
    throw std::runtime_error(std::string(name) + ": dim must be a power of two from 32 to 8192, got " +
                             std::to_string(dim));
  }
  with_device_fft(Lengths{}, name, dim, launch_log2);
}

// The launchers of one family differ in their parameters and kernel alone: kernel(log2) is the one of a length.
template <typename S, typename Lengths, typename Params, typename Kernel, typename LaunchKernel>
void launch_spectra(const char* name, const Params& params, const TwiddlePoint<compute_t<S>>* twiddles,
                    const Kernel& kernel, const LaunchKernel& launch_kernel, int threads) {
  if (params.rows == 0) {
    return;
  }
  with_device_spectrum<Lengths>(name, params.dim, [&](auto log2) {
    constexpr int kLog2 = decltype(log2)::value;
    using Fft = RowFft<compute_t<S>, kLog2>;
    const int block = threads == 0 ? kBlockThreads<kLog2> : threads;
    launch_kernel(name, kernel(log2), grid_for(params.rows, block / Fft::kThreads), dim3(static_cast<unsigned>(block)),
                  Fft::shared_bytes(block), params, twiddles);
  });
}

template <typename S, typename Lengths = AllLengths, typename LaunchKernel>
void launch_spectral_map(const SpectralMapParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                         const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return spectral_map_kernel<S, decltype(log2)::value>; };
  launch_spectra<S, Lengths>("spectral_map", params, twiddles, kernel, launch_kernel, threads);
}

template <typename S, typename Lengths = AllLengths, typename LaunchKernel>
void launch_multibind(const MultibindParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                      const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return multibind_kernel<S, decltype(log2)::value>; };
  launch_spectra<S, Lengths>("multibind", params, twiddles, kernel, launch_kernel, threads);
}

template <typename S, typename Lengths = AllLengths, typename LaunchKernel>
void launch_packed_spectrum(const PackedSpectrumParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                            const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return packed_spectrum_kernel<S, decltype(log2)::value>; };
  launch_spectra<S, Lengths>("packed_spectrum", params, twiddles, kernel, launch_kernel, threads);
}

template <typename S, typename Lengths = AllLengths, typename LaunchKernel>
void launch_bind_spectrum(const SpectrumBindingParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                          const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return bind_spectrum_kernel<S, decltype(log2)::value>; };
  launch_spectra<S, Lengths>("bind_spectrum", params, twiddles, kernel, launch_kernel, threads);
}

}  // namespace torch_hrr::kernels
