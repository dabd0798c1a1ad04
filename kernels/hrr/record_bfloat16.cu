// bind_superpose of BFloat16 rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_record_rows<BFloat16>(const RecordParams&, const TwiddlePoint<compute_t<BFloat16>>*, CudaStream);

}  // namespace torch_hrr::kernels
