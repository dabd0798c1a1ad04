// Codes of rows on a GPU.
#include "kernels/hrr/quantized_rows.cuh"

namespace torch_hrr::kernels {

void launch_quantize_rows(const QuantizeParams& params, CudaStream stream) {
  launch_quantize_rows_with(params, DeviceLauncher{stream});
}
void launch_code_bounds(const DeviceCleanupParams& params, CudaStream stream) {
  launch_code_bounds_with(params, DeviceLauncher{stream});
}
void launch_left_cosines(const DeviceCleanupParams& params, CudaStream stream) {
  launch_left_cosines_with(params, DeviceLauncher{stream});
}

}  // namespace torch_hrr::kernels
