// Transforms of a real row of 2 M numbers as M complex ones.
#pragma once

#include "kernels/fft/fft.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// spectrum <- the M points of a row. spectrum and work hold M complex numbers each.
template <typename T>
void half_forward(const FftPlan<T>& plan, const T* row, Split<T> spectrum, Split<T> work);

// row <- scale times the unscaled inverse transform; the spectrum is overwritten.
template <typename T>
void half_inverse(const FftPlan<T>& plan, Split<T> spectrum, Split<T> work, T scale, T* row);

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
