// Builds and keeps the plans of in_register_plan.h.
#include "kernels/fft/in_register_plan.h"

#include "kernels/fft/roots.h"

namespace torch_hrr::kernels {
namespace {

InRegisterPlan make_plan(int radix) {
  constexpr int kLanes = InRegisterPlan::kLanes;
  InRegisterPlan plan{};
  const int64_t points = kLanes * radix;
  const auto put = [](float(&parts)[2][kLanes], int lane, Complex<double> value) {
    parts[0][lane] = static_cast<float>(value.re);
    parts[1][lane] = static_cast<float>(value.im);
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int p = 0; p < radix; ++p) {
      put(plan.turns[p], lane, root_of_unity(lane * p, points));
    }
    for (int q = 0; 2 * q < kLanes; ++q) {
      put(plan.half_roots[q], lane, root_of_unity(lane % radix + radix * q, 2 * points));
    }
  }
  return plan;
}

}  // namespace

const InRegisterPlan& in_register_plan(int radix) {
  static const InRegisterPlan plans[] = {make_plan(4), make_plan(8), make_plan(16)};
  return plans[radix / 8];
}

}  // namespace torch_hrr::kernels
