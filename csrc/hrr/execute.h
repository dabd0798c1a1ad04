// Runs prepared parameters on the device that holds their tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <limits>

#include "csrc/execute.h"
#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/row_plan.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/hrr/superposition.h"

namespace torch_hrr::hrr {

#if defined(TORCH_HRR_WITH_CUDA)
namespace cuda {
// The shared memory that a block may have.
int64_t shared_bytes(c10::Device device);
bool has_devices();
// Gives a plan its tables, which must be held until its kernels are queued.
struct Tables {
  at::Tensor twiddles, table;
};
Tables bring_tables(kernels::RowPlan& plan, kernels::Storage storage, int64_t dim, c10::Device device);
}  // namespace cuda
#endif

// How the rows of params, of dtype, are transformed where the tensor lies.
template <typename Params>
kernels::RowPlan plan_rows(const Params& params, [[maybe_unused]] const at::Tensor& tensor, at::ScalarType dtype) {
  const kernels::RowFamily family = family_of(params);
  const kernels::Storage storage = storage_of(dtype);
#if defined(TORCH_HRR_WITH_CUDA)
  if (tensor.is_cuda()) {
    return kernels::cuda_row_plan(family, storage, params.dim, cuda::shared_bytes(tensor.device()));
  }
#endif
  return kernels::cpu_row_plan(family, storage, params.dim, items_of(params));
}

// The type in which kernels take and give rows of dtype: on a GPU, Bluestein's algorithm runs only in double.
inline at::ScalarType row_type_of(const kernels::RowPlan& plan, const at::Tensor& tensor, at::ScalarType dtype) {
  return plan.path == kernels::RowPath::kDoubleChirp && tensor.is_cuda() ? at::kDouble : dtype;
}

// Epsilon of the type in which rows of dtype are computed.
inline double compute_epsilon(at::ScalarType dtype) {
  return dtype == at::kDouble ? std::numeric_limits<double>::epsilon()
                              : static_cast<double>(std::numeric_limits<float>::epsilon());
}

// `out` tells dtype and device, row_type_of the plan; params.rows must not be 0, and the plan's path not kLibrary.
template <typename Params>
void execute(const Params& params, const at::Tensor& out) {
#if defined(TORCH_HRR_WITH_CUDA)
  if constexpr (requires { params.plan; }) {
    if (out.is_cuda()) {
      Params own = params;
      const cuda::Tables held = cuda::bring_tables(own.plan, storage_of(out), own.dim, out.device());
      return execute_on_cuda(out, own);
    }
  }
#endif
  execute_rows(params, params.rows, out, kernels::kernel_table<kernels::RowKernel<Params>>(storage_of(out)));
}
inline void execute(const kernels::LibraryBinsParams& params, const at::Tensor& bins) {
  execute_rows(params, params.rows, bins, kernels::kernel_table<kernels::RowKernel<kernels::LibraryBinsParams>>());
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
