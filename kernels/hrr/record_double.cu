// bind_superpose of double rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_record_rows<double>(const RecordParams&, const TwiddlePoint<compute_t<double>>*, CudaStream);

}  // namespace torch_hrr::kernels
