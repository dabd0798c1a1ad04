// Launches inverse, unitary, bind_power, their derivatives and multibind.
#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/launch_spectra.cuh"

namespace torch_hrr::kernels {

void launch_spectral_map(Storage storage, const SpectralMapParams& params, const void* twiddles, CudaStream stream) {
  with_twiddles(storage, twiddles,
                [&](const auto* table) { launch_spectral_map(storage, params, table, DeviceLauncher{stream}); });
}

void launch_multibind(Storage storage, const MultibindParams& params, const void* twiddles, CudaStream stream) {
  with_twiddles(storage, twiddles,
                [&](const auto* table) { launch_multibind(storage, params, table, DeviceLauncher{stream}); });
}

}  // namespace torch_hrr::kernels
