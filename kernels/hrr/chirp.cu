// Launches Bluestein's sum.
#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/launch_chirp.cuh"

namespace torch_hrr::kernels {

void launch_chirp_map(const ChirpMapParams& params, const void* twiddles, CudaStream stream) {
  launch_chirp_map(params, static_cast<const TwiddlePoint<double>*>(twiddles), DeviceLauncher{stream});
}

void launch_chirp_multibind(const ChirpMultibindParams& params, const void* twiddles, CudaStream stream) {
  launch_chirp_multibind(params, static_cast<const TwiddlePoint<double>*>(twiddles), DeviceLauncher{stream});
}

void launch_chirp_packed(const ChirpPackedParams& params, const void* twiddles, CudaStream stream) {
  launch_chirp_packed(params, static_cast<const TwiddlePoint<double>*>(twiddles), DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
