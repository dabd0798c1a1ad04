// bind, unbind and bind_normalize: CPU and CUDA, Meta, derivatives, autocast, registration.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "csrc/autograd.h"
#include "csrc/dispatch.h"
#include "csrc/hrr/contracts.h"
#include "csrc/hrr/execute.h"
#include "csrc/hrr/library_fft.h"
#include "csrc/hrr/normalization.h"
#include "csrc/hrr/operators.h"
#include "csrc/rows.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::Product;
using Gradients = std::tuple<Tensor, Tensor>;

// What distinguishes the three operators, in their schema's words.
struct Binding {
  const char* name;
  const char* first;
  const char* second;
  Product product;
  bool normalize;
};
constexpr Binding kBind{"bind", "a", "b", Product::kConvolution, false};
constexpr Binding kUnbind{"unbind", "bound", "role", Product::kCorrelation, false};
constexpr Binding kBindNormalize{"bind_normalize", "a", "b", Product::kConvolution, true};

template <typename Int>
ResultContract<Int> contract_of(const Binding& op, const Tensor& a, const Tensor& b, double eps) {
  return binding_contract<Int>(op.name, {op.first, a}, {op.second, b}, eps);
}

void run(const Binding& op, const ResultContract<int64_t>& contract, const Tensor& a, const Tensor& b, double eps,
         const Tensor& out) {
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = sizes.slice(0, sizes.size() - 1);
  kernels::BindingParams params;
  params.rows = product_of(batch);
  params.dim = sizes.back();
  if (params.rows == 0) {
    return;
  }
  if (needs_library_fft(params.dim, a)) {
    const auto items = [&](const Tensor& x) {
      return x.to(contract.dtype).expand(sizes).reshape({params.rows, 1, params.dim});
    };
    return library_record(items(a), items(b), Tensor(), op.product, op.normalize, eps,
                          out.view({params.rows, params.dim}));
  }
  Tensor rows_a = with_unit_rows(a, contract.dtype);
  Tensor rows_b = with_unit_rows(b, contract.dtype);
  const auto map_rows = [&] {
    return make_row_map<2>(batch, {RowOperand{&rows_a, 1}, RowOperand{&rows_b, 1}}, params.map);
  };
  if (!map_rows()) {
    rows_a = rows_a.expand(sizes).contiguous();
    rows_b = rows_b.expand(sizes).contiguous();
    map_rows();
  }
  params.a = rows_a.const_data_ptr();
  params.b = rows_b.const_data_ptr();
  params.out = out.mutable_data_ptr();
  params.product = op.product;
  params.normalize = op.normalize;
  params.eps = eps;
  execute(params, out);
}

Tensor compute(const Binding& op, const Tensor& a, const Tensor& b, double eps = 0) {
  const auto contract = contract_of<int64_t>(op, a, b, eps);
  const Tensor out = at::empty(contract.sizes, a.options().dtype(contract.dtype));
  run(op, contract, a, b, eps, out);
  return out;
}

void compute_out(const Binding& op, const Tensor& a, const Tensor& b, double eps, Tensor& out) {
  const auto contract = contract_of<int64_t>(op, a, b, eps);
  check_out(op.name, out, contract, {{op.first, a}, {op.second, b}});
  if (out.is_contiguous()) {
    return run(op, contract, a, b, eps, out);
  }
  out.copy_(compute(op, a, b, eps));
}

Tensor compute_meta(const Binding& op, const Tensor& a, const Tensor& b, double eps = 0) {
  const auto contract = contract_of<SymInt>(op, a, b, eps);
  return at::empty_symint(contract.sizes, a.options().dtype(contract.dtype));
}

void compute_out_meta(const Binding& op, const Tensor& a, const Tensor& b, double eps, const Tensor& out) {
  check_out(op.name, out, contract_of<SymInt>(op, a, b, eps), {{op.first, a}, {op.second, b}});
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

constexpr const char* backward_name(const Binding& op) {
  return op.normalize ? "_bind_normalize_backward"
                      : (op.product == Product::kConvolution ? "_bind_backward" : "_unbind_backward");
}

template <typename Int>
ResultContract<Int> backward_contract_of(const Binding& op, const Tensor& grad, const Tensor& a, const Tensor& b,
                                         double eps) {
  return binding_backward_contract<Int>(backward_name(op), {"grad", grad}, {op.first, a}, {op.second, b}, eps);
}

Gradients compute_backward(const Binding& op, const Tensor& grad, const Tensor& a, const Tensor& b, double eps = 0) {
  const auto contract = backward_contract_of<int64_t>(op, grad, a, b, eps);
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = sizes.slice(0, sizes.size() - 1);
  kernels::BindingBackwardParams params;
  params.rows = product_of(batch);
  params.dim = sizes.back();
  if (needs_library_fft(params.dim, a)) {
    const auto [grad_a, grad_b] = compose_backward(op, grad, a, b, eps);
    // As in the kernels, a normalised row of which any part is not finite gives NaN rows: 0 for the others.
    const auto poison = [](const Tensor& x) { return x.mul(0).sum(-1, /*keepdim=*/true); };
    const Tensor zero_or_nan = op.normalize ? poison(grad) + poison(a) + poison(b) : Tensor();
    const auto full = [&](const Tensor& x) {
      return (op.normalize ? x + zero_or_nan : x).to(contract.dtype).expand(sizes).contiguous();
    };
    return {full(grad_a), full(grad_b)};
  }
  const Tensor grad_a = at::empty(sizes, a.options().dtype(contract.dtype));
  const Tensor grad_b = at::empty(sizes, a.options().dtype(contract.dtype));
  if (params.rows == 0) {
    return {grad_a, grad_b};
  }
  Tensor rows_grad = with_unit_rows(grad, contract.dtype);
  Tensor rows_a = with_unit_rows(a, contract.dtype);
  Tensor rows_b = with_unit_rows(b, contract.dtype);
  const auto map_rows = [&] {
    return make_row_map<3>(batch, {RowOperand{&rows_grad, 1}, RowOperand{&rows_a, 1}, RowOperand{&rows_b, 1}},
                           params.map);
  };
  if (!map_rows()) {
    rows_grad = rows_grad.expand(sizes).contiguous();
    rows_a = rows_a.expand(sizes).contiguous();
    rows_b = rows_b.expand(sizes).contiguous();
    map_rows();
  }
  params.grad = rows_grad.const_data_ptr();
  params.a = rows_a.const_data_ptr();
  params.b = rows_b.const_data_ptr();
  params.grad_a = grad_a.mutable_data_ptr();
  params.grad_b = grad_b.mutable_data_ptr();
  params.product = op.product;
  params.normalize = op.normalize;
  params.eps = eps;
  execute(params, grad_a);
  return {grad_a, grad_b};
}

Gradients backward_meta(const Binding& op, const Tensor& grad, const Tensor& a, const Tensor& b, double eps = 0) {
  const auto contract = backward_contract_of<SymInt>(op, grad, a, b, eps);
  const auto options = a.options().dtype(contract.dtype);
  return {at::empty_symint(contract.sizes, options), at::empty_symint(contract.sizes, options)};
}

// c = a conv b, then the tangent or gradient of its normalisation.
struct BindFormula {
  static constexpr const char* kName = "TorchHrrBindBackward";
  static constexpr const char* kOperator = "bind";
  static constexpr const char* kArguments[] = {"a", "b"};

  Tensor forward(const Tensor& a, const Tensor& b) const {
    return torch_hrr::bind(a, b);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>& wanted) const {
    if (wanted[0] && wanted[1]) {
      const auto [grad_a, grad_b] = bind_backward(grad, inputs[0], inputs[1]);
      return {grad_a, grad_b};
    }
    return {wanted[0] ? torch_hrr::unbind(grad, inputs[1]) : Tensor(),
            wanted[1] ? torch_hrr::unbind(grad, inputs[0]) : Tensor()};
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    const Tensor from_a = tangents[0].defined() ? torch_hrr::bind(tangents[0], inputs[1]) : Tensor();
    const Tensor from_b = tangents[1].defined() ? torch_hrr::bind(inputs[0], tangents[1]) : Tensor();
    return from_a.defined() && from_b.defined() ? from_a + from_b : (from_a.defined() ? from_a : from_b);
  }
};

struct UnbindFormula {
  static constexpr const char* kName = "TorchHrrUnbindBackward";
  static constexpr const char* kOperator = "unbind";
  static constexpr const char* kArguments[] = {"bound", "role"};

  Tensor forward(const Tensor& bound, const Tensor& role) const {
    return torch_hrr::unbind(bound, role);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>& wanted) const {
    if (wanted[0] && wanted[1]) {
      const auto [grad_bound, grad_role] = unbind_backward(grad, inputs[0], inputs[1]);
      return {grad_bound, grad_role};
    }
    return {wanted[0] ? torch_hrr::bind(grad, inputs[1]) : Tensor(),
            wanted[1] ? torch_hrr::unbind(inputs[0], grad) : Tensor()};
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    const Tensor from_bound = tangents[0].defined() ? torch_hrr::unbind(tangents[0], inputs[1]) : Tensor();
    const Tensor from_role = tangents[1].defined() ? torch_hrr::unbind(inputs[0], tangents[1]) : Tensor();
    return from_bound.defined() && from_role.defined() ? from_bound + from_role
                                                       : (from_bound.defined() ? from_bound : from_role);
  }
};

struct BindNormalizeFormula {
  static constexpr const char* kName = "TorchHrrBindNormalizeBackward";
  static constexpr const char* kOperator = "bind_normalize";
  static constexpr const char* kArguments[] = {"a", "b"};
  double eps;

  Tensor forward(const Tensor& a, const Tensor& b) const {
    return torch_hrr::bind_normalize(a, b, eps);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>&) const {
    const auto [grad_a, grad_b] = bind_normalize_backward(grad, inputs[0], inputs[1], eps);
    return {grad_a, grad_b};
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    const std::vector<Tensor> wide = in_compute_type(inputs);
    return normalization_jacobian(torch_hrr::bind(wide[0], wide[1]), BindFormula{}.jvp(wide, in_compute_type(tangents)),
                                  eps);
  }
};

Tensor bind_autograd(const Tensor& a, const Tensor& b) {
  return differentiable(BindFormula{}, a, b);
}
Tensor unbind_autograd(const Tensor& bound, const Tensor& role) {
  return differentiable(UnbindFormula{}, bound, role);
}
Tensor bind_normalize_autograd(const Tensor& a, const Tensor& b, double eps) {
  return differentiable(BindNormalizeFormula{eps}, a, b);
}
void bind_out_autograd(const Tensor& a, const Tensor& b, Tensor& out) {
  check_strided("bind", {{"a", a}, {"b", b}, {"out", out}});
  not_differentiable_out(
      "bind", [&] { torch_hrr::bind_out(out, a, b); }, out, a, b);
}
void unbind_out_autograd(const Tensor& bound, const Tensor& role, Tensor& out) {
  check_strided("unbind", {{"bound", bound}, {"role", role}, {"out", out}});
  not_differentiable_out(
      "unbind", [&] { torch_hrr::unbind_out(out, bound, role); }, out, bound, role);
}
void bind_normalize_out_autograd(const Tensor& a, const Tensor& b, double eps, Tensor& out) {
  check_strided("bind_normalize", {{"a", a}, {"b", b}, {"out", out}});
  not_differentiable_out(
      "bind_normalize", [&] { torch_hrr::bind_normalize_out(out, a, b, eps); }, out, a, b);
}

// The fused backward or, where it is differentiated itself, the composition with the same checks, shapes and dtype.
template <typename Fused>
Gradients backward_autograd(const Binding& op, const Tensor& grad, const Tensor& a, const Tensor& b, double eps,
                            const Fused& fused) {
  check_strided(backward_name(op), {{"grad", grad}, {op.first, a}, {op.second, b}});
  const auto composition = [&]() -> Gradients {
    const auto contract = backward_contract_of<SymInt>(op, grad, a, b, eps);
    const auto [grad_a, grad_b] = compose_backward(op, grad, a, b, eps);
    const auto full = [&](const Tensor& x) { return x.to(contract.dtype).expand_symint(contract.sizes).contiguous(); };
    return {full(grad_a), full(grad_b)};
  };
  return fused_unless_differentiated(fused, composition, grad, a, b);
}

Gradients bind_backward_autograd(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return backward_autograd(kBind, grad, a, b, 0, [&] { return bind_backward(grad, a, b); });
}
Gradients unbind_backward_autograd(const Tensor& grad, const Tensor& bound, const Tensor& role) {
  return backward_autograd(kUnbind, grad, bound, role, 0, [&] { return unbind_backward(grad, bound, role); });
}
Gradients bind_normalize_backward_autograd(const Tensor& grad, const Tensor& a, const Tensor& b, double eps) {
  return backward_autograd(kBindNormalize, grad, a, b, eps, [&] { return bind_normalize_backward(grad, a, b, eps); });
}

// CPU and CUDA: the parameters are the same, execute() finds the device.
void register_kernels(torch::Library& m) {
  m.impl("bind", [](const Tensor& a, const Tensor& b) { return compute(kBind, a, b); });
  m.impl("unbind", [](const Tensor& a, const Tensor& b) { return compute(kUnbind, a, b); });
  m.impl("bind_normalize",
         [](const Tensor& a, const Tensor& b, double eps) { return compute(kBindNormalize, a, b, eps); });
  m.impl("bind.out", [](const Tensor& a, const Tensor& b, Tensor& out) { compute_out(kBind, a, b, 0, out); });
  m.impl("unbind.out", [](const Tensor& a, const Tensor& b, Tensor& out) { compute_out(kUnbind, a, b, 0, out); });
  m.impl("bind_normalize.out", [](const Tensor& a, const Tensor& b, double eps, Tensor& out) {
    compute_out(kBindNormalize, a, b, eps, out);
  });
  m.impl("_bind_backward",
         [](const Tensor& g, const Tensor& a, const Tensor& b) { return compute_backward(kBind, g, a, b); });
  m.impl("_unbind_backward",
         [](const Tensor& g, const Tensor& a, const Tensor& b) { return compute_backward(kUnbind, g, a, b); });
  m.impl("_bind_normalize_backward", [](const Tensor& g, const Tensor& a, const Tensor& b, double eps) {
    return compute_backward(kBindNormalize, g, a, b, eps);
  });
}

template <c10::DeviceType kDevice>
void register_autocast(torch::Library& m) {
  m.impl("bind", [](const Tensor& a, const Tensor& b) {
    const Autocast<kDevice> cast;
    return torch_hrr::bind(cast(a), cast(b));
  });
  m.impl("unbind", [](const Tensor& bound, const Tensor& role) {
    const Autocast<kDevice> cast;
    return torch_hrr::unbind(cast(bound), cast(role));
  });
  m.impl("bind_normalize", [](const Tensor& a, const Tensor& b, double eps) {
    const Autocast<kDevice> cast;
    return torch_hrr::bind_normalize(cast(a), cast(b), eps);
  });
}

}  // namespace
}  // namespace torch_hrr::hrr

using namespace torch_hrr::hrr;

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  register_kernels(m);
}
#if defined(TORCH_HRR_WITH_CUDA)
TORCH_LIBRARY_IMPL(torch_hrr, CUDA, m) {
  register_kernels(m);
}
#endif
TORCH_LIBRARY_IMPL(torch_hrr, Meta, m) {
  m.impl("bind", [](const Tensor& a, const Tensor& b) { return compute_meta(kBind, a, b); });
  m.impl("unbind", [](const Tensor& a, const Tensor& b) { return compute_meta(kUnbind, a, b); });
  m.impl("bind_normalize",
         [](const Tensor& a, const Tensor& b, double eps) { return compute_meta(kBindNormalize, a, b, eps); });
  m.impl("bind.out", [](const Tensor& a, const Tensor& b, Tensor& out) { compute_out_meta(kBind, a, b, 0, out); });
  m.impl("unbind.out", [](const Tensor& a, const Tensor& b, Tensor& out) { compute_out_meta(kUnbind, a, b, 0, out); });
  m.impl("bind_normalize.out", [](const Tensor& a, const Tensor& b, double eps, Tensor& out) {
    compute_out_meta(kBindNormalize, a, b, eps, out);
  });
  m.impl("_bind_backward",
         [](const Tensor& g, const Tensor& a, const Tensor& b) { return backward_meta(kBind, g, a, b); });
  m.impl("_unbind_backward",
         [](const Tensor& g, const Tensor& a, const Tensor& b) { return backward_meta(kUnbind, g, a, b); });
  m.impl("_bind_normalize_backward", [](const Tensor& g, const Tensor& a, const Tensor& b, double eps) {
    return backward_meta(kBindNormalize, g, a, b, eps);
  });
}

TORCH_LIBRARY_IMPL(torch_hrr, Negative, m) {
  m.impl("bind.out", [](const Tensor& a, const Tensor& b, Tensor& out) {
    torch_hrr::write_plain(out, [&](Tensor& plain) { torch_hrr::bind_out(plain, a.resolve_neg(), b.resolve_neg()); });
  });
  m.impl("unbind.out", [](const Tensor& a, const Tensor& b, Tensor& out) {
    torch_hrr::write_plain(out, [&](Tensor& plain) { torch_hrr::unbind_out(plain, a.resolve_neg(), b.resolve_neg()); });
  });
  m.impl("bind_normalize.out", [](const Tensor& a, const Tensor& b, double eps, Tensor& out) {
    torch_hrr::write_plain(
        out, [&](Tensor& plain) { torch_hrr::bind_normalize_out(plain, a.resolve_neg(), b.resolve_neg(), eps); });
  });
}

TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  m.impl("bind", bind_autograd);
  m.impl("unbind", unbind_autograd);
  m.impl("bind_normalize", bind_normalize_autograd);
  m.impl("bind.out", bind_out_autograd);
  m.impl("unbind.out", unbind_out_autograd);
  m.impl("bind_normalize.out", bind_normalize_out_autograd);
  m.impl("_bind_backward", bind_backward_autograd);
  m.impl("_unbind_backward", unbind_backward_autograd);
  m.impl("_bind_normalize_backward", bind_normalize_backward_autograd);
}

TORCH_LIBRARY_IMPL(torch_hrr, AutocastCPU, m) {
  register_autocast<c10::DeviceType::CPU>(m);
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCUDA, m) {
  register_autocast<c10::DeviceType::CUDA>(m);
}
