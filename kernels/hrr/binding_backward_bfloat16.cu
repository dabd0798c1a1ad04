// Gradients of bind, unbind and bind_normalize of BFloat16 rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_backward_rows<BFloat16>(const BindingBackwardParams&, const TwiddlePoint<compute_t<BFloat16>>*,
                                             CudaStream);

}  // namespace torch_hrr::kernels
