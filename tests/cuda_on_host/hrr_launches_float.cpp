// The host launches of the HRR kernels in float, gradients apart: every length makes them the longest to compile.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_binding<float>(const BindingParams&, const Schedule&, int);
template void run_record<float>(const RecordParams&, const Schedule&, int);
template void run_superposition<float>(const SuperpositionParams&, const Schedule&, int64_t);

}  // namespace torch_hrr::kernels::hrr_testing
