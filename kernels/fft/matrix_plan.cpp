// Builds and keeps the plans of matrix_plan.h.
#include "kernels/fft/matrix_plan.h"

#include <algorithm>
#include <vector>

#include "kernels/fft/pass_twiddles.h"
#include "kernels/fft/plan_store.h"

namespace torch_hrr::kernels {
namespace {

template <typename T>
struct OwnedPlan {
  MatrixPlan<T> plan;
  PlanNumbers<T> numbers;
  std::vector<int32_t> packed;
};

template <typename T>
std::unique_ptr<const OwnedPlan<T>> make_plan(int64_t dim, int max_width) {
  auto owned = std::make_unique<OwnedPlan<T>>();
  MatrixPlan<T>& plan = owned->plan;
  plan.dim = dim;
  plan.rows = matrix_rows(dim, max_width);
  plan.columns = dim / plan.rows;
  plan.bins = (plan.rows + 1) / 2;
  plan.width = max_width;
  while (plan.width > 4 && plan.width / 2 >= plan.bins) {
    plan.width /= 2;
  }
  plan.column_width = plan.width;
  while (plan.column_width > plan.columns) {
    plan.column_width /= 2;
  }
  plan.lanes = plan.width;
  while (plan.lanes < plan.bins) {
    plan.lanes *= 2;
  }
  plan.size = plan.columns * plan.lanes;
  plan.numbers = (plan.size + kMaxMatrixLanes - 1) / kMaxMatrixLanes * kMaxMatrixLanes;
  plan.passes = choose_radices(plan.columns, plan.radix);

  std::vector<T> values;
  const auto append_root = [&](int64_t index, int64_t n, bool imaginary) {
    const Complex<double> root = root_of_unity(index % n, n);
    values.push_back(static_cast<T>(imaginary ? root.im : root.re));
  };
  for (int64_t number = 0; number < kMaxMatrixLanes; ++number) {
    const int64_t i = number % plan.lanes;
    values.push_back(static_cast<T>(i == 0 ? 1 : i < plan.bins ? 2 : 0));
  }
  const size_t turns = values.size();
  for (int64_t start = 0; start < plan.columns; start += plan.column_width) {
    const int64_t block = std::min(start, plan.columns - plan.column_width);
    for (int64_t i = 1; i < plan.bins; ++i) {
      for (const bool imaginary : {false, true}) {
        for (int64_t lane = 0; lane < plan.column_width; ++lane) {
          append_root((block + lane) * i, dim, imaginary);
        }
      }
    }
  }
  size_t offsets[kMaxFftPasses] = {};
  append_pass_twiddles(plan.columns, plan.radix, plan.passes, values, offsets);
  const size_t signs = values.size();
  for (int64_t i = 0; dim <= kMaxMatrixLaneDim && i < dim; ++i) {
    const int64_t k = (i + 1) / 2;
    const int64_t p = k / plan.rows;
    const int64_t q = k % plan.rows;
    const bool mirrored = q >= plan.bins;
    const int64_t bin = mirrored ? (plan.columns - 1 - p) * plan.bins + plan.rows - q : p * plan.bins + q;
    owned->packed.push_back(static_cast<int32_t>(bin));
    values.push_back(static_cast<T>(mirrored && i % 2 == 0 ? -1 : 1));
  }
  T* const storage = owned->numbers.allocate(values.size());
  std::copy(values.begin(), values.end(), storage);
  plan.weights = storage;
  plan.turns = storage + turns;
  plan.packed = owned->packed.data();
  plan.packed_signs = storage + signs;
  for (int pass = 0; pass + 1 < plan.passes; ++pass) {
    plan.twiddles[pass] = storage + offsets[pass];
  }
  return owned;
}

}  // namespace

template <typename T>
const MatrixPlan<T>& matrix_plan(int64_t dim, int max_width) {
  // Never destroyed: threads may still run when static objects go.
  static auto& plans = *new PlanStore<OwnedPlan<T>>();
  return plans.get(dim, max_width, [&] { return make_plan<T>(dim, max_width); }).plan;
}

template const MatrixPlan<float>& matrix_plan<float>(int64_t, int);
template const MatrixPlan<double>& matrix_plan<double>(int64_t, int);

}  // namespace torch_hrr::kernels
