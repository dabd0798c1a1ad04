// Chooses the device and, on the CPU, the kernel table and the threads.
#include "csrc/assembly/execute.h"

#include "csrc/execute.h"
#include "kernels/assembly/tables.h"

namespace torch_hrr::assembly {
namespace {

constexpr auto kLaunch = [](const auto& params, const at::Tensor& out) { cuda::execute(params, out); };

}  // namespace

void execute(const kernels::WinnersParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out, kLaunch)) {
    const kernels::AssemblyKernels& table = kernels::assembly_kernels();
    run_rows(params, params.n, table.winners_scratch(params), table.winners);
  }
}

void execute(const kernels::SoftCapParams& params, const at::Tensor& out) {
  if (!executed_on_cuda(params, out, kLaunch)) {
    const kernels::AssemblyKernels& table = kernels::assembly_kernels();
    // An element costs about as much as sixteen that are only read and written.
    run_rows(params, params.n * 16, table.soft_cap_scratch(params), table.soft_cap);
  }
}

}  // namespace torch_hrr::assembly
