// Launches bind_superpose.
#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/launch_product.cuh"

namespace torch_hrr::kernels {

void launch_bind_superpose(Storage storage, const BindSuperposeParams& params, const void* twiddles,
                           CudaStream stream) {
  with_twiddles(storage, twiddles, [&](const auto* table) {
    launch_product<true>("bind_superpose", storage, params, Product::kConvolution, table, DeviceLauncher{stream});
  });
}

}  // namespace torch_hrr::kernels
