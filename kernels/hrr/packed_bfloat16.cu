// Packed spectra of BFloat16 rows, and products with rows that stay transformed.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_packed_spectrum_rows<BFloat16>(const PackedSpectrumParams&,
                                                    const TwiddlePoint<compute_t<BFloat16>>*, CudaStream);
template void launch_bind_spectrum_rows<BFloat16>(const SpectrumBindingParams&,
                                                  const TwiddlePoint<compute_t<BFloat16>>*, CudaStream);

}  // namespace torch_hrr::kernels
