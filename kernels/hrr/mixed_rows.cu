// Queues rows of any length that mixed_fft.cuh transforms.
#include "kernels/hrr/launch_mixed.cuh"
#include "kernels/hrr/queue_rows.cuh"

namespace torch_hrr::kernels {

int64_t device_shared_bytes() {
  return static_cast<int64_t>(device_limits("mixed_rows").shared_bytes);
}

template <typename Params>
void queue_mixed(const CudaCall& call, const Params& params) {
  with_compute_type(call.storage, [&](auto zero) {
    launch_mixed<decltype(zero)>(call.storage, params, DeviceLauncher{call.stream});
  });
}
template void queue_mixed(const CudaCall& call, const BindParams& params);
template void queue_mixed(const CudaCall& call, const BindBackwardParams& params);
template void queue_mixed(const CudaCall& call, const BindSuperposeParams& params);
template void queue_mixed(const CudaCall& call, const SpectralMapParams& params);
template void queue_mixed(const CudaCall& call, const MultibindParams& params);
template void queue_mixed(const CudaCall& call, const PackedSpectrumParams& params);
template void queue_mixed(const CudaCall& call, const SpectrumBindParams& params);

}  // namespace torch_hrr::kernels
