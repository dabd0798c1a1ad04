// The host launches of the kernels of gradients in float.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_backward<float>(const BindingBackwardParams&, const Schedule&, int);

}  // namespace torch_hrr::kernels::hrr_testing
