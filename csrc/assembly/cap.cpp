// k_cap: contract, CPU and CUDA, Meta, derivatives, registration. Autocast leaves it alone: winners hang on every bit.
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <utility>

#include "csrc/assembly/execute.h"
#include "csrc/autograd.h"
#include "csrc/dispatch.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/rows.h"

namespace torch_hrr::assembly {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::CapResult;
using kernels::SoftCapParams;

// What stands in for the derivative of the mask.
enum class Surrogate { kSigmoid, kLaplace, kStraightThrough, kNone };
constexpr std::pair<const char*, Surrogate> kSurrogates[] = {{"sigmoid", Surrogate::kSigmoid},
                                                             {"laplace", Surrogate::kLaplace},
                                                             {"ste", Surrogate::kStraightThrough},
                                                             {"none", Surrogate::kNone}};

Surrogate surrogate_of(const char* op, c10::string_view name) {
  for (const auto& [known, surrogate] : kSurrogates) {
    if (name == known) {
      return surrogate;
    }
  }
  C10_THROW_ERROR(ValueError,
                  c10::str(op, ": surrogate must be 'sigmoid', 'laplace', 'ste' or 'none', got '", name, "'"));
}
c10::string_view name_of(Surrogate surrogate) {
  return kSurrogates[static_cast<size_t>(surrogate)].first;
}
bool is_soft(Surrogate surrogate) {
  return surrogate == Surrogate::kSigmoid || surrogate == Surrogate::kLaplace;
}

// The arguments that are no tensors.
struct CapOptions {
  SymInt k;
  double temperature;
  Surrogate surrogate;
};

constexpr const char* kCap = "k_cap";
constexpr const char* kCapBackward = "_k_cap_backward";

void check_options(const char* op, const Tensor& inputs, const CapOptions& options) {
  const SymInt n = inputs.sym_sizes().back();
  TORCH_CHECK_VALUE(holds(at_most(SymInt(0), options.k)) && holds(at_most(options.k, n)), op,
                    ": k must be between 0 and n = ", n, ", got ", options.k);
  TORCH_CHECK_VALUE(holds(at_most(n, SymInt(INT32_MAX))), op, ": inputs must have a last dimension below 2^31, got ",
                    n);
  TORCH_CHECK_VALUE(options.temperature > 0 && std::isfinite(options.temperature), op,
                    ": temperature must be finite and above 0, got ", options.temperature);
}

// [..., n] gives [..., n].
template <typename Int>
Sizes<Int> cap_contract(const Tensor& inputs, const CapOptions& options, bool soft) {
  check_floating(kCap, {{"inputs", inputs}});
  check_rank(kCap, {"inputs", inputs}, 1, "[..., n]");
  check_options(kCap, inputs, options);
  TORCH_CHECK_VALUE(!soft || is_soft(options.surrogate), kCap,
                    ": surrogate must be 'sigmoid' or 'laplace' with soft, got '", name_of(options.surrogate), "'");
  const auto sizes = sizes_of<Int>(inputs);
  check_numel<Int>(kCap, sizes);
  return Sizes<Int>(sizes.begin(), sizes.end());
}

// grad and inputs broadcast.
template <typename Int>
Sizes<Int> cap_backward_contract(const Tensor& grad, const Tensor& inputs, const CapOptions& options) {
  const Argument first{"inputs", inputs};
  const Argument second{"grad", grad};
  check_floating(kCapBackward, {first, second});
  check_rank(kCapBackward, first, 1, "[..., n]");
  check_rank(kCapBackward, second, 1, "[..., n]");
  const Int n = check_same_last<Int>(kCapBackward, first, second);
  check_options(kCapBackward, inputs, options);
  Sizes<Int> sizes;
  for (const Tensor& tensor : {inputs, grad}) {
    const auto all = sizes_of<Int>(tensor);
    broadcast_into<Int>(kCapBackward, all.slice(0, all.size() - 1), "grad and the leading dimensions of inputs", sizes);
  }
  sizes.push_back(n);
  check_numel<Int>(kCapBackward, sizes);
  return sizes;
}

// The result for rows of inputs and, where it is defined, of the direction v.
Tensor run(CapResult result, const Tensor& inputs, const Tensor& v, const CapOptions& options,
           c10::ArrayRef<int64_t> sizes) {
  const at::ScalarType dtype =
      v.defined() ? c10::promoteTypes(inputs.scalar_type(), v.scalar_type()) : inputs.scalar_type();
  const Tensor out = at::empty(sizes, inputs.options().dtype(dtype));
  if (out.numel() == 0) {
    return out;
  }
  const c10::ArrayRef<int64_t> batch = sizes.slice(0, sizes.size() - 1);
  SoftCapParams params;
  params.rows = product_of(batch);
  params.n = sizes.back();
  params.k = options.k.expect_int();
  params.temperature = options.temperature;
  params.storage = storage_of(out);
  params.shape = options.surrogate == Surrogate::kLaplace ? kernels::CapShape::kLaplace : kernels::CapShape::kSigmoid;
  params.result = result;
  Tensor rows = with_unit_rows(inputs, dtype);
  Tensor directions = v.defined() ? with_unit_rows(v, dtype) : v;
  const auto map_rows = [&] {
    return make_row_map<2>(batch, {RowOperand{&rows, 1}, RowOperand{directions.defined() ? &directions : nullptr, 1}},
                           params.map);
  };
  if (!map_rows()) {
    rows = rows.expand(sizes).contiguous();
    directions = directions.defined() ? directions.expand(sizes).contiguous() : directions;
    map_rows();
  }
  params.inputs = rows.const_data_ptr();
  params.v = directions.defined() ? directions.const_data_ptr() : nullptr;
  params.out = out.mutable_data_ptr();
  execute(params, out);
  return out;
}

// 1 at the winners, else 0.
Tensor mask_of_winners(const Tensor& inputs, int64_t k) {
  const Tensor winners = std::get<1>(torch_hrr::k_winners(inputs, k));
  return at::zeros(inputs.sizes(), inputs.options()).scatter_(-1, winners, 1);
}

Tensor compute(const Tensor& inputs, SymInt k, double temperature, c10::string_view surrogate, bool soft) {
  const CapOptions options{k, temperature, surrogate_of(kCap, surrogate)};
  const auto sizes = cap_contract<int64_t>(inputs, options, soft);
  return soft ? run(CapResult::kSoft, inputs, {}, options, sizes) : mask_of_winners(inputs, options.k.expect_int());
}

Tensor compute_meta(const Tensor& inputs, SymInt k, double temperature, c10::string_view surrogate, bool soft) {
  const auto sizes = cap_contract<SymInt>(inputs, {k, temperature, surrogate_of(kCap, surrogate)}, soft);
  return at::empty_symint(sizes, inputs.options());
}

Tensor compute_backward(const Tensor& grad, const Tensor& inputs, SymInt k, double temperature,
                        c10::string_view surrogate) {
  const CapOptions options{k, temperature, surrogate_of(kCapBackward, surrogate)};
  const auto sizes = cap_backward_contract<int64_t>(grad, inputs, options);
  if (is_soft(options.surrogate)) {
    return run(CapResult::kJacobian, inputs, grad, options, sizes);
  }
  const auto dtype = c10::promoteTypes(inputs.scalar_type(), grad.scalar_type());
  const Tensor out = at::empty(sizes, inputs.options().dtype(dtype));
  return options.surrogate == Surrogate::kNone ? out.zero_() : out.copy_(grad);
}

Tensor compute_backward_meta(const Tensor& grad, const Tensor& inputs, SymInt k, double temperature,
                             c10::string_view surrogate) {
  const auto sizes =
      cap_backward_contract<SymInt>(grad, inputs, {k, temperature, surrogate_of(kCapBackward, surrogate)});
  const auto dtype = c10::promoteTypes(inputs.scalar_type(), grad.scalar_type());
  return at::empty_symint(sizes, inputs.options().dtype(dtype));
}

Tensor call_k_cap(const Tensor& inputs, const CapOptions& options, bool soft) {
  static const auto op =
      typed_operator<Tensor(const Tensor&, SymInt, double, c10::string_view, bool)>("torch_hrr::k_cap");
  return op.call(inputs, options.k, options.temperature, name_of(options.surrogate), soft);
}

Tensor k_cap_backward(const Tensor& grad, const Tensor& inputs, const CapOptions& options) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&, SymInt, double, c10::string_view)>(
      "torch_hrr::_k_cap_backward");
  return op.call(grad, inputs, options.k, options.temperature, name_of(options.surrogate));
}

Tensor in_compute_type(const Tensor& tensor) {
  return tensor.to(at::toOpMathType(tensor.scalar_type()));
}

// J grad = d (grad - <d, grad> / <d, 1>) / tau
Tensor compose_backward(const Tensor& half_grad, const Tensor& half_inputs, const CapOptions& options) {
  if (options.surrogate == Surrogate::kStraightThrough) {
    return half_grad;
  }
  const Tensor grad = in_compute_type(half_grad);
  if (options.surrogate == Surrogate::kNone) {
    return at::zeros_like(grad);
  }
  const Tensor y = call_k_cap(in_compute_type(half_inputs), options, /*soft=*/true);
  const Tensor rest = 1 - y;
  const Tensor d = options.surrogate == Surrogate::kSigmoid ? y * rest : at::minimum(y, rest);
  const Tensor total = d.sum(-1, /*keepdim=*/true);
  // All d are 0 where the gap between winners and the rest is wide, and where k is 0 or n.
  const Tensor divisor = at::where(total.detach() > 0, total, at::ones_like(total));
  const Tensor mean = (d * grad).sum(-1, /*keepdim=*/true) / divisor;
  const double temperature = options.temperature;
  if (temperature >= 1) {
    return d * (grad - mean) / temperature;
  }
  // d is 0 where (grad - mean) / temperature may overflow; float takes no temperature below its range.
  const bool tiny = temperature < std::numeric_limits<float>::min();
  return (tiny ? d.to(at::kDouble) : d) / temperature * (grad - mean);
}

// The Jacobian of the soft winners, their own where soft is set and else the surrogate; it is symmetric.
struct CapFormula {
  static constexpr const char* kName = "TorchHrrKCapBackward";
  static constexpr const char* kOperator = kCap;
  static constexpr const char* kArguments[] = {"inputs"};
  CapOptions options;
  bool soft;

  Tensor forward(const Tensor& inputs) const {
    return call_k_cap(inputs, options, soft);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>&) const {
    return {k_cap_backward(grad, inputs[0], options)};
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    return k_cap_backward(tangents[0], inputs[0], options);
  }
};

Tensor k_cap_autograd(const Tensor& inputs, SymInt k, double temperature, c10::string_view surrogate, bool soft) {
  return differentiable(CapFormula{{k, temperature, surrogate_of(kCap, surrogate)}, soft}, inputs);
}

Tensor k_cap_backward_autograd(const Tensor& grad, const Tensor& inputs, SymInt k, double temperature,
                               c10::string_view surrogate) {
  const CapOptions options{k, temperature, surrogate_of(kCapBackward, surrogate)};
  check_strided(kCapBackward, {{"grad", grad}, {"inputs", inputs}});
  return fused_unless_differentiated([&] { return k_cap_backward(grad, inputs, options); },
                                     [&] {
                                       const auto sizes = cap_backward_contract<SymInt>(grad, inputs, options);
                                       const auto dtype = c10::promoteTypes(inputs.scalar_type(), grad.scalar_type());
                                       return compose_backward(grad, inputs, options)
                                           .to(dtype)
                                           .expand_symint(sizes)
                                           .clone(at::MemoryFormat::Contiguous);
                                     },
                                     grad, inputs);
}

}  // namespace
}  // namespace torch_hrr::assembly

using namespace torch_hrr::assembly;

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  m.impl("k_cap", compute);
  m.impl("_k_cap_backward", compute_backward);
}
#if defined(TORCH_HRR_WITH_CUDA)
TORCH_LIBRARY_IMPL(torch_hrr, CUDA, m) {
  m.impl("k_cap", compute);
  m.impl("_k_cap_backward", compute_backward);
}
#endif
TORCH_LIBRARY_IMPL(torch_hrr, Meta, m) {
  m.impl("k_cap", compute_meta);
  m.impl("_k_cap_backward", compute_backward_meta);
}
TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  m.impl("k_cap", k_cap_autograd);
  m.impl("_k_cap_backward", k_cap_backward_autograd);
}
