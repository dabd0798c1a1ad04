// Queues bind_superpose.
#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/queue_rows.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const BindSuperposeParams& params) {
  queue_planned(call, params, [&](auto zero) {
    launch_product<decltype(zero), true>("bind_superpose", call.storage, params, Product::kConvolution,
                                         DeviceLauncher{call.stream});
  });
}

}  // namespace torch_hrr::kernels
