// Packed spectra of Half rows, and products with rows that stay transformed.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_packed_spectrum_rows<Half>(const PackedSpectrumParams&, const TwiddlePoint<compute_t<Half>>*,
                                                CudaStream);
template void launch_bind_spectrum_rows<Half>(const SpectrumBindingParams&, const TwiddlePoint<compute_t<Half>>*,
                                              CudaStream);

}  // namespace torch_hrr::kernels
