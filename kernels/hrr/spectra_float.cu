// inverse, unitary, bind_power, their derivatives and multibind of float rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_spectral_map_rows<float>(const SpectralMapParams&, const TwiddlePoint<compute_t<float>>*,
                                              CudaStream);
template void launch_multibind_rows<float>(const MultibindParams&, const TwiddlePoint<compute_t<float>>*, CudaStream);

}  // namespace torch_hrr::kernels
