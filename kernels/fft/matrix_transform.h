// Transforms of real rows as matrices with an odd number of rows: the formulas stand in matrix_plan.h.
#pragma once

#include "kernels/fft/fft.h"
#include "kernels/fft/matrix_plan.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// spectrum <- the bins of a row of plan.dim numbers. spectrum and work hold plan.size complex numbers each.
template <typename T>
void matrix_forward(const MatrixPlan<T>& plan, const T* row, Split<T> spectrum, Split<T> work);

// row <- scale times the sum over all D bins of A_k e^{2 pi i nk/D}; the spectrum is overwritten.
template <typename T>
void matrix_inverse(const MatrixPlan<T>& plan, Split<T> spectrum, Split<T> work, T scale, T* row);

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
