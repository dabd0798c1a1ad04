// k_winners: the k largest elements of every row.
#include <ATen/ops/gather.h>
#include <ATen/ops/scatter.h>

#include "csrc/assembly/execute.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "csrc/rows.h"

namespace torch_hrr::assembly {
namespace {

using at::Tensor;
using c10::SymInt;
using Winners = std::tuple<Tensor, Tensor>;

// Indices are 32 bits wide inside the kernels.
constexpr int64_t kMaxInputs = (int64_t{1} << 31) - 1;

bool is_supported(at::ScalarType type) {
  return is_supported_float(type) || type == at::kInt || type == at::kLong;
}

struct KWinners : Operator {
  static constexpr const char* kName = "k_winners";
  static constexpr Operand kOperands[] = {{"inputs", 1}};
  using Signature = Winners(const Tensor& inputs, SymInt k, bool sorted);
  static constexpr Derivative kDerivative = Derivative::kFormula;

  // Of values and of indices.
  template <typename Int>
  static std::array<ResultContract<Int>, 2> contract(const Tensor& inputs, const Int& k, bool /*sorted*/) {
    TORCH_CHECK_TYPE(inputs.defined(), "k_winners: inputs must be a defined tensor, got an undefined one");
    check_strided(kName, {"inputs", inputs});
    TORCH_CHECK_TYPE(is_supported(inputs.scalar_type()),
                     "k_winners: inputs must be float32, float64, float16, bfloat16, int32 or int64, got ",
                     inputs.scalar_type());
    check_rank(kName, {"inputs", inputs}, 1, "[..., n]");
    Sizes<Int> sizes(sizes_of<Int>(inputs).begin(), sizes_of<Int>(inputs).end());
    const Int n = sizes.back();
    TORCH_CHECK_VALUE(holds(at_most(0, k)) && holds(at_most(k, n)),
                      "k_winners: k must be from 0 to the last dimension of inputs, got k = ", k, " and inputs of ",
                      sizes_of<Int>(inputs));
    TORCH_CHECK_VALUE(holds(at_most(n, kMaxInputs)), "k_winners: inputs must have a last dimension below 2^31, got ",
                      n);
    sizes.back() = k;
    check_numel<Int>(kName, sizes);
    return {{{sizes, inputs.scalar_type()}, {sizes, at::kLong}}};
  }

  static void run(const std::array<ResultContract<int64_t>, 2>& contract, const Winners& winners, const Tensor& inputs,
                  int64_t k, bool sorted) {
    const auto& [values, indices] = winners;
    if (values.numel() == 0) {
      return;
    }
    const c10::ArrayRef<int64_t> batch = all_but_last<int64_t>(contract[0].sizes);
    const Rows<1> rows(batch, {{{with_unit_rows(inputs, inputs.scalar_type()), 1}}}, /*most_dims=*/1);
    kernels::WinnersParams params;
    params.input = rows.data(0);
    params.values = values.mutable_data_ptr();
    params.indices = indices.mutable_data_ptr<int64_t>();
    params.rows = product_of(batch);
    params.n = inputs.size(-1);
    params.k = k;
    params.row_stride = rows.map().ndim == 0 ? 0 : rows.map().strides[0][0];
    params.element = element_of(inputs.scalar_type());
    params.sorted = sorted;
    execute(params, rows[0]);
#if defined(TORCH_HRR_WITH_CUDA)
    if (sorted && inputs.is_cuda()) {
      cuda::sort_winners(values, indices);
    }
#endif
  }

  // A row's winners as a linear map: values = inputs[indices], its transpose a scatter.
  struct Formula : LinearFormula {
    variable_list backward(const Saved& saved, const Tensor& grad, const Wanted&) const {
      return {at::scatter(grad.new_zeros_symint(saved.sizes(0)), -1, saved[1], grad)};
    }
    Tensor jvp(const Saved& saved, const variable_list& tangents) const {
      return at::gather(tangents[0], -1, saved[1]);
    }
  };
  static Formula formula(const Tensor&, const SymInt&, bool) {
    return {};
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<KWinners>(m);
}

}  // namespace
}  // namespace torch_hrr::assembly

namespace torch_hrr {

std::tuple<at::Tensor, at::Tensor> k_winners(const at::Tensor& inputs, int64_t k, bool sorted) {
  return call<assembly::KWinners>(inputs, k, sorted);
}

}  // namespace torch_hrr
