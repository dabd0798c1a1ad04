// Runs a family's prepared parameters: on the GPU that holds their tensors, or over rows on torch's threads.
#pragma once

#include "csrc/rows.h"
#include "kernels/registry.h"

namespace torch_hrr {

// All rows on torch's threads.
template <typename Params>
void execute_rows_on_cpu(const Params& params, int64_t rows, const kernels::RowKernel<Params>& kernel) {
  for_row_ranges(rows, kernel.elements_per_row(params), kernel.scratch(params),
                 [&](int64_t begin, int64_t end, void* scratch) { kernel.run(params, begin, end, scratch); });
}

// All rows of params on the device that holds `out`: launch(params, out) on a GPU, else `kernel`. `launch` is a
// generic lambda: without CUDA there is nothing that its body could be linked with, so it must not be instantiated.
template <typename Params, typename Launch>
void execute_rows(const Params& params, [[maybe_unused]] const at::Tensor& out,
                  const kernels::RowKernel<Params>& kernel, [[maybe_unused]] const Launch& launch) {
#if defined(TORCH_HRR_WITH_CUDA)
  if (out.is_cuda()) {
    return launch(params, out);
  }
#endif
  execute_rows_on_cpu(params, params.rows, kernel);
}

}  // namespace torch_hrr
