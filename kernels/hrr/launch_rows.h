// One launcher a storage type, each instantiated in its own .cu file: what cuda_launch.cu chooses from.
#pragma once

#include "kernels/hrr/cuda_launch.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

template <typename S>
void launch_binding_rows(const BindingParams& params, const TwiddlePoint<compute_t<S>>* twiddles, CudaStream stream);
template <typename S>
void launch_record_rows(const RecordParams& params, const TwiddlePoint<compute_t<S>>* twiddles, CudaStream stream);
template <typename S>
void launch_backward_rows(const BindingBackwardParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                          CudaStream stream);
template <typename S>
void launch_spectral_map_rows(const SpectralMapParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                              CudaStream stream);
template <typename S>
void launch_multibind_rows(const MultibindParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                           CudaStream stream);
template <typename S>
void launch_packed_spectrum_rows(const PackedSpectrumParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                                 CudaStream stream);
template <typename S>
void launch_bind_spectrum_rows(const SpectrumBindingParams& params, const TwiddlePoint<compute_t<S>>* twiddles,
                               CudaStream stream);

}  // namespace torch_hrr::kernels
