// bind_power: CPU and CUDA, Meta, derivatives, autocast, registration.
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <cmath>

#include "csrc/dispatch.h"
#include "csrc/hrr/normalization.h"
#include "csrc/hrr/operators.h"
#include "csrc/hrr/spectral_map.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using kernels::SpectralMap;

MapCall power_call(const Tensor& a, const Tensor& exponent) {
  return {"bind_power", SpectralMap::kPower, a, {}, exponent};
}
MapCall power_log_call(const Tensor& a, const Tensor& exponent, int64_t order) {
  return {"_bind_power_log", SpectralMap::kPower, a, {}, exponent, 0, order};
}
MapCall power_backward_call(const Tensor& grad, const Tensor& a, const Tensor& exponent) {
  return {"_bind_power_backward", SpectralMap::kPowerBackward, a, grad, exponent};
}

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

Tensor compose_power_backward(const Tensor& grad, const Tensor& a, const Tensor& exponent) {
  return torch_hrr::unbind(in_compute_type(grad), power_slope(in_compute_type(a), exponent, 0));
}

// A^e (ln A)^order: closed under both derivatives.
struct PowerFormula {
  static constexpr const char* kName = "TorchHrrBindPowerBackward";
  static constexpr const char* kOperator = "bind_power";
  static constexpr const char* kArguments[] = {"a", "exponent"};
  int64_t order;

  Tensor forward(const Tensor& a, const Tensor& exponent) const {
    return order == 0 ? torch_hrr::bind_power(a, exponent) : bind_power_log(a, exponent, order);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>& wanted) const {
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
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    const Tensor a = in_compute_type(inputs[0]);
    Tensor direction;
    if (tangents[0].defined()) {
      direction = torch_hrr::bind(in_compute_type(tangents[0]), power_slope(a, inputs[1], order));
    }
    if (tangents[1].defined()) {
      const Tensor from_exponent = beside_rows(tangents[1]) * bind_power_log(a, inputs[1], order + 1);
      direction = direction.defined() ? direction + from_exponent : from_exponent;
    }
    return direction;
  }
};

// The same under the name of the private operator.
struct PowerLogFormula : PowerFormula {
  static constexpr const char* kOperator = "_bind_power_log";
};

Tensor bind_power_of_number(const Tensor& a, double exponent) {
  TORCH_CHECK_VALUE(std::isfinite(exponent), "bind_power: exponent must be finite, got ", exponent);
  return torch_hrr::bind_power(a, at::scalar_tensor(exponent, at::TensorOptions().dtype(at::kDouble)));
}

template <c10::DeviceType kDevice>
void register_autocast(torch::Library& m) {
  // Exponents keep their precision: the result takes the rows' type.
  m.impl("bind_power.Tensor", [](const Tensor& a, const Tensor& exponent) {
    const Autocast<kDevice> cast;
    const Tensor rows = cast(a);
    return torch_hrr::bind_power(rows, exponent).to(rows.scalar_type());
  });
}

// The kernels of a device, or of Meta.
template <Tensor (*kRun)(const MapCall&)>
void register_kernels(torch::Library& m) {
  m.impl("bind_power.Tensor", [](const Tensor& a, const Tensor& exponent) { return kRun(power_call(a, exponent)); });
  m.impl("_bind_power_log", [](const Tensor& a, const Tensor& exponent, int64_t order) {
    return kRun(power_log_call(a, exponent, order));
  });
  m.impl("_bind_power_backward", [](const Tensor& grad, const Tensor& a, const Tensor& exponent) {
    return kRun(power_backward_call(grad, a, exponent));
  });
}

}  // namespace

Tensor bind_power_log(const Tensor& a, const Tensor& exponent, int64_t order) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&, int64_t)>("torch_hrr::_bind_power_log");
  return op.call(a, exponent, order);
}
Tensor bind_power_backward(const Tensor& grad, const Tensor& a, const Tensor& exponent) {
  static const auto op =
      typed_operator<Tensor(const Tensor&, const Tensor&, const Tensor&)>("torch_hrr::_bind_power_backward");
  return op.call(grad, a, exponent);
}

}  // namespace torch_hrr::hrr

using namespace torch_hrr::hrr;

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  register_kernels<compute_map>(m);
}
#if defined(TORCH_HRR_WITH_CUDA)
TORCH_LIBRARY_IMPL(torch_hrr, CUDA, m) {
  register_kernels<compute_map>(m);
}
#endif
TORCH_LIBRARY_IMPL(torch_hrr, Meta, m) {
  register_kernels<compute_map_meta>(m);
}
TORCH_LIBRARY_IMPL(torch_hrr, CompositeImplicitAutograd, m) {
  m.impl("bind_power", bind_power_of_number);
}
TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  using torch_hrr::differentiable;
  m.impl("bind_power.Tensor",
         [](const Tensor& a, const Tensor& exponent) { return differentiable(PowerFormula{0}, a, exponent); });
  m.impl("_bind_power_log", [](const Tensor& a, const Tensor& exponent, int64_t order) {
    return differentiable(PowerLogFormula{order}, a, exponent);
  });
  m.impl("_bind_power_backward", [](const Tensor& grad, const Tensor& a, const Tensor& exponent) {
    return derivative_autograd(
        power_backward_call(grad, a, exponent), [&] { return bind_power_backward(grad, a, exponent); },
        [&] { return compose_power_backward(grad, a, exponent); });
  });
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCPU, m) {
  register_autocast<c10::DeviceType::CPU>(m);
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCUDA, m) {
  register_autocast<c10::DeviceType::CUDA>(m);
}
