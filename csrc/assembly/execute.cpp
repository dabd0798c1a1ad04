// Chooses the device and, on the CPU, the kernel table and the threads.
#include "csrc/assembly/execute.h"

#include "csrc/rows.h"
#include "kernels/assembly/tables.h"

namespace torch_hrr::assembly {
namespace {

template <typename Params>
bool executed_on_cuda([[maybe_unused]] const Params& params, [[maybe_unused]] const at::Tensor& out) {
#if defined(TORCH_HRR_WITH_CUDA)
  if (out.is_cuda()) {
    cuda::execute(params, out);
    return true;
  }
#endif
  return false;
}

}  // namespace

void execute(const kernels::WinnersParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out)) {
    const kernels::AssemblyKernels& table = kernels::assembly_kernels();
    for_row_ranges(params.rows, params.n, table.winners_scratch(params),
                   [&](int64_t begin, int64_t end, void* scratch) { table.winners(params, begin, end, scratch); });
  }
}

}  // namespace torch_hrr::assembly
