// Queues inverse, unitary, bind_power, their derivatives and multibind.
#include "kernels/hrr/launch_spectra.cuh"
#include "kernels/hrr/queue_rows.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const SpectralMapParams& params) {
  queue_planned(call, params,
                [&](auto zero) { launch_spectra<decltype(zero)>(call.storage, params, DeviceLauncher{call.stream}); });
}

void queue(const CudaCall& call, const MultibindParams& params) {
  queue_planned(call, params,
                [&](auto zero) { launch_spectra<decltype(zero)>(call.storage, params, DeviceLauncher{call.stream}); });
}

}  // namespace torch_hrr::kernels
