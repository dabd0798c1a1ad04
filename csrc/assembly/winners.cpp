// k_winners: CPU and CUDA, Meta, derivatives, registration.
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "csrc/assembly/execute.h"
#include "csrc/autograd.h"
#include "csrc/dispatch.h"
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

// The sizes of the winners.
template <typename Int>
Sizes<Int> winners_sizes(const Tensor& inputs, const Int& k) {
  TORCH_CHECK(inputs.defined(), "k_winners: inputs must be a defined tensor, got an undefined one");
  check_strided("k_winners", {"inputs", inputs});
  TORCH_CHECK_TYPE(is_supported(inputs.scalar_type()),
                   "k_winners: inputs must be float32, float64, float16, bfloat16, int32 or int64, got ",
                   inputs.scalar_type());
  check_rank("k_winners", {"inputs", inputs}, 1, "[..., n]");
  Sizes<Int> sizes(sizes_of<Int>(inputs).begin(), sizes_of<Int>(inputs).end());
  const Int n = sizes.back();
  TORCH_CHECK_VALUE(holds(at_most(0, k)) && holds(at_most(k, n)),
                    "k_winners: k must be from 0 to the last dimension of inputs, got k = ", k, " and inputs of ",
                    sizes_of<Int>(inputs));
  TORCH_CHECK_VALUE(holds(at_most(n, kMaxInputs)), "k_winners: inputs must have a last dimension below 2^31, got ", n);
  sizes.back() = k;
  check_numel<Int>("k_winners", sizes);
  return sizes;
}

Winners compute(const Tensor& inputs, int64_t k, bool sorted) {
  const auto sizes = winners_sizes<int64_t>(inputs, k);
  const Winners winners{at::empty(sizes, inputs.options()), at::empty(sizes, inputs.options().dtype(at::kLong))};
  const auto& [values, indices] = winners;
  if (values.numel() == 0) {
    return winners;
  }
  Tensor rows = with_unit_rows(inputs, inputs.scalar_type());
  const c10::ArrayRef<int64_t> batch(sizes.data(), sizes.size() - 1);
  kernels::RowMap map;
  if (!make_row_map<1>(batch, {RowOperand{&rows, 1}}, map) || map.ndim > 1) {
    rows = rows.contiguous();
    make_row_map<1>(batch, {RowOperand{&rows, 1}}, map);
  }
  kernels::WinnersParams params;
  params.input = rows.const_data_ptr();
  params.values = values.mutable_data_ptr();
  params.indices = indices.mutable_data_ptr<int64_t>();
  params.rows = product_of(batch);
  params.n = inputs.size(-1);
  params.k = k;
  params.row_stride = map.ndim == 0 ? 0 : map.strides[0][0];
  params.element = element_of(inputs.scalar_type());
  params.sorted = sorted;
  execute(params, rows);
#if defined(TORCH_HRR_WITH_CUDA)
  if (sorted && rows.is_cuda()) {
    cuda::sort_winners(values, indices);
  }
#endif
  return winners;
}

Winners compute_meta(const Tensor& inputs, SymInt k, bool) {
  const auto sizes = winners_sizes<SymInt>(inputs, k);
  return {at::empty_symint(sizes, inputs.options()), at::empty_symint(sizes, inputs.options().dtype(at::kLong))};
}

// A row's winners as a linear map: values = inputs[indices], its transpose a scatter.
struct WinnersFormula {
  static constexpr const char* kName = "TorchHrrKWinnersBackward";
  static constexpr const char* kOperator = "k_winners";
  static constexpr const char* kArguments[] = {"inputs"};
  SymInt k;
  bool sorted;

  Winners forward(const Tensor& inputs) const {
    static const auto op = typed_operator<Winners(const Tensor&, SymInt, bool)>("torch_hrr::k_winners");
    return op.call(inputs, k, sorted);
  }
  variable_list backward(const std::vector<Tensor>& saved, const Tensor& grad, const std::vector<bool>&) const {
    return {at::scatter(at::zeros_symint(saved[0].sym_sizes(), grad.options()), -1, saved[1], grad)};
  }
  Tensor jvp(const std::vector<Tensor>& saved, const std::vector<Tensor>& tangents) const {
    return at::gather(tangents[0], -1, saved[1]);
  }
};

}  // namespace
}  // namespace torch_hrr::assembly

using namespace torch_hrr::assembly;

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  m.impl("k_winners", compute);
}
#if defined(TORCH_HRR_WITH_CUDA)
TORCH_LIBRARY_IMPL(torch_hrr, CUDA, m) {
  m.impl("k_winners", compute);
}
#endif
TORCH_LIBRARY_IMPL(torch_hrr, Meta, m) {
  m.impl("k_winners", compute_meta);
}
TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  m.impl("k_winners", [](const at::Tensor& inputs, c10::SymInt k, bool sorted) {
    return torch_hrr::differentiable(WinnersFormula{std::move(k), sorted}, inputs);
  });
}
