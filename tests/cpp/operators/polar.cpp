// _polar: radius and angle of points of the plane and the quadrant's number, an operator of several results, two of
// them differentiable.
#include <ATen/TensorOperators.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/hypot.h>

#include "csrc/operator.h"

namespace torch_hrr {
namespace {

using at::Tensor;
using Polar = std::tuple<Tensor, Tensor, Tensor>;

struct PolarOperator : Operator {
  static constexpr const char* kName = "_polar";
  static constexpr Operand kOperands[] = {{"x", 0}, {"y", 0}};
  using Signature = Polar(const Tensor& x, const Tensor& y);
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static std::array<ResultContract<Int>, 3> contract(const Tensor& x, const Tensor& y) {
    check_floating(kName, {{"x", x}, {"y", y}});
    Sizes<Int> sizes;
    broadcast_into<Int>(kName, sizes_of<Int>(x), "x and y", sizes);
    broadcast_into<Int>(kName, sizes_of<Int>(y), "x and y", sizes);
    const ResultContract<Int> floating{sizes, promote(x, y)};
    return {floating, floating, {sizes, at::kLong}};
  }
  static void run(const std::array<ResultContract<int64_t>, 3>&, const Polar& results, const Tensor& x,
                  const Tensor& y) {
    std::get<0>(results).copy_(at::hypot(x, y));
    std::get<1>(results).copy_(at::atan2(y, x));
    std::get<2>(results).copy_(x.lt(0).to(at::kLong) + y.lt(0).to(at::kLong) * 2);
  }

  // d radius = (x dx + y dy) / r, d angle = (x dy - y dx) / r^2
  struct Formula {
    static constexpr size_t kResults = 2;

    variable_list backward(const Saved& inputs, const variable_list& grads, const Wanted& wanted) const {
      const Tensor& x = inputs[0];
      const Tensor& y = inputs[1];
      const Tensor radius = at::hypot(x, y);
      const auto part = [](const Tensor& grad, const Tensor& slope) { return grad.defined() ? grad * slope : grad; };
      const Tensor dx = sum_of_defined(part(grads[0], x / radius), part(grads[1], -y / radius.square()));
      const Tensor dy = sum_of_defined(part(grads[0], y / radius), part(grads[1], x / radius.square()));
      return {wanted[0] ? dx : Tensor(), wanted[1] ? dy : Tensor()};
    }
    variable_list jvp(const Saved& inputs, const variable_list& tangents) const {
      const Tensor& x = inputs[0];
      const Tensor& y = inputs[1];
      const Tensor radius = at::hypot(x, y);
      const auto part = [](const Tensor& moved, const Tensor& slope) {
        return moved.defined() ? moved * slope : moved;
      };
      return {sum_of_defined(part(tangents[0], x / radius), part(tangents[1], y / radius)),
              sum_of_defined(part(tangents[0], -y / radius.square()), part(tangents[1], x / radius.square()))};
    }
  };
};

}  // namespace
}  // namespace torch_hrr

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  m.def("_polar(Tensor x, Tensor y) -> (Tensor, Tensor, Tensor)", {at::Tag::pt2_compliant_tag});
  torch_hrr::register_operators<torch_hrr::PolarOperator>(m);
}
