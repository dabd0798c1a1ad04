// The host launches of products of rows and of superpositions.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_binding<float>(const BindParams&, const Schedule&, int);
template void run_bind_superpose<float>(const BindSuperposeParams&, const Schedule&, int);
template void run_superposition<float>(const SuperpositionParams&, const Schedule&, int64_t);
template void run_binding<double>(const BindParams&, const Schedule&, int);
template void run_bind_superpose<double>(const BindSuperposeParams&, const Schedule&, int);
template void run_superposition<double>(const SuperpositionParams&, const Schedule&, int64_t);
template void run_binding<Half>(const BindParams&, const Schedule&, int);
template void run_bind_superpose<Half>(const BindSuperposeParams&, const Schedule&, int);
template void run_superposition<Half>(const SuperpositionParams&, const Schedule&, int64_t);
template void run_binding<BFloat16>(const BindParams&, const Schedule&, int);
template void run_bind_superpose<BFloat16>(const BindSuperposeParams&, const Schedule&, int);
template void run_superposition<BFloat16>(const SuperpositionParams&, const Schedule&, int64_t);

}  // namespace torch_hrr::kernels::hrr_testing
