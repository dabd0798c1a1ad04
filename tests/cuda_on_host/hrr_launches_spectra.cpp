// The host launches of maps of spectra, packed spectra and products of many rows.
#include "tests/cuda_on_host/hrr_launches.h"

namespace torch_hrr::kernels::hrr_testing {

template void run_spectral_map_kernel<float>(const SpectralMapParams&, const Schedule&, int);
template void run_multibind_kernel<float>(const MultibindParams&, const Schedule&, int);
template void run_packed_spectrum_kernel<float>(const PackedSpectrumParams&, const Schedule&, int);
template void run_bind_spectrum_kernel<float>(const SpectrumBindParams&, const Schedule&, int);
template void run_spectral_map_kernel<double>(const SpectralMapParams&, const Schedule&, int);
template void run_multibind_kernel<double>(const MultibindParams&, const Schedule&, int);
template void run_packed_spectrum_kernel<double>(const PackedSpectrumParams&, const Schedule&, int);
template void run_bind_spectrum_kernel<double>(const SpectrumBindParams&, const Schedule&, int);
template void run_spectral_map_kernel<Half>(const SpectralMapParams&, const Schedule&, int);
template void run_multibind_kernel<Half>(const MultibindParams&, const Schedule&, int);
template void run_packed_spectrum_kernel<Half>(const PackedSpectrumParams&, const Schedule&, int);
template void run_bind_spectrum_kernel<Half>(const SpectrumBindParams&, const Schedule&, int);
template void run_spectral_map_kernel<BFloat16>(const SpectralMapParams&, const Schedule&, int);
template void run_multibind_kernel<BFloat16>(const MultibindParams&, const Schedule&, int);
template void run_packed_spectrum_kernel<BFloat16>(const PackedSpectrumParams&, const Schedule&, int);
template void run_bind_spectrum_kernel<BFloat16>(const SpectrumBindParams&, const Schedule&, int);

}  // namespace torch_hrr::kernels::hrr_testing
