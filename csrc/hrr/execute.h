// Runs prepared parameters on the device that holds their tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/hrr/superposition.h"

namespace torch_hrr::hrr {

// Whether rows of this length are beyond the native transforms of the tensor's device.
inline bool needs_library_fft(int64_t dim, const at::Tensor& tensor) {
  const auto algorithm = tensor.is_cpu() ? kernels::cpu_algorithm_for(dim) : kernels::algorithm_for(dim);
  return algorithm == kernels::Algorithm::kLibrary;
}

inline bool has_native_spectrum(int64_t dim, const at::Tensor& tensor) {
  return tensor.is_cpu() && kernels::cpu_algorithm_for(dim) == kernels::Algorithm::kNative;
}

// `out` tells dtype and device; params.rows must not be 0.
void execute(const kernels::BindingParams& params, const at::Tensor& out);
void execute(const kernels::BindingBackwardParams& params, const at::Tensor& out);
void execute(const kernels::RecordParams& params, const at::Tensor& out);
void execute(const kernels::SuperpositionParams& params, const at::Tensor& out);

void execute(const kernels::LibraryBinsParams& params, const at::Tensor& bins);
// CPU rows of native length alone.
void execute(const kernels::SpectralMapParams& params, const at::Tensor& out);
void execute(const kernels::MultibindParams& params, const at::Tensor& out);
void execute(const kernels::PackedSpectrumParams& params, const at::Tensor& out);
void execute(const kernels::SpectrumBindingParams& params, const at::Tensor& out);

// The CUDA side, in builds that have it: queued on the current stream, no synchronisation.
namespace cuda {
void execute(const kernels::BindingParams& params, const at::Tensor& out);
void execute(const kernels::BindingBackwardParams& params, const at::Tensor& out);
void execute(const kernels::RecordParams& params, const at::Tensor& out);
void execute(const kernels::SuperpositionParams& params, const at::Tensor& out);
void execute(const kernels::LibraryBinsParams& params, const at::Tensor& bins);
} // namespace cuda

} // namespace torch_hrr::hrr
