// Runs a family's prepared parameters: on the GPU that holds their tensors, or over rows on torch's threads.
#pragma once

#include "csrc/rows.h"

namespace torch_hrr {

// Calls launch(params, out) where `out` is on a GPU, in builds that have CUDA, and tells whether it did. `launch` is a
// generic lambda: without CUDA there is nothing that its body could be linked with, so it must not be instantiated.
template <typename Params, typename Launch>
bool executed_on_cuda([[maybe_unused]] const Params& params, [[maybe_unused]] const at::Tensor& out,
                      [[maybe_unused]] const Launch& launch) {
#if defined(TORCH_HRR_WITH_CUDA)
  if (out.is_cuda()) {
    launch(params, out);
    return true;
  }
#endif
  return false;
}

// entry(params, begin, end, scratch) over all rows; elements_per_row weighs how many rows make a thread's chunk
template <typename Params>
void run_rows(const Params& params, int64_t elements_per_row, int64_t scratch_bytes,
              void (*entry)(const Params&, int64_t, int64_t, void*)) {
  for_row_ranges(params.rows, elements_per_row, scratch_bytes,
                 [&](int64_t begin, int64_t end, void* scratch) { entry(params, begin, end, scratch); });
}

}  // namespace torch_hrr
