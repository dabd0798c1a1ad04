// Launches the kernels of rows of any length that mixed_fft.cuh transforms.
#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/launch_mixed.cuh"

namespace torch_hrr::kernels {

int64_t device_shared_bytes() {
  return static_cast<int64_t>(device_limits("mixed_rows").shared_bytes);
}

void launch_mixed_bind(Storage storage, const BindParams& params, const void* table, CudaStream stream) {
  launch_mixed_product("bind", storage, sum_of_one(params), params.product, table, DeviceLauncher{stream});
}

void launch_mixed_bind_backward(Storage storage, const BindBackwardParams& params, const void* table,
                                CudaStream stream) {
  launch_mixed_backward(storage, params, table, DeviceLauncher{stream});
}

void launch_mixed_bind_superpose(Storage storage, const BindSuperposeParams& params, const void* table,
                                 CudaStream stream) {
  launch_mixed_product("bind_superpose", storage, params, Product::kConvolution, table, DeviceLauncher{stream});
}

void launch_mixed_map(Storage storage, const SpectralMapParams& params, const void* table, CudaStream stream) {
  launch_mixed_map(storage, params, table, DeviceLauncher{stream});
}

void launch_mixed_multibind(Storage storage, const MultibindParams& params, const void* table, CudaStream stream) {
  launch_mixed_multibind(storage, params, table, DeviceLauncher{stream});
}

void launch_mixed_packed(Storage storage, const PackedSpectrumParams& params, const void* table, CudaStream stream) {
  launch_mixed_packed(storage, params, table, DeviceLauncher{stream});
}

void launch_mixed_bind_spectrum(Storage storage, const SpectrumBindParams& params, const void* table,
                                CudaStream stream) {
  launch_mixed_bind_spectrum(storage, params, table, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
