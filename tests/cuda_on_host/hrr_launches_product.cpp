// The host launches of products of rows and of superpositions.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_binding<float>(const BindingParams&, const Schedule&, int);
template void run_record<float>(const RecordParams&, const Schedule&, int);
template void run_superposition<float>(const SuperpositionParams&, const Schedule&, int64_t);
template void run_binding<double>(const BindingParams&, const Schedule&, int);
template void run_record<double>(const RecordParams&, const Schedule&, int);
template void run_superposition<double>(const SuperpositionParams&, const Schedule&, int64_t);
template void run_binding<Half>(const BindingParams&, const Schedule&, int);
template void run_record<Half>(const RecordParams&, const Schedule&, int);
template void run_superposition<Half>(const SuperpositionParams&, const Schedule&, int64_t);
template void run_binding<BFloat16>(const BindingParams&, const Schedule&, int);
template void run_record<BFloat16>(const RecordParams&, const Schedule&, int);
template void run_superposition<BFloat16>(const SuperpositionParams&, const Schedule&, int64_t);

}  // namespace torch_hrr::kernels::hrr_testing
