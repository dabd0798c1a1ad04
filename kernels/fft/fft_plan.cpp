// Builds and keeps the plans of fft_plan.h.
#include "kernels/fft/fft_plan.h"

#include <algorithm>
#include <vector>

#include "kernels/fft/pass_twiddles.h"
#include "kernels/fft/plan_store.h"

namespace torch_hrr::kernels {
namespace {

template <typename T>
struct OwnedPlan {
  FftPlan<T> plan;
  PlanNumbers<T> numbers;
};

template <typename T>
std::unique_ptr<const OwnedPlan<T>> make_plan(int64_t size, int width) {
  auto owned = std::make_unique<OwnedPlan<T>>();
  FftPlan<T>& plan = owned->plan;
  plan.size = size;
  plan.width = width;
  plan.radix[plan.passes++] = width;
  plan.passes += choose_radices(size / width, plan.radix + plan.passes);

  std::vector<T> values;
  std::vector<size_t> offsets(static_cast<size_t>(plan.passes), 0);
  const auto append_root = [&](int64_t index, int64_t n, bool imaginary) {
    const Complex<double> root = root_of_unity(index, n);
    values.push_back(static_cast<T>(imaginary ? root.im : root.re));
  };
  const int64_t columns = size / width;
  for (int64_t start = 0; start < columns; start += width) {
    const int64_t block = std::max<int64_t>(0, std::min(start, columns - width));
    for (int64_t k = 1; k < width; ++k) {
      for (const bool imaginary : {false, true}) {
        for (int64_t lane = 0; lane < width; ++lane) {
          append_root((block + lane) * k, size, imaginary);
        }
      }
    }
  }
  append_pass_twiddles(columns, plan.radix + 1, plan.passes - 1, values, offsets.data() + 1);
  while (values.size() % 16 != 0) {
    values.push_back(T{0});
  }
  const size_t coupling = values.size();
  for (const bool imaginary : {false, true}) {
    for (int64_t k = 0; k < size / 2; ++k) {
      const Complex<double> root = root_of_unity(k, size);
      values.push_back(static_cast<T>(imaginary ? root.im / 4 : (1 + root.re) / 4));
    }
  }
  const size_t half_roots = values.size();
  for (const bool imaginary : {false, true}) {
    for (int64_t k = 0; k < size / 2; ++k) {
      append_root(k, 2 * size, imaginary);
    }
  }

  T* const storage = owned->numbers.allocate(values.size());
  std::copy(values.begin(), values.end(), storage);
  for (int pass = 0; pass < plan.passes; ++pass) {
    plan.twiddles[pass] = storage + offsets[static_cast<size_t>(pass)];
  }
  plan.coupling_re = storage + coupling;
  plan.coupling_im = plan.coupling_re + size / 2;
  plan.half_root_re = storage + half_roots;
  plan.half_root_im = plan.half_root_re + size / 2;
  return owned;
}

}  // namespace

template <typename T>
const FftPlan<T>& fft_plan(int64_t size, int max_width) {
  // Never destroyed: threads may still run when static objects go.
  static auto& plans = *new PlanStore<OwnedPlan<T>>();
  const int width = fft_width(size, max_width);
  return plans.get(size, width, [&] { return make_plan<T>(size, width); }).plan;
}

template const FftPlan<float>& fft_plan<float>(int64_t, int);
template const FftPlan<double>& fft_plan<double>(int64_t, int);

}  // namespace torch_hrr::kernels
