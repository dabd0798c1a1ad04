// bind, unbind and bind_normalize of double rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_binding_rows<double>(const BindingParams&, const TwiddlePoint<compute_t<double>>*, CudaStream);

}  // namespace torch_hrr::kernels
