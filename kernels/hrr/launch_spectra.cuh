// Which kernel a map of spectra, a packed spectrum or a product of many rows takes; `launch_kernel` as in
// launch_transform.cuh.
#pragma once

#include "kernels/hrr/launch_transform.cuh"
#include "kernels/hrr/packed_spectrum.cuh"
#include "kernels/hrr/spectral_map.cuh"

namespace torch_hrr::kernels {

// The launchers of one family differ in their parameters and kernel alone: kernel(log2) is the one of a length.
template <typename Lengths, typename T, typename Params, typename Kernel, typename LaunchKernel>
void launch_spectra(const char* name, Storage storage, const Params& params, const TwiddlePoint<T>* twiddles,
                    const Kernel& kernel, const LaunchKernel& launch_kernel, int threads) {
  if (params.rows == 0) {
    return;
  }
  with_device_spectrum(Lengths{}, name, params.plan, params.dim, [&](auto log2) {
    launch_transform<decltype(log2)::value>(name, params.rows, twiddles, kernel(log2), launch_kernel, threads, params,
                                            storage);
  });
}

template <typename Lengths = AllLengths, typename T, typename LaunchKernel>
void launch_spectral_map(Storage storage, const SpectralMapParams& params, const TwiddlePoint<T>* twiddles,
                         const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return spectral_map_kernel<T, decltype(log2)::value>; };
  launch_spectra<Lengths>("spectral_map", storage, params, twiddles, kernel, launch_kernel, threads);
}

template <typename Lengths = AllLengths, typename T, typename LaunchKernel>
void launch_multibind(Storage storage, const MultibindParams& params, const TwiddlePoint<T>* twiddles,
                      const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return multibind_kernel<T, decltype(log2)::value>; };
  launch_spectra<Lengths>("multibind", storage, params, twiddles, kernel, launch_kernel, threads);
}

template <typename Lengths = AllLengths, typename T, typename LaunchKernel>
void launch_packed_spectrum(Storage storage, const PackedSpectrumParams& params, const TwiddlePoint<T>* twiddles,
                            const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return packed_spectrum_kernel<T, decltype(log2)::value>; };
  launch_spectra<Lengths>("packed_spectrum", storage, params, twiddles, kernel, launch_kernel, threads);
}

template <typename Lengths = AllLengths, typename T, typename LaunchKernel>
void launch_bind_spectrum(Storage storage, const SpectrumBindParams& params, const TwiddlePoint<T>* twiddles,
                          const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return bind_spectrum_kernel<T, decltype(log2)::value>; };
  launch_spectra<Lengths>("bind_spectrum", storage, params, twiddles, kernel, launch_kernel, threads);
}

}  // namespace torch_hrr::kernels
