// The host launches of the HRR kernels in half.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_binding<Half>(const BindingParams&, const Schedule&, int);
template void run_record<Half>(const RecordParams&, const Schedule&, int);
template void run_backward<Half>(const BindingBackwardParams&, const Schedule&, int);
template void run_superposition<Half>(const SuperpositionParams&, const Schedule&, int64_t);
template void run_spectral_map_kernel<Half>(const SpectralMapParams&, const Schedule&, int);
template void run_multibind_kernel<Half>(const MultibindParams&, const Schedule&, int);
template void run_packed_spectrum_kernel<Half>(const PackedSpectrumParams&, const Schedule&, int);
template void run_bind_spectrum_kernel<Half>(const SpectrumBindingParams&, const Schedule&, int);

}  // namespace torch_hrr::kernels::hrr_testing
