// The host launches of the kernels of spectra in float.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_spectral_map_kernel<float>(const SpectralMapParams&, const Schedule&, int);
template void run_multibind_kernel<float>(const MultibindParams&, const Schedule&, int);
template void run_packed_spectrum_kernel<float>(const PackedSpectrumParams&, const Schedule&, int);
template void run_bind_spectrum_kernel<float>(const SpectrumBindingParams&, const Schedule&, int);

}  // namespace torch_hrr::kernels::hrr_testing
