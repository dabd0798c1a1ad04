// Launches packed spectra of rows, and products with rows that stay transformed.
#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/launch_spectra.cuh"

namespace torch_hrr::kernels {

void launch_packed_spectrum(Storage storage, const PackedSpectrumParams& params, const void* twiddles,
                            CudaStream stream) {
  with_twiddles(storage, twiddles,
                [&](const auto* table) { launch_packed_spectrum(storage, params, table, DeviceLauncher{stream}); });
}

void launch_bind_spectrum(Storage storage, const SpectrumBindParams& params, const void* twiddles, CudaStream stream) {
  with_twiddles(storage, twiddles,
                [&](const auto* table) { launch_bind_spectrum(storage, params, table, DeviceLauncher{stream}); });
}

}  // namespace torch_hrr::kernels
