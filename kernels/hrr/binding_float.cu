// bind, unbind and bind_normalize of float rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_binding_rows<float>(const BindingParams&, const TwiddlePoint<compute_t<float>>*, CudaStream);

}  // namespace torch_hrr::kernels
