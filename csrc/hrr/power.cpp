// bind_power and its derivatives.
#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>

#include <cmath>

#include "csrc/hrr/operators.h"
#include "csrc/hrr/spectral_map.h"
#include "csrc/types.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using kernels::SpectralMap;

Tensor bind_power_log(const Tensor& a, const Tensor& exponent, int64_t order);
Tensor bind_power_backward(const Tensor& grad, const Tensor& a, const Tensor& exponent);

// The exponent beside rows: one dimension more, a number as it is.
Tensor beside_rows(const Tensor& exponent) {
  return exponent.dim() == 0 ? exponent : exponent.unsqueeze(-1);
}

// d/dA of A^e (ln A)^order = e A^(e-1) (ln A)^order + order A^(e-1) (ln A)^(order-1)
Tensor power_slope(const Tensor& a, const Tensor& exponent, int64_t order) {
  // In the rows' type at least: one less than a number of a narrower one may not be one of its numbers.
  const Tensor wide = exponent.to(c10::promoteTypes(exponent.scalar_type(), in_compute_type(a).scalar_type()));
  const Tensor less = wide - 1;
  const Tensor slope = beside_rows(wide) * bind_power_log(a, less, order);
  return order == 0 ? slope : slope + order * bind_power_log(a, less, order - 1);
}

// A^e (ln A)^order: closed under both derivatives.
struct PowerFormula {
  int64_t order = 0;

  variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted& wanted) const {
    const Tensor a = in_compute_type(inputs[0]);
    const Tensor g = in_compute_type(grad);
    variable_list grads(2);
    if (wanted[0]) {
      grads[0] =
          order == 0 ? bind_power_backward(g, a, inputs[1]) : torch_hrr::unbind(g, power_slope(a, inputs[1], order));
    }
    if (wanted[1]) {
      grads[1] = (g * bind_power_log(a, inputs[1], order + 1)).sum(-1).to(inputs[1].device());
    }
    return grads;
  }
  Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
    const Tensor a = in_compute_type(inputs[0]);
    Tensor direction;
    if (tangents[0].defined()) {
      direction = torch_hrr::bind(in_compute_type(tangents[0]), power_slope(a, inputs[1], order));
    }
    if (tangents[1].defined()) {
      direction = sum_of_defined(direction, beside_rows(tangents[1]) * bind_power_log(a, inputs[1], order + 1));
    }
    return direction;
  }
};

// Exponents keep their precision under autocast: the result takes the rows' type.
struct BindPower : MapOperator<BindPower> {
  static constexpr const char* kName = "bind_power";
  static constexpr const char* kOverload = "Tensor";
  static constexpr Operand kOperands[] = {{"a", 1}, {.name = "exponent", .trailing = 0, .cast = false}};
  using Signature = Tensor(const Tensor& a, const Tensor& exponent);
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;
  using Formula = PowerFormula;

  static MapCall map(const Tensor& a, const Tensor& exponent) {
    MapCall call{kName, SpectralMap::kPower, a, {}, exponent};
    call.is_power_itself = true;
    return call;
  }
};

struct BindPowerLog : MapOperator<BindPowerLog> {
  static constexpr const char* kName = "_bind_power_log";
  static constexpr Operand kOperands[] = {{"a", 1}, {"exponent", 0}};
  using Signature = Tensor(const Tensor& a, const Tensor& exponent, int64_t order);
  static constexpr Derivative kDerivative = Derivative::kFormula;
  using Formula = PowerFormula;

  static MapCall map(const Tensor& a, const Tensor& exponent, int64_t order) {
    return {kName, SpectralMap::kPower, a, {}, exponent, 0, order};
  }
};

struct BindPowerBackward : MapOperator<BindPowerBackward> {
  static constexpr const char* kName = "_bind_power_backward";
  static constexpr Operand kOperands[] = {{"grad", 1}, {"a", 1}, {"exponent", 0}};
  using Signature = Tensor(const Tensor& grad, const Tensor& a, const Tensor& exponent);
  static constexpr Derivative kDerivative = Derivative::kComposition;

  static MapCall map(const Tensor& grad, const Tensor& a, const Tensor& exponent) {
    return {kName, SpectralMap::kPowerBackward, a, grad, exponent};
  }
  static Tensor compose(const Tensor& grad, const Tensor& a, const Tensor& exponent) {
    return torch_hrr::unbind(in_compute_type(grad), power_slope(in_compute_type(a), exponent, 0));
  }
};

Tensor bind_power_log(const Tensor& a, const Tensor& exponent, int64_t order) {
  return call<BindPowerLog>(a, exponent, order);
}
Tensor bind_power_backward(const Tensor& grad, const Tensor& a, const Tensor& exponent) {
  return call<BindPowerBackward>(grad, a, exponent);
}

Tensor bind_power_of_number(const Tensor& a, double exponent) {
  TORCH_CHECK_VALUE(std::isfinite(exponent), "bind_power: exponent must be finite, got ", exponent);
  return torch_hrr::bind_power(a, at::scalar_tensor(exponent, at::TensorOptions().dtype(at::kDouble)));
}

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<BindPower, BindPowerLog, BindPowerBackward>(m);
  m.impl("bind_power", c10::DispatchKey::CompositeImplicitAutograd, &bind_power_of_number);
  constexpr Operand kRows{"a", 1};
  lanes::report("bind_power", "", kRows);
}

}  // namespace
}  // namespace torch_hrr::hrr

namespace torch_hrr {

using at::Tensor;

Tensor bind_power(const Tensor& a, const Tensor& exponent) {
  return call<hrr::BindPower>(a, exponent);
}
Tensor bind_power(const Tensor& a, double exponent) {
  static const auto op = typed_operator<Tensor(const Tensor&, double)>("bind_power", "");
  return op.call(a, exponent);
}

}  // namespace torch_hrr
