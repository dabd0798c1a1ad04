// inverse, unitary, bind_power, their derivatives and multibind of BFloat16 rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_spectral_map_rows<BFloat16>(const SpectralMapParams&, const TwiddlePoint<compute_t<BFloat16>>*,
                                                 CudaStream);
template void launch_multibind_rows<BFloat16>(const MultibindParams&, const TwiddlePoint<compute_t<BFloat16>>*,
                                              CudaStream);

}  // namespace torch_hrr::kernels
