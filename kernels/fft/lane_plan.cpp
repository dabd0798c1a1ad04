// Builds and keeps the plans of lane_plan.h.
#include "kernels/fft/lane_plan.h"

#include <algorithm>
#include <vector>

#include "kernels/fft/pass_twiddles.h"
#include "kernels/fft/plan_store.h"

namespace torch_hrr::kernels {
namespace {

template <typename T>
struct OwnedPlan {
  LanePlan<T> plan;
  PlanNumbers<T> numbers;
};

template <typename T>
std::unique_ptr<const OwnedPlan<T>> make_plan(int64_t dim, int width) {
  auto owned = std::make_unique<OwnedPlan<T>>();
  LanePlan<T>& plan = owned->plan;
  plan.dim = dim;
  plan.points = dim % 2 == 0 ? dim / 2 : dim;
  plan.size = plan.points * width;
  plan.passes = choose_radices(plan.points, plan.radix);

  std::vector<T> values;
  size_t offsets[kMaxFftPasses] = {};
  append_pass_twiddles(plan.points, plan.radix, plan.passes, values, offsets);
  const size_t pairs = values.size();
  for (int64_t k = 0; 2 * k <= plan.points; ++k) {
    const Complex<double> root = root_of_unity(k, dim);
    const Complex<double> squared = root_of_unity(k, plan.points);
    for (const double number : {root.re, root.im, (1 + squared.re) / 4, squared.im / 4}) {
      values.push_back(static_cast<T>(number));
    }
  }
  T* const storage = owned->numbers.allocate(values.size());
  std::copy(values.begin(), values.end(), storage);
  for (int pass = 0; pass < plan.passes; ++pass) {
    plan.twiddles[pass] = storage + offsets[pass];
  }
  plan.pairs = storage + pairs;
  return owned;
}

}  // namespace

template <typename T>
const LanePlan<T>& lane_plan(int64_t dim, int width) {
  // Never destroyed: threads may still run when static objects go.
  static auto& plans = *new PlanStore<OwnedPlan<T>>();
  return plans.get(dim, width, [&] { return make_plan<T>(dim, width); }).plan;
}

template const LanePlan<float>& lane_plan<float>(int64_t, int);
template const LanePlan<double>& lane_plan<double>(int64_t, int);

}  // namespace torch_hrr::kernels
