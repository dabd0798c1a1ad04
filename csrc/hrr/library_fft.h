// Rows beyond the kernels, on the library FFT.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/spectral_map.h"

namespace torch_hrr::hrr {

// out[r] = sum_k w[r,k] (a[r,k] (*) b[r,k]), normalised where asked. a and b are [rows, K, D] and weights [rows, K] or
// undefined, in any strides, in the dtype of out [rows, D]. On the CPU rows are transformed one at a time on one thread
// each, since the library's batched transforms are not batch-invariant at every D.
void library_bind_superpose(const at::Tensor& a, const at::Tensor& b, const at::Tensor& weights,
                            kernels::Product product, bool normalize, double eps, const at::Tensor& out);

// out[r] = the row whose bins are map(A, V), by transforms in double, with rows as above. a and v (or undefined) are
// [rows, D]. params holds what the map needs and, if exponents differ, one for every row.
void library_spectral_map(const at::Tensor& a, const at::Tensor& v, kernels::LibraryBinsParams params,
                          const at::Tensor& out);

// vectors[..., 0, :] bind vectors[..., 1, :] bind ... of at least one, in double, whatever their range.
at::Tensor library_multibind(const at::Tensor& vectors);

// out[r] = the packed spectrum (packed_spectrum.h) of x[r] or, where `inverse` is set, the row whose packed spectrum
// x[r] is, by the same transforms. x is [rows, D] in any strides.
void library_packed_spectrum(const at::Tensor& x, bool inverse, const at::Tensor& out);

}  // namespace torch_hrr::hrr
