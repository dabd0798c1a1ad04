// k_cap: the mask of the winners with a surrogate derivative, or soft winners. Autocast leaves it alone: winners hang
// on every bit.
#include <ATen/TensorOperators.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

#include "csrc/assembly/execute.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "csrc/rows.h"
#include "csrc/types.h"

namespace torch_hrr::assembly {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::CapResult;
using kernels::SoftCapParams;

// What stands in for the derivative of the mask.
enum class Surrogate { kSigmoid, kLaplace, kStraightThrough, kNone };
constexpr Choice<Surrogate> kSurrogates[] = {{"sigmoid", Surrogate::kSigmoid},
                                             {"laplace", Surrogate::kLaplace},
                                             {"ste", Surrogate::kStraightThrough},
                                             {"none", Surrogate::kNone}};

bool is_soft(Surrogate surrogate) {
  return surrogate == Surrogate::kSigmoid || surrogate == Surrogate::kLaplace;
}

// The arguments that are no tensors.
struct CapOptions {
  SymInt k;
  double temperature;
  Surrogate surrogate;
};

CapOptions options_of(const char* op, const SymInt& k, double temperature, c10::string_view surrogate) {
  return {k, temperature, choice<Surrogate>(op, "surrogate", surrogate, kSurrogates)};
}

void check_options(const char* op, const Tensor& inputs, const CapOptions& options) {
  const SymInt n = inputs.sym_sizes().back();
  TORCH_CHECK_VALUE(holds(at_most(SymInt(0), options.k)) && holds(at_most(options.k, n)), op,
                    ": k must be between 0 and n = ", n, ", got ", options.k);
  TORCH_CHECK_VALUE(holds(at_most(n, SymInt(INT32_MAX))), op, ": inputs must have a last dimension below 2^31, got ",
                    n);
  TORCH_CHECK_VALUE(options.temperature > 0 && std::isfinite(options.temperature), op,
                    ": temperature must be finite and above 0, got ", options.temperature);
}

// The result for rows of inputs and, where it is defined, of the direction v.
void run_cap(CapResult result, const Tensor& inputs, const Tensor& v, const CapOptions& options, const Tensor& out) {
  if (out.numel() == 0) {
    return;
  }
  const at::ScalarType dtype = out.scalar_type();
  const c10::ArrayRef<int64_t> sizes = out.sizes();
  const c10::ArrayRef<int64_t> batch = all_but_last(sizes);
  SoftCapParams params;
  params.rows = product_of(batch);
  params.n = sizes.back();
  params.k = options.k.expect_int();
  params.temperature = options.temperature;
  params.storage = storage_of(out);
  params.shape = options.surrogate == Surrogate::kLaplace ? kernels::CapShape::kLaplace : kernels::CapShape::kSigmoid;
  params.result = result;
  const Rows<2> rows(batch, {{{with_unit_rows(inputs, dtype), 1}, {v.defined() ? with_unit_rows(v, dtype) : v, 1}}});
  params.map = rows.map();
  params.inputs = rows.data(0);
  params.v = rows.data(1);
  params.out = out.mutable_data_ptr();
  execute(params, out);
}

Tensor soft_winners(const Tensor& inputs, const CapOptions& options);

// J grad = d (grad - <d, grad> / <d, 1>) / tau
Tensor compose_backward(const Tensor& half_grad, const Tensor& half_inputs, const CapOptions& options) {
  if (options.surrogate == Surrogate::kStraightThrough) {
    // A copy: the result of an operator is never its argument.
    return half_grad.clone();
  }
  const Tensor grad = in_compute_type(half_grad);
  if (options.surrogate == Surrogate::kNone) {
    return at::zeros_like(grad);
  }
  const Tensor y = soft_winners(in_compute_type(half_inputs), options);
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

struct KCapBackward : Operator {
  static constexpr const char* kName = "_k_cap_backward";
  static constexpr Operand kOperands[] = {{"grad", 1}, {"inputs", 1}};
  using Signature = Tensor(const Tensor& grad, const Tensor& inputs, SymInt k, double temperature,
                           c10::string_view surrogate);
  static constexpr Derivative kDerivative = Derivative::kComposition;

  // grad and inputs broadcast.
  template <typename Int>
  static ResultContract<Int> contract(const Tensor& grad, const Tensor& inputs, const Int& k, double temperature,
                                      c10::string_view surrogate) {
    const CapOptions options = options_of(kName, k, temperature, surrogate);
    const Argument first{"inputs", inputs};
    const Argument second{"grad", grad};
    check_floating(kName, {first, second});
    check_rank(kName, first, 1, "[..., n]");
    check_rank(kName, second, 1, "[..., n]");
    const Int n = check_same_last<Int>(kName, first, second);
    check_options(kName, inputs, options);
    ResultContract<Int> result{{}, promote(inputs, grad)};
    for (const Tensor& tensor : {inputs, grad}) {
      broadcast_into<Int>(kName, all_but_last(sizes_of<Int>(tensor)), "grad and the leading dimensions of inputs",
                          result.sizes);
    }
    result.sizes.push_back(n);
    check_numel<Int>(kName, result.sizes);
    return result;
  }

  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& grad, const Tensor& inputs,
                  int64_t k, double temperature, c10::string_view surrogate) {
    const CapOptions options = options_of(kName, k, temperature, surrogate);
    if (is_soft(options.surrogate)) {
      run_cap(CapResult::kJacobian, inputs, grad, options, out);
    } else if (options.surrogate == Surrogate::kNone) {
      out.zero_();
    } else {
      out.copy_(grad);
    }
  }

  static Tensor compose(const Tensor& grad, const Tensor& inputs, const SymInt& k, double temperature,
                        c10::string_view surrogate) {
    return compose_backward(grad, inputs, options_of(kName, k, temperature, surrogate));
  }
};

struct KCap : Operator {
  static constexpr const char* kName = "k_cap";
  static constexpr Operand kOperands[] = {{"inputs", 1}};
  using Signature = Tensor(const Tensor& inputs, SymInt k, double temperature, c10::string_view surrogate, bool soft);
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& inputs, const Int& k, double temperature,
                                      c10::string_view surrogate, bool soft) {
    const CapOptions options = options_of(kName, k, temperature, surrogate);
    check_floating(kName, {{"inputs", inputs}});
    check_rank(kName, {"inputs", inputs}, 1, "[..., n]");
    check_options(kName, inputs, options);
    TORCH_CHECK_VALUE(!soft || is_soft(options.surrogate), kName,
                      ": surrogate must be 'sigmoid' or 'laplace' with soft, got '", surrogate, "'");
    const auto sizes = sizes_of<Int>(inputs);
    check_numel<Int>(kName, sizes);
    return {Sizes<Int>(sizes.begin(), sizes.end()), inputs.scalar_type()};
  }

  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& inputs, int64_t k,
                  double temperature, c10::string_view surrogate, bool soft) {
    if (soft) {
      return run_cap(CapResult::kSoft, inputs, {}, options_of(kName, k, temperature, surrogate), out);
    }
    // 1 at the winners, else 0.
    out.zero_().scatter_(-1, std::get<1>(torch_hrr::k_winners(inputs, k)), 1);
  }

  // The Jacobian of the soft winners, their own where soft is set and else the surrogate; it is symmetric.
  struct Formula {
    CapOptions options;

    bool reads(size_t, const Wanted&) const {
      return is_soft(options.surrogate);
    }
    Tensor jacobian(const Tensor& v, const Tensor& inputs) const {
      if (!is_soft(options.surrogate)) {
        return compose_backward(v, inputs, options);
      }
      return call<KCapBackward>(v, inputs, options.k, options.temperature, name_of(options.surrogate, kSurrogates));
    }
    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted&) const {
      return {jacobian(grad, inputs[0])};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      return jacobian(tangents[0], inputs[0]);
    }
  };
  static Formula formula(const Tensor&, const SymInt& k, double temperature, c10::string_view surrogate, bool) {
    return {options_of(kName, k, temperature, surrogate)};
  }
};

Tensor soft_winners(const Tensor& inputs, const CapOptions& options) {
  return call<KCap>(inputs, options.k, options.temperature, name_of(options.surrogate, kSurrogates), /*soft=*/true);
}

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<KCap, KCapBackward>(m);
}

}  // namespace
}  // namespace torch_hrr::assembly

namespace torch_hrr {

at::Tensor k_cap(const at::Tensor& inputs, int64_t k, double temperature, std::string_view surrogate, bool soft) {
  return call<assembly::KCap>(inputs, k, temperature, surrogate, soft);
}

}  // namespace torch_hrr
