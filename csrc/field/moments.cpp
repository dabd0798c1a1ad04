// _field_moments: means and deviations of a field's channels over blocks of places, for its metrics.
#include "csrc/execute.h"
#include "csrc/field/field.h"
#include "csrc/operator.h"

namespace torch_hrr::field {
namespace {

using at::Tensor;
using kernels::MomentsParams;

constexpr int64_t kMatrixDims = 2;

struct FieldMoments : Operator {
  static constexpr const char* kName = "_field_moments";
  static constexpr Operand kOperands[] = {{"field", kMatrixDims}};
  using Signature = Tensor(const Tensor& field, double small);
  static constexpr bool kHasOut = true;
  static constexpr Derivative kDerivative = Derivative::kNone;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& field, double small) {
    check_floating(kName, {{"field", field}});
    check_rank(kName, {"field", field}, kMatrixDims, "[..., places, channels]");
    TORCH_CHECK_VALUE(small >= 0, kName, ": small must be at least 0, got ", small);
    const c10::ArrayRef<Int> own = sizes_of<Int>(field);
    Sizes<Int> sizes(own.begin(), own.end());
    const auto places = sizes.end() - kMatrixDims;
    const Int whole = *places / kernels::kMomentPlaces;
    *places =
        whole + (*places - whole * kernels::kMomentPlaces + (kernels::kMomentPlaces - 1)) / kernels::kMomentPlaces;
    sizes.insert(sizes.end() - 1, Int(kernels::kMoments));
    check_numel<Int>(kName, sizes);
    return {sizes, field.scalar_type() == at::kDouble ? at::kDouble : at::kFloat};
  }

  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& field, double small) {
    if (out.numel() == 0) {
      return;
    }
    const Tensor own = field.contiguous();
    MomentsParams params;
    params.places = own.size(-2);
    params.channels = own.size(-1);
    params.items = own.numel() / (params.places * params.channels);
    params.small = small;
    params.field = own.const_data_ptr();
    params.out = out.mutable_data_ptr();
    execute_rows(params, params.rows(), own, kernels::kernel_table<kernels::RowKernel<MomentsParams>>(storage_of(own)));
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<FieldMoments>(m);
}

}  // namespace
}  // namespace torch_hrr::field
