// Definitions of the launchers of launch_rows.h, for the .cu files that instantiate them.
#pragma once

#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/launch_rows.h"
#include "kernels/hrr/launch_spectra.cuh"

namespace torch_hrr::kernels {

template <typename S>
void launch_binding_rows(const BindingParams& params, const TwiddlePoint<compute_t<S>>* twiddles, CudaStream stream) {
  launch_product<S, false>("bind", record_of_one(params), params.product, twiddles, DeviceLauncher{stream});
}

template <typename S>
void launch_record_rows(const RecordParams& params, const TwiddlePoint<compute_t<S>>* twiddles, CudaStream stream) {
  launch_product<S, true>("bind_superpose", params, Product::kConvolution, twiddles, DeviceLauncher{stream});
}

template <typename S>
void launch_backward_rows(const BindingBackwardParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                          CudaStream stream) {
  launch_product_backward<S>("bind_backward", params, twiddles, DeviceLauncher{stream});
}

template <typename S>
void launch_spectral_map_rows(const SpectralMapParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                              CudaStream stream) {
  launch_spectral_map<S>(params, twiddles, DeviceLauncher{stream});
}

template <typename S>
void launch_multibind_rows(const MultibindParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                           CudaStream stream) {
  launch_multibind<S>(params, twiddles, DeviceLauncher{stream});
}

template <typename S>
void launch_packed_spectrum_rows(const PackedSpectrumParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                                 CudaStream stream) {
  launch_packed_spectrum<S>(params, twiddles, DeviceLauncher{stream});
}

template <typename S>
void launch_bind_spectrum_rows(const SpectrumBindingParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                               CudaStream stream) {
  launch_bind_spectrum<S>(params, twiddles, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
