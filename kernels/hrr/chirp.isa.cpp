// The transform of Bluestein's sum; compiled once per instruction set.
#include "kernels/hrr/chirp_engine.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

template <int W>
void transform_in_place(const FftPlan<double>& plan, Split<double> z, double* work) {
  const int64_t stride = chirp_work(plan.size) / 4;
  const Split<double> buffers[2] = {{work, work + stride}, {work + 2 * stride, work + 3 * stride}};
  transform<double, W>(plan, FromSplit<double, W>{{z.re, z.im}}, buffers, ToSplit<double, W>{z});
}

}  // namespace

void chirp_transform(int64_t length, double* re, double* im, double* work) {
  const FftPlan<double>& plan = fft_plan<double>(length, kLanes<double>);
  if constexpr (kLanes<double> >= 8) {
    if (plan.width == 8) {
      return transform_in_place<8>(plan, {re, im}, work);
    }
  }
  transform_in_place<4>(plan, {re, im}, work);
}

KERNEL_REGISTER(ChirpKernels, {chirp_transform})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
