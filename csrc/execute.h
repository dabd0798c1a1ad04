// Runs a family's prepared parameters: on the GPU that holds their tensors, or over rows on torch's threads.
#pragma once

#include "csrc/rows.h"
#include "kernels/registry.h"

namespace torch_hrr {

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
  for_row_ranges(params.rows, kernel.elements_per_row(params), kernel.scratch(params),
                 [&](int64_t begin, int64_t end, void* scratch) { kernel.run(params, begin, end, scratch); });
}

}  // namespace torch_hrr
