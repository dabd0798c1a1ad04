// Tables of transforms on GPUs.
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAFunctions.h>

#include <cstddef>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "csrc/cache.h"
#include "csrc/hrr/execute.h"
#include "kernels/fft/chirp_plan.h"
#include "kernels/fft/mixed_plan.h"
#include "kernels/fft/twiddles.h"

namespace torch_hrr::hrr::cuda {
namespace {

// Of at most this many bytes a process are tables of one kind kept: every twiddle table, those of Bluestein's sum of
// all lengths, those of rows in shared memory of all lengths.
constexpr int64_t kMaxTableBytes = int64_t{1} << 30;

template <typename T>
std::vector<char> twiddle_bytes() {
  std::vector<char> bytes(kernels::kTwiddleTablePoints * sizeof(kernels::TwiddlePoint<T>));
  kernels::fill_twiddle_table(reinterpret_cast<kernels::TwiddlePoint<T>*>(bytes.data()));
  return bytes;
}

template <typename T>
std::vector<char> mixed_bytes(int64_t dim) {
  static_assert(alignof(kernels::MixedPlan) <= alignof(std::max_align_t));
  const kernels::MixedPlan plan = kernels::mixed_plan(dim);
  std::vector<char> bytes(kernels::mixed_table_bytes<T>(plan));
  kernels::fill_mixed_table<T>(plan, bytes.data());
  return bytes;
}

// The twiddles of a device and compute type.
at::Tensor twiddles(kernels::Storage storage, c10::Device device) {
  static auto& tables = *new DeviceTables<std::pair<c10::DeviceIndex, bool>>(kMaxTableBytes);
  const bool wide = storage == kernels::Storage::kDouble;
  return tables.get({device.index(), wide}, [&](const auto&) {
    const std::vector<char> bytes = wide ? twiddle_bytes<double>() : twiddle_bytes<float>();
    return torch_hrr::cuda::on_device(std::as_bytes(std::span(bytes)), device);
  });
}

// The table of Bluestein's sum for a device and row length; about 0.3 GB for all lengths to kMaxDeviceChirpDim.
at::Tensor chirp_table(int64_t dim, int64_t length, c10::Device device) {
  static auto& tables = *new DeviceTables<std::pair<c10::DeviceIndex, int64_t>>(kMaxTableBytes);
  return tables.get({device.index(), dim}, [&](const auto&) {
    const kernels::ChirpLease<double> lease({dim, false, length},
                                            kernels::kernel_table<kernels::ChirpKernels>().transform);
    const std::span numbers(lease.plan().wave_re, static_cast<size_t>(kernels::chirp_numbers(dim, length)));
    return torch_hrr::cuda::on_device(std::as_bytes(numbers), device);
  });
}

// The table of a length for mixed_row.cuh: some 10 bytes an element in float.
at::Tensor mixed_table(kernels::Storage storage, int64_t dim, c10::Device device) {
  static auto& tables = *new DeviceTables<std::tuple<c10::DeviceIndex, bool, int64_t>>(kMaxTableBytes);
  const bool wide = storage == kernels::Storage::kDouble;
  return tables.get({device.index(), wide, dim}, [&](const auto&) {
    const std::vector<char> bytes = wide ? mixed_bytes<double>(dim) : mixed_bytes<float>(dim);
    return torch_hrr::cuda::on_device(std::as_bytes(std::span(bytes)), device);
  });
}

}  // namespace

Tables bring_tables(kernels::RowPlan& plan, kernels::Storage storage, int64_t dim, c10::Device device) {
  Tables held;
  if (plan.path == kernels::RowPath::kMixed) {
    held.table = mixed_table(storage, dim, device);
  } else {
    held.twiddles = twiddles(storage, device);
    plan.twiddles = held.twiddles.const_data_ptr();
  }
  if (plan.path == kernels::RowPath::kDoubleChirp) {
    held.table = chirp_table(dim, plan.length, device);
  }
  plan.table = held.table.defined() ? held.table.const_data_ptr() : nullptr;
  return held;
}

int64_t shared_bytes(c10::Device device) {
  const c10::DeviceGuard guard(device);
  return kernels::device_shared_bytes();
}

bool has_devices() {
  return c10::cuda::device_count() > 0;
}

}  // namespace torch_hrr::hrr::cuda
