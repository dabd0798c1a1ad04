// Queues bind, unbind and bind_normalize.
#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/queue_rows.cuh"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const BindParams& params) {
  queue_planned(call, params, [&](auto zero) {
    launch_product<decltype(zero), false>("bind", call.storage, sum_of_one(params), params.product,
                                          DeviceLauncher{call.stream});
  });
}

}  // namespace torch_hrr::kernels
