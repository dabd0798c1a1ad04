// Transforms of real rows as half as many complex numbers; compiled once per instruction set.
#include "kernels/fft/half_transform.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

template <typename T>
void half_forward(const FftPlan<T>& plan, const T* row, Split<T> spectrum, Split<T> work) {
  // An even number of passes ends with a read of buffers[0], an odd one with a read of buffers[1].
  const bool even = plan.passes % 2 == 0;
  const Split<T> buffers[2] = {even ? work : spectrum, even ? spectrum : work};
  with_width<T, 16>(plan.width, [&](auto width) {
    constexpr int W = decltype(width)::value;
    transform<T, W>(plan, FromRow<T, W>{row}, buffers, ToSplit<T, W>{spectrum});
  });
}

template <typename T>
void half_inverse(const FftPlan<T>& plan, Split<T> spectrum, Split<T> work, T scale, T* row) {
  const Split<T> buffers[2] = {work, spectrum};
  with_width<T, 16>(plan.width, [&](auto width) {
    constexpr int W = decltype(width)::value;
    const FromSplit<T, W> swapped{{spectrum.im, spectrum.re}};
    transform<T, W>(plan, swapped, buffers, ToSwappedRow<T, W>{row, Simd<T, W>::broadcast(scale)});
  });
}

template void half_forward(const FftPlan<float>&, const float*, Split<float>, Split<float>);
template void half_forward(const FftPlan<double>&, const double*, Split<double>, Split<double>);
template void half_inverse(const FftPlan<float>&, Split<float>, Split<float>, float, float*);
template void half_inverse(const FftPlan<double>&, Split<double>, Split<double>, double, double*);

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
