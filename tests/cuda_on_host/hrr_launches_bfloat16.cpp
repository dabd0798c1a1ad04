// The host launches of the HRR kernels in bfloat16.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_binding<BFloat16>(const BindingParams&, const Schedule&, int);
template void run_record<BFloat16>(const RecordParams&, const Schedule&, int);
template void run_backward<BFloat16>(const BindingBackwardParams&, const Schedule&, int);
template void run_superposition<BFloat16>(const SuperpositionParams&, const Schedule&, int64_t);
template void run_spectral_map_kernel<BFloat16>(const SpectralMapParams&, const Schedule&, int);
template void run_multibind_kernel<BFloat16>(const MultibindParams&, const Schedule&, int);
template void run_packed_spectrum_kernel<BFloat16>(const PackedSpectrumParams&, const Schedule&, int);
template void run_bind_spectrum_kernel<BFloat16>(const SpectrumBindingParams&, const Schedule&, int);

}  // namespace torch_hrr::kernels::hrr_testing
