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

}  // namespace torch_hrr::kernels
