// torch_hrr_on_host::project_: what project_ does on a GPU, by the same kernels in the same order, on CPU tensors.
// Small areas go the short way or, where `small` is false, launch by launch.
//
// Tests of brains load this library and run their programs through it.

#include <torch/library.h>

#include "tests/cuda_on_host/shim.h"

#include <vector>

#include "csrc/assembly/state.h"
#include "tests/cuda_on_host/rounds_host.h"

namespace torch_hrr::cuda_on_host {
namespace {

void project(at::TensorList tensors, at::IntArrayRef layout, c10::ArrayRef<double> rates, int64_t seed, bool small) {
  const assembly::State state = assembly::read_state("project_", tensors, layout, rates, seed);
  std::vector<kernels::DeviceGapTables> gaps;
  for (const auto& tables : state.tables) {
    gaps.push_back(tables != nullptr ? kernels::DeviceGapTables(*tables, tables.get()) : kernels::DeviceGapTables());
  }
  kernels::assembly_testing::RoundsHost host{{Schedule{Schedule::Order::kShuffled, 1}}};
  host.small = small;
  using Unit = kernels::assembly_testing::WorkspaceUnit;
  const kernels::RoundsLaunch params = state.launch(gaps);
  std::vector<Unit> workspace =
      poisoned<Unit>(static_cast<size_t>(kernels::RoundsLauncher(params, nullptr, host).bytes()) / sizeof(Unit) + 1);
  kernels::RoundsLauncher(params, workspace.data(), host).run();
}

}  // namespace
}  // namespace torch_hrr::cuda_on_host

TORCH_LIBRARY(torch_hrr_on_host, m) {
  m.def("project_(Tensor(a!)[] state, int[] layout, float[] rates, int seed, bool small) -> ()");
}
TORCH_LIBRARY_IMPL(torch_hrr_on_host, CPU, m) {
  m.impl("project_", torch_hrr::cuda_on_host::project);
}
