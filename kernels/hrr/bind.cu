// Launches bind, unbind and bind_normalize.
#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/launch_product.cuh"

namespace torch_hrr::kernels {

void launch_bind(Storage storage, const BindParams& params, const void* twiddles, CudaStream stream) {
  with_twiddles(storage, twiddles, [&](const auto* table) {
    launch_product<false>("bind", storage, sum_of_one(params), params.product, table, DeviceLauncher{stream});
  });
}

}  // namespace torch_hrr::kernels
