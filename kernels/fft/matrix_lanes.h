// Transforms of real rows as matrices, W rows side by side with each in a lane, with the bits of matrix_transform.h.
//
// A spectrum is plan.columns * plan.bins vectors of real parts and as many of imaginary ones: A_{q + R p} is vector
// p bins + q. W is kLanes.
#pragma once

#include "kernels/fft/fft.h"
#include "kernels/fft/matrix_plan.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// spectra <- the bins of the rows
template <int W, typename T>
void matrix_lanes_forward(const MatrixPlan<T>& plan, const T* const* rows, Split<T> spectra, Split<T> work);

// rows <- scale[lane] times the sum over all D bins of A_k e^{2 pi i nk/D}; the spectra are overwritten. Returns a mask
// of the lanes with a result that is not finite.
template <int W, typename T>
uint32_t matrix_lanes_inverse(const MatrixPlan<T>& plan, Split<T> spectra, Split<T> work, const T* scale,
                              T* const* rows);

// rows <- the packed bins A_0, Re A_1, Im A_1, ... of spectra, whose Im A_0 is overwritten. Returns the sums of their
// squares, some of them twice.
template <int W, typename T>
Simd<T, W> matrix_lanes_to_packed(const MatrixPlan<T>& plan, Split<T> spectra, T* const* rows);

// The inverse; returns the same sums.
template <int W, typename T>
Simd<T, W> packed_to_matrix_lanes(const MatrixPlan<T>& plan, const T* const* rows, Split<T> spectra);

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
