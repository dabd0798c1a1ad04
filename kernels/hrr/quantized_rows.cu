// Queues codes of rows and the search over them.
#include "kernels/hrr/quantized_rows.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const QuantizeParams& params) {
  launch_quantize_rows_with(params, DeviceLauncher{call.stream});
}
void queue(const CudaCall& call, const DeviceCleanupParams& params) {
  const DeviceLauncher launcher{call.stream};
  params.thresholds == nullptr ? launch_code_bounds_with(params, launcher) : launch_left_cosines_with(params, launcher);
}

}  // namespace torch_hrr::kernels
