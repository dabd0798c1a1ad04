// Rounds of brains on the current device.
#include "kernels/assembly/cuda_launch.h"
#include "kernels/assembly/launch_rounds.cuh"

namespace torch_hrr::kernels {
namespace {

struct RoundsDevice : DeviceLauncher {
  static bool takes_small() {
    return true;
  }
  static int64_t select_bytes(const WinnersParams& params) {
    return winners_workspace_bytes(params);
  }
  void select_top(const WinnersParams& params, void* workspace) const {
    launch_winners(params, workspace, stream);
  }
  void deliver(const DeliverLaunch& params) const {
    launch_deliver(params, stream);
  }
};

}  // namespace

int64_t rounds_workspace_bytes(const RoundsLaunch& params) {
  const RoundsDevice device{{nullptr}};
  return RoundsLauncher(params, nullptr, device).bytes();
}

void launch_rounds(const RoundsLaunch& params, void* workspace, CudaStream stream) {
  const RoundsDevice device{{stream}};
  RoundsLauncher(params, workspace, device).run();
}

}  // namespace torch_hrr::kernels
