// Packed spectra of double rows, and products with rows that stay transformed.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_packed_spectrum_rows<double>(const PackedSpectrumParams&, const TwiddlePoint<compute_t<double>>*,
                                                  CudaStream);
template void launch_bind_spectrum_rows<double>(const SpectrumBindingParams&, const TwiddlePoint<compute_t<double>>*,
                                                CudaStream);

}  // namespace torch_hrr::kernels
