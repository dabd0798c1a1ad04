// Queues the gradients of bind, unbind and bind_normalize.
#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/queue_rows.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const BindBackwardParams& params) {
  queue_planned(call, params, [&](auto zero) {
    launch_product_backward<decltype(zero)>(call.storage, params, DeviceLauncher{call.stream});
  });
}

}  // namespace torch_hrr::kernels
