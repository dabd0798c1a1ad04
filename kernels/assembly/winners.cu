// Queues k_winners of all element types.
#include "kernels/assembly/launch_winners.cuh"

namespace torch_hrr::kernels {

int64_t workspace_bytes(Storage, const WinnersParams& params) {
  if (params.rows == 0 || params.k == 0) {
    return 0;
  }
  const WinnersPlan plan = winners_plan(params.rows, params.n);
  return with_element(params.element,
                      [&](auto zero) { return WinnersWorkspace<decltype(zero)>::bytes(params.rows, plan); });
}

void queue(const CudaCall& call, const WinnersParams& params) {
  if (params.rows == 0 || params.k == 0) {
    return;
  }
  const WinnersPlan plan = winners_plan(params.rows, params.n);
  with_element(params.element, [&](auto zero) {
    launch_winners_rows<decltype(zero)>(params, plan, call.workspace, DeviceLauncher{call.stream}, kWinnersThreads,
                                        kMaxGridX, device_limits("k_winners").shared_bytes);
  });
}

void queue(const CudaCall& call, const WinnerKeysParams& params) {
  with_element(params.element, [&](auto zero) {
    launch_winner_keys_of<decltype(zero)>(params.values, params.count, params.keys, DeviceLauncher{call.stream});
  });
}

}  // namespace torch_hrr::kernels
