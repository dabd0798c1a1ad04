// Launches the gradients of bind, unbind and bind_normalize.
#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/launch_product.cuh"

namespace torch_hrr::kernels {

void launch_bind_backward(Storage storage, const BindBackwardParams& params, const void* twiddles, CudaStream stream) {
  with_twiddles(storage, twiddles, [&](const auto* table) {
    launch_product_backward("bind_backward", storage, params, table, DeviceLauncher{stream});
  });
}

}  // namespace torch_hrr::kernels
