// inverse, unitary, bind_power, their derivatives and multibind of double rows.
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {

template void launch_spectral_map_rows<double>(const SpectralMapParams&, const TwiddlePoint<compute_t<double>>*,
                                               CudaStream);
template void launch_multibind_rows<double>(const MultibindParams&, const TwiddlePoint<compute_t<double>>*, CudaStream);

}  // namespace torch_hrr::kernels
