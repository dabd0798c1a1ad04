// Which kernel a map of spectra, a packed spectrum or a product of many rows takes; `launch_kernel` as in
// launch_transform.cuh.
#pragma once

#include "kernels/hrr/launch_transform.cuh"
#include "kernels/hrr/packed_spectrum.cuh"
#include "kernels/hrr/spectral_map.cuh"

namespace torch_hrr::kernels {

template <typename T, typename Lengths = AllLengths, typename LaunchKernel>
void launch_spectra(Storage storage, const SpectralMapParams& params, const LaunchKernel& launch_kernel,
                    int threads = 0) {
  const auto kernel = [](auto log2) { return spectral_map_kernel<T, decltype(log2)::value>; };
  launch_transform<T, Lengths>("spectral_map", half_points(params.plan), params, kernel, launch_kernel, threads, params,
                               storage);
}

template <typename T, typename Lengths = AllLengths, typename LaunchKernel>
void launch_spectra(Storage storage, const MultibindParams& params, const LaunchKernel& launch_kernel,
                    int threads = 0) {
  const auto kernel = [](auto log2) { return multibind_kernel<T, decltype(log2)::value>; };
  launch_transform<T, Lengths>("multibind", half_points(params.plan), params, kernel, launch_kernel, threads, params,
                               storage);
}

template <typename T, typename Lengths = AllLengths, typename LaunchKernel>
void launch_spectra(Storage storage, const PackedSpectrumParams& params, const LaunchKernel& launch_kernel,
                    int threads = 0) {
  const auto kernel = [](auto log2) { return packed_spectrum_kernel<T, decltype(log2)::value>; };
  launch_transform<T, Lengths>("packed_spectrum", half_points(params.plan), params, kernel, launch_kernel, threads,
                               params, storage);
}

template <typename T, typename Lengths = AllLengths, typename LaunchKernel>
void launch_spectra(Storage storage, const SpectrumBindParams& params, const LaunchKernel& launch_kernel,
                    int threads = 0) {
  const auto kernel = [](auto log2) { return bind_spectrum_kernel<T, decltype(log2)::value>; };
  launch_transform<T, Lengths>("bind_spectrum", half_points(params.plan), params, kernel, launch_kernel, threads,
                               params, storage);
}

}  // namespace torch_hrr::kernels
