// The host launches of the HRR kernels in double.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_binding<double>(const BindingParams&, const Schedule&, int);
template void run_record<double>(const RecordParams&, const Schedule&, int);
template void run_backward<double>(const BindingBackwardParams&, const Schedule&, int);
template void run_superposition<double>(const SuperpositionParams&, const Schedule&, int64_t);
template void run_spectral_map_kernel<double>(const SpectralMapParams&, const Schedule&, int);
template void run_multibind_kernel<double>(const MultibindParams&, const Schedule&, int);
template void run_packed_spectrum_kernel<double>(const PackedSpectrumParams&, const Schedule&, int);
template void run_bind_spectrum_kernel<double>(const SpectrumBindingParams&, const Schedule&, int);

}  // namespace torch_hrr::kernels::hrr_testing
