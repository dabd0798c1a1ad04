// Runs a family's prepared parameters: on the GPU that holds their tensors, or over rows on torch's threads.
#pragma once

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <cstddef>
#include <span>

#include "csrc/rows.h"
#include "kernels/cuda/call.h"
#include "kernels/registry.h"

namespace torch_hrr {

// All rows on torch's threads.
template <typename Params>
void execute_rows_on_cpu(const Params& params, int64_t rows, const kernels::RowKernel<Params>& kernel) {
  for_row_ranges(rows, kernel.elements_per_row(params), kernel.scratch(params),
                 [&](int64_t begin, int64_t end, void* scratch) { kernel.run(params, begin, end, scratch); });
}

#if defined(TORCH_HRR_WITH_CUDA)
namespace cuda {
kernels::CudaStream current_stream(c10::Device device);
// A copy in the device's memory; the host's is free again on return.
at::Tensor on_device(std::span<const std::byte> bytes, c10::Device device);
}  // namespace cuda

// Queues params on the current stream of the device that holds `out`, which tells the storage; no synchronisation.
template <typename... Params>
void execute_on_cuda(const at::Tensor& out, const Params&... params) {
  const c10::DeviceGuard guard(out.device());
  kernels::CudaCall call{.storage = storage_of(out), .stream = cuda::current_stream(out.device())};
  at::Tensor workspace;
  if (const int64_t bytes = workspace_bytes(call.storage, params...); bytes > 0) {
    // The allocator keeps it until the stream has passed what is queued.
    workspace = at::empty({bytes}, out.options().dtype(at::kByte));
    call.workspace = workspace.mutable_data_ptr();
  }
  queue(call, params...);
}
#endif

// All rows of params on the device that holds `out`, which tells the storage.
template <typename Params>
void execute_rows(const Params& params, int64_t rows, [[maybe_unused]] const at::Tensor& out,
                  const kernels::RowKernel<Params>& kernel) {
#if defined(TORCH_HRR_WITH_CUDA)
  if (out.is_cuda()) {
    return execute_on_cuda(out, params);
  }
#endif
  execute_rows_on_cpu(params, rows, kernel);
}

}  // namespace torch_hrr
