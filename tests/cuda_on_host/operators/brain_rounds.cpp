// torch_hrr_on_host::project_: what _project_ does on a GPU, by the same kernels in the same order, on CPU tensors.
//
// Tests of brains load this library and run their programs through it.

#include <torch/library.h>

#include "tests/cuda_on_host/shim.h"

#include <vector>

#include "csrc/assembly/state.h"
#include "kernels/assembly/connectome.cuh"
#include "kernels/assembly/launch_rounds.cuh"
#include "kernels/assembly/launch_winners.cuh"

namespace torch_hrr::cuda_on_host {
namespace {

struct RoundsHost : HostLauncher {
  // A thread is a fiber here, and barriers of a thousand of them slow.
  static constexpr int kThreads = 64;

  static int64_t select_bytes(const kernels::WinnersParams& params) {
    return kernels::WinnersWorkspace<int64_t>::bytes(params.rows, kernels::winners_plan(params.rows, params.n));
  }
  void select(const kernels::WinnersParams& params, void* workspace) const {
    kernels::launch_winners_rows<int64_t>(params, kernels::winners_plan(params.rows, params.n), workspace,
                                          static_cast<const HostLauncher&>(*this), kThreads);
  }
  void deliver(const kernels::DeliverLaunch& params) const {
    kernels::launch_deliver_with(params, static_cast<const HostLauncher&>(*this));
  }
};

void project(at::TensorList tensors, const c10::List<int64_t>& layout, c10::ArrayRef<double> rates, int64_t seed) {
  const assembly::State state = assembly::read_state(tensors, layout, rates, seed);
  std::vector<kernels::DeviceGapTables> gaps;
  for (const auto& tables : state.tables) {
    gaps.push_back(tables != nullptr ? kernels::DeviceGapTables(*tables, tables.get()) : kernels::DeviceGapTables());
  }
  const RoundsHost host{{Schedule{Schedule::Order::kShuffled, 1}}};
  const kernels::RoundsLaunch params = state.launch(gaps);
  // Elements of 16 bytes: as aligned as a GPU's workspace.
  struct alignas(16) Unit {
    unsigned char bytes[16];
  };
  std::vector<Unit> workspace =
      poisoned<Unit>(static_cast<size_t>(kernels::RoundsLauncher(params, nullptr, host).bytes() / 16 + 1));
  kernels::RoundsLauncher(params, workspace.data(), host).run();
}

}  // namespace
}  // namespace torch_hrr::cuda_on_host

TORCH_LIBRARY(torch_hrr_on_host, m) {
  m.def("project_(Tensor(a!)[] state, int[] layout, float[] rates, int seed) -> ()");
}
TORCH_LIBRARY_IMPL(torch_hrr_on_host, CPU, m) {
  m.impl("project_", torch_hrr::cuda_on_host::project);
}
