// Gradients of bind, unbind and bind_normalize of Half rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_backward_rows<Half>(const BindingBackwardParams&, const TwiddlePoint<compute_t<Half>>*,
                                         CudaStream);

}  // namespace torch_hrr::kernels
