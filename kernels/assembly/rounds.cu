// Rounds of brains on the current device.
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
    return workspace_bytes(Storage::kFloat, params);
  }
  void select_top(const WinnersParams& params, void* workspace) const {
    queue({.workspace = workspace, .stream = stream}, params);
  }
  void deliver(const DeliverLaunch& params) const {
    queue({.stream = stream}, params);
  }
};

}  // namespace

int64_t workspace_bytes(Storage, const RoundsLaunch& params) {
  const RoundsDevice device{{nullptr}};
  return RoundsLauncher(params, nullptr, device).bytes();
}

void queue(const CudaCall& call, const RoundsLaunch& params) {
  const RoundsDevice device{{call.stream}};
  RoundsLauncher(params, call.workspace, device).run();
}

}  // namespace torch_hrr::kernels
