// plastic_scan and its gradients from C++, against the definition tick by tick.
#include <torch/csrc/autograd/autograd.h>

#include "direct.h"

namespace torch_hrr::testing {
namespace {

using Inputs = std::vector<Tensor>;

constexpr double kRate = 0.05;
constexpr double kTau = 20;

// Outputs, weight and theta; of inputs [T, n] at every tick.
Inputs direct_scan(const Tensor& inputs, Tensor weight, const std::string& rule, Tensor theta) {
  Inputs outputs;
  for (const Tensor& x : inputs.unbind(0)) {
    const Tensor u = at::mv(weight, x);
    Tensor y = rule == "softhebb" ? at::softmax(u, -1) : at::tanh(u);
    Tensor taught = y;
    if (rule == "bcm") {
      y = at::relu(y);
      taught = y * (y - theta);
    }
    Tensor step = at::outer(taught, x);
    if (rule == "oja") {
      step = step - y.square().unsqueeze(-1) * weight;
    } else if (rule == "gha") {
      step = step - at::matmul(at::outer(y, y).tril(), weight);
    } else if (rule == "softhebb") {
      step = step - (y * u).unsqueeze(-1) * weight;
    }
    outputs.push_back(y);
    weight = weight + kRate * step;
    theta = theta + (y.square() - theta) / kTau;
  }
  return {at::stack(outputs), weight, theta};
}

Inputs scan(const Inputs& given, const std::string& rule) {
  const bool has_theta = rule == "bcm";
  const auto [outputs, weight, theta] = plastic_scan(given[0], given[1], rule, kRate, "tanh", 1,
                                                     has_theta ? std::optional(given[2]) : std::nullopt, kTau);
  EXPECT_EQ(theta.numel(), has_theta ? given[2].numel() : 0);
  return has_theta ? Inputs{outputs, weight, theta} : Inputs{outputs, weight};
}

class ApiPlastic : public ::testing::TestWithParam<const char*> {
 protected:
  // A fresh copy at every call.
  static Inputs make_inputs() {
    return {random({9, 20}, 1, at::kDouble).requires_grad_(), (random({18, 20}, 2, at::kDouble) / 4).requires_grad_(),
            random({18}, 3, at::kDouble).abs().requires_grad_()};
  }
  Inputs definition(const Inputs& given) const {
    Inputs results = direct_scan(given[0], given[1], GetParam(), given[2]);
    results.resize(leaves());
    return results;
  }
  // theta is an argument and a result of bcm alone.
  static size_t leaves() {
    return GetParam() == std::string("bcm") ? 3 : 2;
  }
};

TEST_P(ApiPlastic, IsTheDefinition) {
  const Inputs given = make_inputs();
  const Inputs results = scan(given, GetParam());
  const Inputs expected = definition(given);
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_LE(relative_error(results[i], expected[i]), 1e-12) << "result " << i;
  }
}

TEST_P(ApiPlastic, HasItsFirstAndSecondDerivatives) {
  // The gradients of sum_i (result_i . v_i), and those of the sum of their squares.
  const auto derivatives = [](const auto& function) {
    Inputs given = make_inputs();
    given.resize(leaves(), Tensor());
    Inputs padded = given;
    padded.resize(3, random({18}, 3, at::kDouble).abs());
    const Inputs results = function(padded);
    Inputs upstream;
    for (size_t i = 0; i < results.size(); ++i) {
      upstream.push_back(random(results[i].sizes(), 10 + i, at::kDouble));
    }
    Inputs found = torch::autograd::grad(results, given, upstream, /*retain_graph=*/true, /*create_graph=*/true);
    Tensor total = at::zeros({}, at::kDouble);
    for (const Tensor& first : found) {
      total = total + first.square().sum();
    }
    const Inputs second = torch::autograd::grad({total}, given);
    found.insert(found.end(), second.begin(), second.end());
    return found;
  };
  const Inputs found = derivatives([](const Inputs& given) { return scan(given, GetParam()); });
  const Inputs expected = derivatives([this](const Inputs& given) { return definition(given); });
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(relative_error(found[i], expected[i]), 1e-11) << "derivative " << i;
  }
}

TEST_P(ApiPlastic, HasGradientsOfWeightsAlone) {
  const Inputs given = make_inputs();
  const Tensor weight = given[1].detach().clone().requires_grad_();
  Inputs fixed{given[0].detach(), weight, given[2].detach()};
  scan(fixed, GetParam())[1].sum().backward();
  const Tensor own = weight.grad().clone();
  weight.mutable_grad().reset();
  definition(fixed)[1].sum().backward();
  EXPECT_LE(relative_error(own, weight.grad()), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Rules, ApiPlastic, ::testing::Values("hebb", "oja", "gha", "bcm", "softhebb"));

}  // namespace
}  // namespace torch_hrr::testing
