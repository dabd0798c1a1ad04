// bind, unbind and bind_normalize of BFloat16 rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_binding_rows<BFloat16>(const BindingParams&, const TwiddlePoint<compute_t<BFloat16>>*, CudaStream);

}  // namespace torch_hrr::kernels
