// k_winners of all element types.
#include "kernels/assembly/launch_winners.cuh"

#include "kernels/assembly/cuda_launch.h"

namespace torch_hrr::kernels {
int64_t winners_workspace_bytes(const WinnersParams& params) {
  if (params.rows == 0 || params.k == 0) {
    return 0;
  }
  const WinnersPlan plan = winners_plan(params.rows, params.n);
  return with_element(params.element,
                      [&](auto zero) { return WinnersWorkspace<decltype(zero)>::bytes(params.rows, plan); });
}

void launch_winners(const WinnersParams& params, void* workspace, CudaStream stream) {
  if (params.rows == 0 || params.k == 0) {
    return;
  }
  const WinnersPlan plan = winners_plan(params.rows, params.n);
  with_element(params.element, [&](auto zero) {
    launch_winners_rows<decltype(zero)>(params, plan, workspace, DeviceLauncher{stream}, kWinnersThreads, kMaxGridX,
                                        device_limits("k_winners").shared_bytes);
  });
}

void launch_winner_keys(Element element, const void* values, int64_t count, int64_t* keys, CudaStream stream) {
  with_element(element,
               [&](auto zero) { launch_winner_keys_of<decltype(zero)>(values, count, keys, DeviceLauncher{stream}); });
}

}  // namespace torch_hrr::kernels
