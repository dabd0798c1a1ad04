// The host launches of the gradients of products.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_backward<float>(const BindBackwardParams&, const Schedule&, int);
template void run_backward<double>(const BindBackwardParams&, const Schedule&, int);
template void run_backward<Half>(const BindBackwardParams&, const Schedule&, int);
template void run_backward<BFloat16>(const BindBackwardParams&, const Schedule&, int);

}  // namespace torch_hrr::kernels::hrr_testing
