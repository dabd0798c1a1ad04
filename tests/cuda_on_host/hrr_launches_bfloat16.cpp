// The host launches of the HRR kernels in bfloat16.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_binding<BFloat16>(const BindingParams&, const Schedule&, int);
template void run_record<BFloat16>(const RecordParams&, const Schedule&, int);
template void run_backward<BFloat16>(const BindingBackwardParams&, const Schedule&, int);
template void run_superposition<BFloat16>(const SuperpositionParams&, const Schedule&, int64_t);

}  // namespace torch_hrr::kernels::hrr_testing
