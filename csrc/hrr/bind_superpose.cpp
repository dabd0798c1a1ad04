// bind_superpose: the sum of bound pairs, divided by its norm where asked.
#include <ATen/TensorOperators.h>

#include "csrc/hrr/contracts.h"
#include "csrc/hrr/execute.h"
#include "csrc/hrr/library_fft.h"
#include "csrc/hrr/normalization.h"
#include "csrc/hrr/operators.h"
#include "csrc/operator.h"
#include "csrc/rows.h"
#include "csrc/types.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;

struct BindSuperpose : Operator {
  static constexpr const char* kName = "bind_superpose";
  static constexpr Operand kOperands[] = {{"a", 2}, {"b", 2}, {"weights", 1}};
  using Signature = Tensor(const Tensor& a, const Tensor& b, const OptionalTensor& weights, bool normalize, double eps);
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static SumContract<Int> contract(const Tensor& a, const Tensor& b, const OptionalTensor& weights, bool /*normalize*/,
                                   double eps) {
    return sum_contract<Int>(kName, {{"a", a}, {"b", b}}, weights, eps);
  }

  static void run(const SumContract<int64_t>& contract, const Tensor& out, const Tensor& a, const Tensor& b,
                  const OptionalTensor& weights, bool normalize, double eps) {
    const c10::ArrayRef<int64_t> batch = contract.batch();
    kernels::BindSuperposeParams params;
    params.rows = product_of(batch);
    params.items = contract.items;
    params.dim = contract.sizes.back();
    if (params.rows == 0) {
      return;
    }
    const Tensor factors = in_type(weights, contract.dtype);
    params.plan = plan_rows(params, a, contract.dtype);
    if (params.plan.path == kernels::RowPath::kLibrary) {
      const auto items = [&](const Tensor& x) {
        return x.to(contract.dtype).expand(contract.item_sizes()).reshape({params.rows, params.items, params.dim});
      };
      const Tensor item_factors =
          factors.defined() ? factors.expand(contract.weight_sizes()).reshape({params.rows, params.items}) : factors;
      return library_bind_superpose(items(a), items(b), item_factors, kernels::Product::kConvolution, normalize, eps,
                                    out.view({params.rows, params.dim}));
    }
    const Rows<3> rows(
        batch, {{{with_unit_rows(a, contract.dtype), 2}, {with_unit_rows(b, contract.dtype), 2}, {factors, 1}}});
    params.map = rows.map();
    params.a = rows.data(0);
    params.b = rows.data(1);
    params.item_stride_a = rows.stride(0, -2);
    params.item_stride_b = rows.stride(1, -2);
    params.weights = rows.data(2);
    params.item_stride_weights = rows.stride(2, -1);
    params.out = out.mutable_data_ptr();
    params.normalize = normalize;
    params.eps = eps;
    execute(params, out);
  }

  // s = sum_k w_k (a_k conv b_k): with p_k = dL/ds corr b_k and q_k = dL/ds corr a_k,
  //   dL/da_k = w_k p_k, dL/db_k = w_k q_k, dL/dw_k = a_k . p_k.
  struct Formula {
    bool normalize;
    double eps;

    bool reads(size_t input, const Wanted& wanted) const {
      const bool others = wanted[input == 0 ? 1 : 0] || wanted[input == 2 ? 1 : 2];
      return normalize || others;
    }
    static Tensor sum(const Tensor& a, const Tensor& b, const Tensor& weights) {
      return torch_hrr::bind_superpose(a, b, optional_of(weights), /*normalize=*/false, /*eps=*/0);
    }
    Tensor through_norm(const variable_list& inputs, const Tensor& v) const {
      return normalize ? normalization_jacobian(sum(inputs[0], inputs[1], inputs[2]), v, eps) : v;
    }

    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted& wanted) const {
      const variable_list wide = in_compute_type(inputs.tensors());
      const Tensor grad_items = through_norm(wide, in_compute_type(grad)).unsqueeze(-2);
      Tensor p;
      Tensor q;
      if (wanted[1] && (wanted[0] || wanted[2])) {
        std::tie(p, q) = bind_backward(grad_items, wide[0], wide[1]);
      } else if (wanted[1]) {
        q = torch_hrr::unbind(grad_items, wide[0]);
      } else {
        p = torch_hrr::unbind(grad_items, wide[1]);
      }
      const auto weighted = [&](const Tensor& x) { return wide[2].defined() ? x * wide[2].unsqueeze(-1) : x; };
      return {wanted[0] ? weighted(p) : Tensor(), wanted[1] ? weighted(q) : Tensor(),
              wanted[2] ? (wide[0] * p).sum(-1) : Tensor()};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      const variable_list wide = in_compute_type(inputs.tensors());
      const variable_list moved = in_compute_type(tangents);
      Tensor direction;
      for (size_t i = 0; i < moved.size(); ++i) {
        if (moved[i].defined()) {
          variable_list arguments = wide;
          arguments[i] = moved[i];
          direction = sum_of_defined(direction, sum(arguments[0], arguments[1], arguments[2]));
        }
      }
      return through_norm(wide, direction);
    }
  };
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<BindSuperpose>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr

namespace torch_hrr {

at::Tensor bind_superpose(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& weights,
                          bool normalize, double eps) {
  return call<hrr::BindSuperpose>(a, b, weights, normalize, eps);
}

}  // namespace torch_hrr
