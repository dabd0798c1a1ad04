// Launches of the HRR family on the current CUDA stream.
#include "csrc/hrr/execute.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <tuple>
#include <utility>
#include <vector>

#include "csrc/cache.h"
#include "csrc/rows.h"
#include "kernels/fft/chirp_plan.h"
#include "kernels/hrr/cuda_launch.h"
#include "kernels/registry.h"

namespace torch_hrr::hrr::cuda {
namespace {

// Of at most this many bytes a process are tables of one kind kept: every twiddle table, those of Bluestein's sum of
// all lengths, those of rows in shared memory of all lengths.
constexpr int64_t kMaxTableBytes = int64_t{1} << 30;

// The twiddle table of a device and compute type.
at::Tensor twiddles_for(const at::Tensor& out, kernels::Storage storage) {
  static auto& tables = *new DeviceTables<std::pair<c10::DeviceIndex, bool>>(kMaxTableBytes);
  const bool wide = storage == kernels::Storage::kDouble;
  return tables.get({out.device().index(), wide}, [&](const auto&) {
    std::vector<char> host(static_cast<size_t>(kernels::twiddle_table_bytes(storage)));
    kernels::fill_twiddle_table(storage, host.data());
    return at::from_blob(host.data(), {static_cast<int64_t>(host.size())}, at::kByte).to(out.device());
  });
}

// The tables of Bluestein's sum for a device and row length; about 0.3 GB for all lengths to kMaxDeviceChirpDim.
at::Tensor chirp_tables_for(const at::Tensor& out, int64_t dim) {
  static auto& tables = *new DeviceTables<std::pair<c10::DeviceIndex, int64_t>>(kMaxTableBytes);
  return tables.get({out.device().index(), dim}, [&](const auto&) {
    const int64_t length = int64_t{1} << kernels::device_chirp_log2(dim);
    const kernels::ChirpLease<double> lease({dim, false, length},
                                            kernels::kernel_table<kernels::ChirpKernels>().transform);
    std::vector<double> host(lease.plan().wave_re, lease.plan().wave_re + kernels::chirp_numbers(dim, length));
    return at::from_blob(host.data(), {static_cast<int64_t>(host.size())}, at::kDouble).to(out.device());
  });
}

// The table of a length for mixed_rows.cuh: some 10 bytes an element in float.
at::Tensor mixed_table_for(const at::Tensor& out, kernels::Storage storage, int64_t dim) {
  static auto& tables = *new DeviceTables<std::tuple<c10::DeviceIndex, bool, int64_t>>(kMaxTableBytes);
  const bool wide = storage == kernels::Storage::kDouble;
  return tables.get({out.device().index(), wide, dim}, [&](const auto&) {
    const int64_t bytes = kernels::mixed_table_bytes(storage, dim);
    // Aligned as the head of a table is.
    std::vector<kernels::MixedPlan> host(static_cast<size_t>(bytes) / sizeof(kernels::MixedPlan) + 1);
    kernels::fill_mixed_table(storage, dim, host.data());
    return at::from_blob(host.data(), {bytes}, at::kByte).to(out.device());
  });
}

// launcher(params with their tables, twiddles, stream) for rows in double that no transform of their own length reaches
template <typename Params>
void launch_chirp(void (*launcher)(const Params&, const void*, kernels::CudaStream), Params params, int64_t dim,
                  const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  const at::Tensor tables = chirp_tables_for(out, dim);
  params.tables =
      kernels::ChirpTables(tables.const_data_ptr<double>(), dim, int64_t{1} << kernels::device_chirp_log2(dim));
  launcher(params, twiddles_for(out, kernels::Storage::kDouble).const_data_ptr(),
           c10::cuda::getCurrentCUDAStream().stream());
}

template <typename Params>
void launch(void (*launcher)(kernels::Storage, const Params&, const void*, kernels::CudaStream), const Params& params,
            const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  const kernels::Storage storage = storage_of(out);
  launcher(storage, params, twiddles_for(out, storage).const_data_ptr(), c10::cuda::getCurrentCUDAStream().stream());
}

template <typename Params>
void launch_mixed(void (*launcher)(kernels::Storage, const Params&, const void*, kernels::CudaStream),
                  const Params& params, const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  const kernels::Storage storage = storage_of(out);
  launcher(storage, params, mixed_table_for(out, storage, params.dim).const_data_ptr(),
           c10::cuda::getCurrentCUDAStream().stream());
}

// By the kernels of powers of two or, as the plan says, of rows in shared memory.
template <typename Params, typename Launcher>
void launch_rows(Launcher* native, Launcher* mixed, const Params& params, const at::Tensor& out) {
  if (params.plan.path == kernels::RowPath::kMixed) {
    launch_mixed(mixed, params, out);
  } else {
    launch(native, params, out);
  }
}

}  // namespace

int64_t shared_bytes(c10::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  return kernels::device_shared_bytes();
}

bool has_devices() {
  return c10::cuda::device_count() > 0;
}

void execute(const kernels::BindParams& params, const at::Tensor& out) {
  launch_rows(kernels::launch_bind, kernels::launch_mixed_bind, params, out);
}

void execute(const kernels::BindBackwardParams& params, const at::Tensor& out) {
  launch_rows(kernels::launch_bind_backward, kernels::launch_mixed_bind_backward, params, out);
}

void execute(const kernels::BindSuperposeParams& params, const at::Tensor& out) {
  launch_rows(kernels::launch_bind_superpose, kernels::launch_mixed_bind_superpose, params, out);
}

void execute(const kernels::SpectralMapParams& params, const at::Tensor& out) {
  if (params.plan.path == kernels::RowPath::kDoubleChirp) {
    launch_chirp(kernels::launch_chirp_map, kernels::ChirpMapParams{params, {}}, params.dim, out);
  } else {
    launch_rows(kernels::launch_spectral_map, kernels::launch_mixed_map, params, out);
  }
}

void execute(const kernels::MultibindParams& params, const at::Tensor& out) {
  if (params.plan.path == kernels::RowPath::kDoubleChirp) {
    launch_chirp(kernels::launch_chirp_multibind, kernels::ChirpMultibindParams{params, {}}, params.dim, out);
  } else {
    launch_rows(kernels::launch_multibind, kernels::launch_mixed_multibind, params, out);
  }
}

void execute(const kernels::PackedSpectrumParams& params, const at::Tensor& out) {
  if (params.plan.path == kernels::RowPath::kDoubleChirp) {
    launch_chirp(kernels::launch_chirp_packed, kernels::ChirpPackedParams{params, {}}, params.dim, out);
  } else {
    launch_rows(kernels::launch_packed_spectrum, kernels::launch_mixed_packed, params, out);
  }
}

void execute(const kernels::SpectrumBindParams& params, const at::Tensor& out) {
  launch_rows(kernels::launch_bind_spectrum, kernels::launch_mixed_bind_spectrum, params, out);
}

void execute(const kernels::SuperpositionParams& params, const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  const kernels::Storage storage = storage_of(out);
  const at::Tensor workspace =
      at::empty({kernels::superposition_workspace_bytes(storage, params)}, out.options().dtype(at::kByte));
  kernels::launch_superposition(storage, params, workspace.numel() > 0 ? workspace.mutable_data_ptr() : nullptr,
                                c10::cuda::getCurrentCUDAStream().stream());
}

void execute(const kernels::LibraryBinsParams& params, const at::Tensor& bins) {
  const c10::cuda::CUDAGuard guard(bins.device());
  kernels::launch_map_library_bins(params, c10::cuda::getCurrentCUDAStream().stream());
}

}  // namespace torch_hrr::hrr::cuda
