// Queues Bluestein's sum.
#include "kernels/hrr/launch_chirp.cuh"
#include "kernels/hrr/queue_rows.cuh"

namespace torch_hrr::kernels {

void queue_chirp(const CudaCall& call, const SpectralMapParams& params) {
  launch_chirp(params, DeviceLauncher{call.stream});
}
void queue_chirp(const CudaCall& call, const MultibindParams& params) {
  launch_chirp(params, DeviceLauncher{call.stream});
}
void queue_chirp(const CudaCall& call, const PackedSpectrumParams& params) {
  launch_chirp(params, DeviceLauncher{call.stream});
}

}  // namespace torch_hrr::kernels
