// Rounds of brains on the current device.
#include "kernels/assembly/cuda_launch.h"
#include "kernels/assembly/launch_rounds.cuh"

namespace torch_hrr::kernels {
namespace {

struct RoundsDevice : DeviceLauncher {
  // Parameters beyond 4 KiB need a driver of CUDA 12.1.
  static bool takes_small() {
    static const bool takes = [] {
      int version = 0;
      return cudaDriverGetVersion(&version) == cudaSuccess && version >= 12010;
    }();
    return takes;
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
