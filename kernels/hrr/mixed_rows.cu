// Queues rows of any length that mixed_fft.cuh transforms.
#include "kernels/hrr/launch_mixed.cuh"
#include "kernels/hrr/queue_rows.cuh"

namespace torch_hrr::kernels {
namespace {

template <typename Params>
void queue_of(const CudaCall& call, const Params& params) {
  with_compute_type(call.storage, [&](auto zero) {
    launch_mixed<decltype(zero)>(call.storage, params, DeviceLauncher{call.stream});
  });
}

}  // namespace

int64_t device_shared_bytes() {
  return static_cast<int64_t>(device_limits("mixed_rows").shared_bytes);
}

void queue_mixed(const CudaCall& call, const BindParams& params) {
  queue_of(call, params);
}
void queue_mixed(const CudaCall& call, const BindBackwardParams& params) {
  queue_of(call, params);
}
void queue_mixed(const CudaCall& call, const BindSuperposeParams& params) {
  queue_of(call, params);
}
void queue_mixed(const CudaCall& call, const SpectralMapParams& params) {
  queue_of(call, params);
}
void queue_mixed(const CudaCall& call, const MultibindParams& params) {
  queue_of(call, params);
}
void queue_mixed(const CudaCall& call, const PackedSpectrumParams& params) {
  queue_of(call, params);
}
void queue_mixed(const CudaCall& call, const SpectrumBindParams& params) {
  queue_of(call, params);
}

}  // namespace torch_hrr::kernels
