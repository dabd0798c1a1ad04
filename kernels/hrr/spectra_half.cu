// inverse, unitary, bind_power, their derivatives and multibind of Half rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_spectral_map_rows<Half>(const SpectralMapParams&, const TwiddlePoint<compute_t<Half>>*,
                                             CudaStream);
template void launch_multibind_rows<Half>(const MultibindParams&, const TwiddlePoint<compute_t<Half>>*, CudaStream);

}  // namespace torch_hrr::kernels
