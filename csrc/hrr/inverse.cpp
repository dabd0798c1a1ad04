// inverse and unitary: CPU and CUDA, Meta, derivatives, autocast, registration.
#include <ATen/ops/cumsum.h>
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

#include "csrc/dispatch.h"
#include "csrc/hrr/normalization.h"
#include "csrc/hrr/operators.h"
#include "csrc/hrr/spectral_map.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using kernels::SpectralMap;

MapCall inverse_call(const Tensor& a, double eps) {
  return {"inverse", SpectralMap::kInverse, a, {}, {}, eps};
}
MapCall cut_inverse_call(const Tensor& a, double eps) {
  return {"_cut_inverse", SpectralMap::kCutInverse, a, {}, {}, eps};
}
MapCall unitary_call(const Tensor& a) {
  return {"unitary", SpectralMap::kUnitary, a, {}, {}};
}
MapCall inverse_backward_call(const Tensor& grad, const Tensor& a, double eps) {
  return {"_inverse_backward", SpectralMap::kInverseBackward, a, grad, {}, eps};
}
MapCall unitary_jacobian_call(const Tensor& v, const Tensor& a) {
  return {"_unitary_jacobian", SpectralMap::kUnitaryJacobian, a, v, {}, 0, 0, "v"};
}

// Rows of 1, 0, 0, ...: bind's identity; unbind(delta, x) is x[-n mod D].
Tensor delta_like(const Tensor& rows) {
  return at::ones_like(rows).cumsum(-1).eq(1).to(rows.scalar_type());
}

// Below eps the inverse is conj(A) / eps, a time reversal; elsewhere 1 / A.
Tensor compose_inverse_backward(const Tensor& half_grad, const Tensor& half_a, double eps) {
  const Tensor grad = in_compute_type(half_grad);
  const Tensor a = in_compute_type(half_a);
  const Tensor y = cut_inverse(a, eps);
  // One factor at a time: y^2 may leave a range that the result does not.
  const Tensor regular = -torch_hrr::unbind(torch_hrr::unbind(grad, y), y);
  if (eps == 0) {
    return regular;
  }
  // grad on the bins that are neither empty nor above eps
  const Tensor clamped = torch_hrr::bind(torch_hrr::bind(grad, a), torch_hrr::inverse(a) - y);
  return regular + torch_hrr::unbind(delta_like(clamped), clamped) / eps;
}

// y = 1/A on the bins above eps: dy = -y^2 dA.
Tensor cut_inverse_jvp(const Tensor& a, const Tensor& v, double eps) {
  const Tensor y = cut_inverse(a, eps);
  return -torch_hrr::bind(torch_hrr::bind(v, y), y);
}

Tensor compose_unitary_jacobian(const Tensor& half_v, const Tensor& half_a) {
  const Tensor v = in_compute_type(half_v);
  const Tensor a = in_compute_type(half_a);
  // y = A / |A|: dy = i y Im(V conj y) / |A|, and i Im z = (z - conj z) / 2.
  const Tensor turned = torch_hrr::unbind(v, torch_hrr::unitary(a));
  const Tensor imaginary = (turned - torch_hrr::unbind(delta_like(turned), turned)) / 2;
  return torch_hrr::unbind(imaginary, torch_hrr::inverse(a));
}

struct InverseFormula {
  static constexpr const char* kName = "TorchHrrInverseBackward";
  static constexpr const char* kOperator = "inverse";
  static constexpr const char* kArguments[] = {"a"};
  double eps;

  Tensor forward(const Tensor& a) const {
    return torch_hrr::inverse(a, eps);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>&) const {
    return {inverse_backward(grad, inputs[0], eps)};
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    const Tensor a = in_compute_type(inputs[0]);
    const Tensor v = in_compute_type(tangents[0]);
    if (eps == 0) {
      return cut_inverse_jvp(a, v, eps);
    }
    // The Jacobian is its own transpose between two reversals, which conjugate V and the result.
    const Tensor delta = delta_like(v);
    const Tensor gradient = compose_inverse_backward(torch_hrr::unbind(delta, v), a, eps);
    return torch_hrr::unbind(delta, gradient);
  }
};

struct CutInverseFormula {
  static constexpr const char* kName = "TorchHrrCutInverseBackward";
  static constexpr const char* kOperator = "_cut_inverse";
  static constexpr const char* kArguments[] = {"a"};
  double eps;

  Tensor forward(const Tensor& a) const {
    return cut_inverse(a, eps);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>&) const {
    const Tensor y = cut_inverse(in_compute_type(inputs[0]), eps);
    return {-torch_hrr::unbind(torch_hrr::unbind(in_compute_type(grad), y), y)};
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    return cut_inverse_jvp(in_compute_type(inputs[0]), in_compute_type(tangents[0]), eps);
  }
};

struct UnitaryFormula {
  static constexpr const char* kName = "TorchHrrUnitaryBackward";
  static constexpr const char* kOperator = "unitary";
  static constexpr const char* kArguments[] = {"a"};

  Tensor forward(const Tensor& a) const {
    return torch_hrr::unitary(a);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>&) const {
    return {unitary_jacobian(grad, inputs[0])};
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    return unitary_jacobian(tangents[0], inputs[0]);
  }
};

template <c10::DeviceType kDevice>
void register_autocast(torch::Library& m) {
  m.impl("inverse", [](const Tensor& a, double eps) {
    const Autocast<kDevice> cast;
    return torch_hrr::inverse(cast(a), eps);
  });
  m.impl("unitary", [](const Tensor& a) {
    const Autocast<kDevice> cast;
    return torch_hrr::unitary(cast(a));
  });
}

// The kernels of a device, or of Meta.
template <Tensor (*kRun)(const MapCall&)>
void register_kernels(torch::Library& m) {
  m.impl("inverse", [](const Tensor& a, double eps) { return kRun(inverse_call(a, eps)); });
  m.impl("_cut_inverse", [](const Tensor& a, double eps) { return kRun(cut_inverse_call(a, eps)); });
  m.impl("unitary", [](const Tensor& a) { return kRun(unitary_call(a)); });
  m.impl("_inverse_backward",
         [](const Tensor& grad, const Tensor& a, double eps) { return kRun(inverse_backward_call(grad, a, eps)); });
  m.impl("_unitary_jacobian", [](const Tensor& v, const Tensor& a) { return kRun(unitary_jacobian_call(v, a)); });
}

}  // namespace

Tensor cut_inverse(const Tensor& a, double eps) {
  static const auto op = typed_operator<Tensor(const Tensor&, double)>("torch_hrr::_cut_inverse");
  return op.call(a, eps);
}
Tensor inverse_backward(const Tensor& grad, const Tensor& a, double eps) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&, double)>("torch_hrr::_inverse_backward");
  return op.call(grad, a, eps);
}
Tensor unitary_jacobian(const Tensor& v, const Tensor& a) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&)>("torch_hrr::_unitary_jacobian");
  return op.call(v, a);
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
TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  using torch_hrr::differentiable;
  m.impl("inverse", [](const Tensor& a, double eps) { return differentiable(InverseFormula{eps}, a); });
  m.impl("_cut_inverse", [](const Tensor& a, double eps) { return differentiable(CutInverseFormula{eps}, a); });
  m.impl("unitary", [](const Tensor& a) { return differentiable(UnitaryFormula{}, a); });
  m.impl("_inverse_backward", [](const Tensor& grad, const Tensor& a, double eps) {
    return derivative_autograd(
        inverse_backward_call(grad, a, eps), [&] { return inverse_backward(grad, a, eps); },
        [&] { return compose_inverse_backward(grad, a, eps); });
  });
  m.impl("_unitary_jacobian", [](const Tensor& v, const Tensor& a) {
    return derivative_autograd(
        unitary_jacobian_call(v, a), [&] { return unitary_jacobian(v, a); },
        [&] { return compose_unitary_jacobian(v, a); });
  });
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCPU, m) {
  register_autocast<c10::DeviceType::CPU>(m);
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCUDA, m) {
  register_autocast<c10::DeviceType::CUDA>(m);
}
