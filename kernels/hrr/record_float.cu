// bind_superpose of float rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_record_rows<float>(const RecordParams&, const TwiddlePoint<compute_t<float>>*, CudaStream);

}  // namespace torch_hrr::kernels
