// Runs prepared parameters on the device that holds their tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <limits>

#include "csrc/execute.h"
#include "kernels/hrr/chirp_rows.h"
#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/hrr/superposition.h"

namespace torch_hrr::hrr {

#if defined(TORCH_HRR_WITH_CUDA)
namespace cuda {
bool fits_mixed_rows(int64_t dim, int buffers, const at::Tensor& tensor, at::ScalarType dtype);
}
#endif

// Whether a kernel of the tensor's device transforms rows of dtype and this length in shared memory, of which it holds
// `buffers` at once. On the CPU, and on devices without kernels, none does.
inline bool fits_mixed_rows([[maybe_unused]] int64_t dim, [[maybe_unused]] int buffers,
                            [[maybe_unused]] const at::Tensor& tensor, [[maybe_unused]] at::ScalarType dtype) {
#if defined(TORCH_HRR_WITH_CUDA)
  if (tensor.is_cuda()) {
    return cuda::fits_mixed_rows(dim, buffers, tensor, dtype);
  }
#endif
  return false;
}

// What products of two rows, their gradients, and sums of products hold of rows at once.
constexpr int kProductBuffers = 2;
constexpr int kSumBuffers = 3;

// Whether rows of this length are beyond the kernels of the tensor's device.
inline bool needs_library_fft(int64_t dim, int buffers, const at::Tensor& tensor, at::ScalarType dtype) {
  const auto algorithm = tensor.is_cpu() ? kernels::cpu_algorithm_for(dim) : kernels::algorithm_for(dim);
  return algorithm == kernels::Algorithm::kLibrary && !fits_mixed_rows(dim, buffers, tensor, dtype);
}

// Whether transforms of the tensor's device give the bins of rows of dtype and this length in their own precision, or
// any kernel does.
inline bool has_native_spectrum(int64_t dim, const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.is_cpu() ? kernels::cpu_has_native_bins(dim)
                         : kernels::algorithm_for(dim) == kernels::Algorithm::kNative ||
                               fits_mixed_rows(dim, kProductBuffers, tensor, dtype);
}
inline bool has_kernel_spectrum(int64_t dim, const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.is_cpu() ? kernels::cpu_has_bins(dim)
                         : dim <= kernels::kMaxDeviceChirpDim || has_native_spectrum(dim, tensor, dtype);
}
// The type in which these kernels take and give rows of dtype: Bluestein's sum on a GPU is double's alone.
inline at::ScalarType spectrum_row_type(int64_t dim, const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.is_cpu() || has_native_spectrum(dim, tensor, dtype) ? dtype : at::kDouble;
}

// Epsilon of the type in which rows of dtype are computed.
inline double compute_epsilon(at::ScalarType dtype) {
  return dtype == at::kDouble ? std::numeric_limits<double>::epsilon()
                              : static_cast<double>(std::numeric_limits<float>::epsilon());
}

// The CUDA side, in builds that have it: queued on the current stream, no synchronisation.
namespace cuda {
void execute(const kernels::BindParams& params, const at::Tensor& out);
void execute(const kernels::BindBackwardParams& params, const at::Tensor& out);
void execute(const kernels::BindSuperposeParams& params, const at::Tensor& out);
void execute(const kernels::SuperpositionParams& params, const at::Tensor& out);
void execute(const kernels::LibraryBinsParams& params, const at::Tensor& bins);
void execute(const kernels::SpectralMapParams& params, const at::Tensor& out);
void execute(const kernels::MultibindParams& params, const at::Tensor& out);
void execute(const kernels::PackedSpectrumParams& params, const at::Tensor& out);
void execute(const kernels::SpectrumBindParams& params, const at::Tensor& out);
}  // namespace cuda

// `out` tells dtype and device; params.rows must not be 0. Spectra: rows of has_kernel_spectrum alone, in
// spectrum_row_type; of has_native_spectrum for products with spectra.
template <typename Params>
void execute(const Params& params, const at::Tensor& out) {
  execute_rows(params, out, kernels::kernel_table<kernels::RowKernel<Params>>(storage_of(out)),
               [](const auto& some, const at::Tensor& there) { cuda::execute(some, there); });
}
inline void execute(const kernels::LibraryBinsParams& params, const at::Tensor& bins) {
  execute_rows(params, bins, kernels::kernel_table<kernels::RowKernel<kernels::LibraryBinsParams>>(),
               [](const auto& some, const at::Tensor& there) { cuda::execute(some, there); });
}

// Runs params with results in row_type and brings them into out.
template <typename Params>
void execute_in(at::ScalarType row_type, Params& params, const at::Tensor& out) {
  const bool direct = row_type == out.scalar_type();
  const at::Tensor result = direct ? out : at::empty(out.sizes(), out.options().dtype(row_type));
  params.out = result.mutable_data_ptr();
  execute(params, result);
  if (!direct) {
    out.copy_(result);
  }
}

}  // namespace torch_hrr::hrr
