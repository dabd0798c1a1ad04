// bind, unbind and bind_normalize, and their fused gradients.
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
using kernels::Product;
using Gradients = std::tuple<Tensor, Tensor>;

// Which product of rows, and whether it is divided by its norm.
struct Binding {
  Product product;
  bool normalize;
};
constexpr Binding kBind{Product::kConvolution, false};
constexpr Binding kUnbind{Product::kCorrelation, false};
constexpr Binding kBindNormalize{Product::kConvolution, true};

void run_binding(const Binding& op, const ResultContract<int64_t>& contract, const Tensor& a, const Tensor& b,
                 double eps, const Tensor& out) {
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = all_but_last(sizes);
  kernels::BindParams params;
  params.rows = product_of(batch);
  params.dim = sizes.back();
  if (params.rows == 0) {
    return;
  }
  params.plan = plan_rows(params, a, contract.dtype);
  if (params.plan.path == kernels::RowPath::kLibrary) {
    const auto items = [&](const Tensor& x) {
      return x.to(contract.dtype).expand(sizes).reshape({params.rows, 1, params.dim});
    };
    return library_bind_superpose(items(a), items(b), Tensor(), op.product, op.normalize, eps,
                                  out.view({params.rows, params.dim}));
  }
  const Rows<2> rows(batch, {{{with_unit_rows(a, contract.dtype), 1}, {with_unit_rows(b, contract.dtype), 1}}});
  params.map = rows.map();
  params.a = rows.data(0);
  params.b = rows.data(1);
  params.out = out.mutable_data_ptr();
  params.product = op.product;
  params.normalize = op.normalize;
  params.eps = eps;
  execute(params, out);
}

// The gradients in operators that have derivatives of their own.
Gradients compose_backward(const Binding& op, const Tensor& grad, const Tensor& a, const Tensor& b, double eps) {
  if (op.product == Product::kCorrelation) {
    return {torch_hrr::bind(grad, b), torch_hrr::unbind(a, grad)};
  }
  if (!op.normalize) {
    return {torch_hrr::unbind(grad, b), torch_hrr::unbind(grad, a)};
  }
  const Tensor wide_a = in_compute_type(a);
  const Tensor wide_b = in_compute_type(b);
  const Tensor upstream = normalization_jacobian(torch_hrr::bind(wide_a, wide_b), in_compute_type(grad), eps);
  return {torch_hrr::unbind(upstream, wide_b), torch_hrr::unbind(upstream, wide_a)};
}

void run_backward(const Binding& op, const ResultContract<int64_t>& contract, const Tensor& grad, const Tensor& a,
                  const Tensor& b, double eps, const Gradients& results) {
  const auto& [grad_a, grad_b] = results;
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = all_but_last(sizes);
  kernels::BindBackwardParams params;
  params.rows = product_of(batch);
  params.dim = sizes.back();
  if (params.rows == 0) {
    return;
  }
  params.plan = plan_rows(params, a, contract.dtype);
  if (params.plan.path == kernels::RowPath::kLibrary) {
    const auto [composed_a, composed_b] = compose_backward(op, grad, a, b, eps);
    // As in the kernels, a normalised row of which any part is not finite gives NaN rows: 0 for the others.
    const auto poison = [](const Tensor& x) { return x.mul(0).sum(-1, /*keepdim=*/true); };
    const Tensor zero_or_nan = op.normalize ? poison(grad) + poison(a) + poison(b) : Tensor();
    grad_a.copy_(op.normalize ? composed_a + zero_or_nan : composed_a);
    grad_b.copy_(op.normalize ? composed_b + zero_or_nan : composed_b);
    return;
  }
  const Rows<3> rows(batch, {{{with_unit_rows(grad, contract.dtype), 1},
                              {with_unit_rows(a, contract.dtype), 1},
                              {with_unit_rows(b, contract.dtype), 1}}});
  params.map = rows.map();
  params.grad = rows.data(0);
  params.a = rows.data(1);
  params.b = rows.data(2);
  params.grad_a = grad_a.mutable_data_ptr();
  params.grad_b = grad_b.mutable_data_ptr();
  params.product = op.product;
  params.normalize = op.normalize;
  params.eps = eps;
  execute(params, grad_a);
}

// The operators' traits, with eps where they normalise.
template <typename Op>
struct BackwardOperator : Operator {
  static constexpr Derivative kDerivative = Derivative::kComposition;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& grad, const Tensor& a, const Tensor& b, double eps = 0) {
    return bind_backward_contract<Int>(Op::kName, {Op::kOperands[0].name, grad}, {Op::kOperands[1].name, a},
                                       {Op::kOperands[2].name, b}, eps);
  }
  static void run(const ResultContract<int64_t>& contract, const Gradients& results, const Tensor& grad,
                  const Tensor& a, const Tensor& b, double eps = 0) {
    run_backward(Op::kBinding, contract, grad, a, b, eps, results);
  }
  static Gradients compose(const Tensor& grad, const Tensor& a, const Tensor& b, double eps = 0) {
    return compose_backward(Op::kBinding, grad, a, b, eps);
  }
};

struct BindBackward : BackwardOperator<BindBackward> {
  static constexpr const char* kName = "_bind_backward";
  static constexpr Operand kOperands[] = {{"grad", 1}, {"a", 1}, {"b", 1}};
  static constexpr Binding kBinding = kBind;
  using Signature = Gradients(const Tensor& grad, const Tensor& a, const Tensor& b);
};
struct UnbindBackward : BackwardOperator<UnbindBackward> {
  static constexpr const char* kName = "_unbind_backward";
  static constexpr Operand kOperands[] = {{"grad", 1}, {"bound", 1}, {"role", 1}};
  static constexpr Binding kBinding = kUnbind;
  using Signature = Gradients(const Tensor& grad, const Tensor& bound, const Tensor& role);
};
struct BindNormalizeBackward : BackwardOperator<BindNormalizeBackward> {
  static constexpr const char* kName = "_bind_normalize_backward";
  static constexpr Operand kOperands[] = {{"grad", 1}, {"a", 1}, {"b", 1}};
  static constexpr Binding kBinding = kBindNormalize;
  using Signature = Gradients(const Tensor& grad, const Tensor& a, const Tensor& b, double eps);
};

template <typename Op>
struct ForwardOperator : Operator {
  static constexpr bool kHasOut = true;
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& a, const Tensor& b, double eps = 0) {
    return bind_contract<Int>(Op::kName, {Op::kOperands[0].name, a}, {Op::kOperands[1].name, b}, eps);
  }
  static void run(const ResultContract<int64_t>& contract, const Tensor& out, const Tensor& a, const Tensor& b,
                  double eps = 0) {
    run_binding(Op::kBinding, contract, a, b, eps, out);
  }
};

struct Bind : ForwardOperator<Bind> {
  static constexpr const char* kName = "bind";
  static constexpr Operand kOperands[] = {{"a", 1}, {"b", 1}};
  static constexpr Binding kBinding = kBind;
  using Signature = Tensor(const Tensor& a, const Tensor& b);

  struct Formula : BilinearFormula {
    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted& wanted) const {
      if (wanted[0] && wanted[1]) {
        const auto [grad_a, grad_b] = call<BindBackward>(grad, inputs[0], inputs[1]);
        return {grad_a, grad_b};
      }
      return {wanted[0] ? torch_hrr::unbind(grad, inputs[1]) : Tensor(),
              wanted[1] ? torch_hrr::unbind(grad, inputs[0]) : Tensor()};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      return sum_of_defined(tangents[0].defined() ? torch_hrr::bind(tangents[0], inputs[1]) : Tensor(),
                            tangents[1].defined() ? torch_hrr::bind(inputs[0], tangents[1]) : Tensor());
    }
  };
};

struct Unbind : ForwardOperator<Unbind> {
  static constexpr const char* kName = "unbind";
  static constexpr Operand kOperands[] = {{"bound", 1}, {"role", 1}};
  static constexpr Binding kBinding = kUnbind;
  using Signature = Tensor(const Tensor& bound, const Tensor& role);

  struct Formula : BilinearFormula {
    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted& wanted) const {
      if (wanted[0] && wanted[1]) {
        const auto [grad_bound, grad_role] = call<UnbindBackward>(grad, inputs[0], inputs[1]);
        return {grad_bound, grad_role};
      }
      return {wanted[0] ? torch_hrr::bind(grad, inputs[1]) : Tensor(),
              wanted[1] ? torch_hrr::unbind(inputs[0], grad) : Tensor()};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      return sum_of_defined(tangents[0].defined() ? torch_hrr::unbind(tangents[0], inputs[1]) : Tensor(),
                            tangents[1].defined() ? torch_hrr::unbind(inputs[0], tangents[1]) : Tensor());
    }
  };
};

struct BindNormalize : ForwardOperator<BindNormalize> {
  static constexpr const char* kName = "bind_normalize";
  static constexpr Operand kOperands[] = {{"a", 1}, {"b", 1}};
  static constexpr Binding kBinding = kBindNormalize;
  using Signature = Tensor(const Tensor& a, const Tensor& b, double eps);

  // c = a conv b, then the tangent or gradient of its normalisation.
  struct Formula {
    double eps;

    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted&) const {
      const auto [grad_a, grad_b] = call<BindNormalizeBackward>(grad, inputs[0], inputs[1], eps);
      return {grad_a, grad_b};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      const variable_list wide = in_compute_type(inputs.tensors());
      const variable_list moved = in_compute_type(tangents);
      const Tensor direction = sum_of_defined(moved[0].defined() ? torch_hrr::bind(moved[0], wide[1]) : Tensor(),
                                              moved[1].defined() ? torch_hrr::bind(wide[0], moved[1]) : Tensor());
      return normalization_jacobian(torch_hrr::bind(wide[0], wide[1]), direction, eps);
    }
  };
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<Bind, Unbind, BindNormalize, BindBackward, UnbindBackward, BindNormalizeBackward>(m);
}

}  // namespace

std::tuple<Tensor, Tensor> bind_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return call<BindBackward>(grad, a, b);
}

}  // namespace torch_hrr::hrr

namespace torch_hrr {

using at::Tensor;

Tensor bind(const Tensor& a, const Tensor& b) {
  return call<hrr::Bind>(a, b);
}
Tensor unbind(const Tensor& bound, const Tensor& role) {
  return call<hrr::Unbind>(bound, role);
}
Tensor bind_normalize(const Tensor& a, const Tensor& b, double eps) {
  return call<hrr::BindNormalize>(a, b, eps);
}
void bind_out(Tensor& out, const Tensor& a, const Tensor& b) {
  call_out<hrr::Bind>(a, b, out);
}
void unbind_out(Tensor& out, const Tensor& bound, const Tensor& role) {
  call_out<hrr::Unbind>(bound, role, out);
}
void bind_normalize_out(Tensor& out, const Tensor& a, const Tensor& b, double eps) {
  call_out<hrr::BindNormalize>(a, b, eps, out);
}

}  // namespace torch_hrr
