// Packed spectra of float rows, and products with rows that stay transformed.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_packed_spectrum_rows<float>(const PackedSpectrumParams&, const TwiddlePoint<compute_t<float>>*,
                                                 CudaStream);
template void launch_bind_spectrum_rows<float>(const SpectrumBindingParams&, const TwiddlePoint<compute_t<float>>*,
                                               CudaStream);

}  // namespace torch_hrr::kernels
