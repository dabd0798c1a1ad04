// bind_superpose of Half rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_record_rows<Half>(const RecordParams&, const TwiddlePoint<compute_t<Half>>*, CudaStream);

}  // namespace torch_hrr::kernels
