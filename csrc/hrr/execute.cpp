// Chooses the device and, on the CPU, the kernel table and the threads.
#include "csrc/hrr/execute.h"

#include <algorithm>

#include "csrc/execute.h"
#include "kernels/hrr/tables.h"

namespace torch_hrr::hrr {
namespace {

const kernels::HrrKernels& table_for(const at::Tensor& out) {
  return kernels::hrr_kernels(storage_of(out));
}

constexpr auto kLaunch = [](const auto& params, const at::Tensor& out) { cuda::execute(params, out); };

}  // namespace

void execute(const kernels::BindingParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out, kLaunch)) {
    const kernels::HrrKernels& table = table_for(out);
    run_rows(params, params.dim, table.bind_scratch(params.dim), table.bind);
  }
}

void execute(const kernels::BindingBackwardParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out, kLaunch)) {
    const kernels::HrrKernels& table = table_for(out);
    run_rows(params, 2 * params.dim, table.bind_backward_scratch(params.dim), table.bind_backward);
  }
}

void execute(const kernels::RecordParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out, kLaunch)) {
    const kernels::HrrKernels& table = table_for(out);
    run_rows(params, params.dim * std::max<int64_t>(1, params.items), table.record_scratch(params), table.record);
  }
}

void execute(const kernels::SuperpositionParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out, kLaunch)) {
    const kernels::HrrKernels& table = table_for(out);
    run_rows(params, params.dim * std::max<int64_t>(1, params.items), table.superpose_scratch(params.dim),
             table.superpose);
  }
}

void execute(const kernels::SpectralMapParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out, kLaunch)) {
    const kernels::HrrKernels& table = table_for(out);
    run_rows(params, params.dim, table.spectral_scratch(params.dim), table.spectral_map);
  }
}

void execute(const kernels::MultibindParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out, kLaunch)) {
    const kernels::HrrKernels& table = table_for(out);
    run_rows(params, params.dim * params.items, table.multibind_scratch(params.dim), table.multibind);
  }
}

void execute(const kernels::PackedSpectrumParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out, kLaunch)) {
    const kernels::HrrKernels& table = table_for(out);
    run_rows(params, params.dim, table.spectral_scratch(params.dim), table.packed_spectrum);
  }
}

void execute(const kernels::SpectrumBindingParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out, kLaunch)) {
    const kernels::HrrKernels& table = table_for(out);
    run_rows(params, params.dim, table.spectral_scratch(params.dim), table.bind_spectrum);
  }
}

void execute(const kernels::LibraryBinsParams& params, const at::Tensor& bins) {
  if (!executed_on_cuda(params, bins, kLaunch)) {
    run_rows(params, params.dim, 0, kernels::hrr_kernels(kernels::Storage::kDouble).map_library_bins);
  }
}

}  // namespace torch_hrr::hrr
