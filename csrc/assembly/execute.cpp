// Chooses the device and, on the CPU, the kernel and the threads.
#include "csrc/assembly/execute.h"

#include "csrc/execute.h"

namespace torch_hrr::assembly {
namespace {

constexpr auto kLaunch = [](const auto& params, const at::Tensor& out) { cuda::execute(params, out); };

}  // namespace

void execute(const kernels::WinnersParams& params, const at::Tensor& out) {
  execute_rows(params, out, kernels::kernel_table<kernels::RowKernel<kernels::WinnersParams>>(), kLaunch);
}

void execute(const kernels::SoftCapParams& params, const at::Tensor& out) {
  execute_rows(params, out, kernels::kernel_table<kernels::RowKernel<kernels::SoftCapParams>>(), kLaunch);
}

}  // namespace torch_hrr::assembly
