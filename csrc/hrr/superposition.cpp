// superpose: a weighted sum of rows, divided by its norm where asked.
#include "csrc/hrr/contracts.h"
#include "csrc/hrr/execute.h"
#include "csrc/hrr/normalization.h"
#include "csrc/operator.h"
#include "csrc/rows.h"
#include "csrc/types.h"

#include "csrc/include/torch_hrr/torch_hrr.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;

struct Superpose : Operator {
  static constexpr const char* kName = "superpose";
  static constexpr Operand kOperands[] = {{"vectors", 2}, {"weights", 1}};
  using Signature = Tensor(const Tensor& vectors, const OptionalTensor& weights, bool normalize, double eps);
  static constexpr bool kHasOut = true;
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static SumContract<Int> contract(const Tensor& vectors, const OptionalTensor& weights, bool /*normalize*/,
                                   double eps) {
    return sum_contract<Int>(kName, {{"vectors", vectors}}, weights, eps);
  }

  static void run(const SumContract<int64_t>& contract, const Tensor& out, const Tensor& vectors,
                  const OptionalTensor& weights, bool normalize, double eps) {
    const c10::ArrayRef<int64_t> batch = contract.batch();
    kernels::SuperpositionParams params;
    params.rows = product_of(batch);
    params.items = contract.items;
    params.dim = contract.sizes.back();
    if (params.rows == 0) {
      return;
    }
    const Rows<2> rows(batch, {{{with_unit_rows(vectors, contract.dtype), 2}, {in_type(weights, contract.dtype), 1}}});
    params.map = rows.map();
    params.vectors = rows.data(0);
    params.item_stride_vectors = rows.stride(0, -2);
    params.weights = rows.data(1);
    params.item_stride_weights = rows.stride(1, -1);
    params.out = out.mutable_data_ptr();
    params.normalize = normalize;
    params.eps = eps;
    execute(params, out);
  }

  // s = sum_k w_k x_k: dL/dx_k = w_k dL/ds, dL/dw_k = x_k . dL/ds.
  struct Formula {
    bool normalize;
    double eps;

    bool reads(size_t input, const Wanted& wanted) const {
      return normalize || wanted[1 - input];
    }
    static Tensor sum(const Tensor& vectors, const Tensor& weights) {
      return torch_hrr::superpose(vectors, optional_of(weights), /*normalize=*/false, /*eps=*/0);
    }
    Tensor through_norm(const variable_list& inputs, const Tensor& v) const {
      return normalize ? normalization_jacobian(sum(inputs[0], inputs[1]), v, eps) : v;
    }

    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted& wanted) const {
      const variable_list wide = in_compute_type(inputs.tensors());
      const Tensor grad_items = through_norm(wide, in_compute_type(grad)).unsqueeze(-2);
      variable_list grads(2);
      if (wanted[0]) {
        grads[0] = wide[1].defined() ? grad_items * wide[1].unsqueeze(-1) : grad_items;
      }
      if (wanted[1]) {
        grads[1] = (wide[0] * grad_items).sum(-1);
      }
      return grads;
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      const variable_list wide = in_compute_type(inputs.tensors());
      const variable_list moved = in_compute_type(tangents);
      return through_norm(wide, sum_of_defined(moved[0].defined() ? sum(moved[0], wide[1]) : Tensor(),
                                               moved[1].defined() ? sum(wide[0], moved[1]) : Tensor()));
    }
  };
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<Superpose>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr

namespace torch_hrr {

at::Tensor superpose(const at::Tensor& vectors, const std::optional<at::Tensor>& weights, bool normalize, double eps) {
  return call<hrr::Superpose>(vectors, weights, normalize, eps);
}
void superpose_out(at::Tensor& out, const at::Tensor& vectors, const std::optional<at::Tensor>& weights, bool normalize,
                   double eps) {
  call_out<hrr::Superpose>(vectors, weights, normalize, eps, out);
}

}  // namespace torch_hrr
