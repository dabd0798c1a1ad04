// inverse and unitary, and their derivatives.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/ones_like.h>

#include <cmath>
#include <limits>

#include "csrc/hrr/operators.h"
#include "csrc/hrr/spectral_map.h"
#include "csrc/types.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using kernels::SpectralMap;

// Rows of 1, 0, 0, ...: bind's identity; unbind(delta, x) is x[-n mod D].
Tensor delta_like(const Tensor& rows) {
  return at::ones_like(rows).cumsum(-1).eq(1).to(rows.scalar_type());
}

// 1 / A on the bins above eps, 0 elsewhere: dy = -y^2 dA.
struct CutInverse : MapOperator<CutInverse> {
  static constexpr const char* kName = "_cut_inverse";
  static constexpr Operand kOperands[] = {{"a", 1}};
  using Signature = Tensor(const Tensor& a, double eps);
  static constexpr Derivative kDerivative = Derivative::kFormula;

  static MapCall map(const Tensor& a, double eps) {
    return {kName, SpectralMap::kCutInverse, a, {}, {}, eps};
  }
  static Tensor tangent(const Tensor& a, const Tensor& v, double eps) {
    const Tensor y = call<CutInverse>(a, eps);
    return -torch_hrr::bind(torch_hrr::bind(v, y), y);
  }

  struct Formula {
    double eps;

    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted&) const {
      const Tensor y = call<CutInverse>(in_compute_type(inputs[0]), eps);
      return {-torch_hrr::unbind(torch_hrr::unbind(in_compute_type(grad), y), y)};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      return tangent(in_compute_type(inputs[0]), in_compute_type(tangents[0]), eps);
    }
  };
};

double largest_of(const Tensor& rows) {
  return rows.scalar_type() == at::kDouble ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}

struct InverseBackward : MapOperator<InverseBackward> {
  static constexpr const char* kName = "_inverse_backward";
  static constexpr Operand kOperands[] = {{"grad", 1}, {"a", 1}};
  using Signature = Tensor(const Tensor& grad, const Tensor& a, double eps);
  static constexpr Derivative kDerivative = Derivative::kComposition;

  static MapCall map(const Tensor& grad, const Tensor& a, double eps) {
    return {kName, SpectralMap::kInverseBackward, a, grad, {}, eps};
  }
  // Below eps the inverse is conj(A) / eps, a time reversal; elsewhere 1 / A.
  static Tensor compose(const Tensor& half_grad, const Tensor& half_a, double eps) {
    const Tensor grad = in_compute_type(half_grad);
    const Tensor a = in_compute_type(half_a);
    const Tensor y = call<CutInverse>(a, eps);
    // One factor at a time: y^2 may leave a range that the result does not.
    const Tensor regular = -torch_hrr::unbind(torch_hrr::unbind(grad, y), y);
    // 1 / eps in two factors, since eps itself may vanish in float; where they overflow no bin of a row is clamped.
    const double root = 1 / std::sqrt(eps);
    if (root > largest_of(a)) {
      return regular;
    }
    // grad on the bins that are neither empty nor above eps. Which bins those are is a constant: differentiated, the
    // two routes to 1 / A would leave their rounding, divided by eps.
    const Tensor fixed = a.detach();
    const Tensor clamped = torch_hrr::bind(torch_hrr::bind(grad, fixed), torch_hrr::inverse(fixed) - y.detach());
    return regular + torch_hrr::unbind(delta_like(clamped), clamped) * root * root;
  }
};

struct Inverse : MapOperator<Inverse> {
  static constexpr const char* kName = "inverse";
  static constexpr Operand kOperands[] = {{"a", 1}};
  using Signature = Tensor(const Tensor& a, double eps);
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  static MapCall map(const Tensor& a, double eps) {
    return {kName, SpectralMap::kInverse, a, {}, {}, eps};
  }

  struct Formula {
    double eps;

    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted&) const {
      return {call<InverseBackward>(grad, inputs[0], eps)};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      const Tensor a = in_compute_type(inputs[0]);
      const Tensor v = in_compute_type(tangents[0]);
      if (eps == 0) {
        return CutInverse::tangent(a, v, eps);
      }
      // The Jacobian is its own transpose between two reversals, which conjugate V and the result.
      const Tensor delta = delta_like(v);
      const Tensor gradient = InverseBackward::compose(torch_hrr::unbind(delta, v), a, eps);
      return torch_hrr::unbind(delta, gradient);
    }
  };
};

// Symmetric: of a gradient as well as of a tangent.
struct UnitaryJacobian : MapOperator<UnitaryJacobian> {
  static constexpr const char* kName = "_unitary_jacobian";
  static constexpr Operand kOperands[] = {{"v", 1}, {"a", 1}};
  using Signature = Tensor(const Tensor& v, const Tensor& a);
  static constexpr Derivative kDerivative = Derivative::kComposition;

  static MapCall map(const Tensor& v, const Tensor& a) {
    return {kName, SpectralMap::kUnitaryJacobian, a, v, {}, 0, 0, "v"};
  }
  static Tensor compose(const Tensor& half_v, const Tensor& half_a) {
    const Tensor v = in_compute_type(half_v);
    const Tensor a = in_compute_type(half_a);
    // y = A / |A|: dy = i y Im(V conj y) / |A|, and i Im z = (z - conj z) / 2.
    const Tensor turned = torch_hrr::unbind(v, torch_hrr::unitary(a));
    const Tensor imaginary = (turned - torch_hrr::unbind(delta_like(turned), turned)) / 2;
    return torch_hrr::unbind(imaginary, torch_hrr::inverse(a));
  }
};

struct Unitary : MapOperator<Unitary> {
  static constexpr const char* kName = "unitary";
  static constexpr Operand kOperands[] = {{"a", 1}};
  using Signature = Tensor(const Tensor& a);
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  static MapCall map(const Tensor& a) {
    return {kName, SpectralMap::kUnitary, a, {}, {}};
  }

  struct Formula {
    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted&) const {
      return {call<UnitaryJacobian>(grad, inputs[0])};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      return call<UnitaryJacobian>(tangents[0], inputs[0]);
    }
  };
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<Inverse, Unitary, CutInverse, InverseBackward, UnitaryJacobian>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr

namespace torch_hrr {

at::Tensor inverse(const at::Tensor& a, double eps) {
  return call<hrr::Inverse>(a, eps);
}
at::Tensor unitary(const at::Tensor& a) {
  return call<hrr::Unitary>(a);
}

}  // namespace torch_hrr
