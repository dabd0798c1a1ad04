// Steps and gradients of fields from C++: values, out forms, noise by key, derivatives, errors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <utility>
#include <vector>

#include "tests/cpp/ops/direct.h"
#include "torch_hrr/torch_hrr.h"

namespace torch_hrr {
namespace {

using at::Tensor;
using testing::near;

constexpr double kTau = 6.283185307179586;

Tensor normal(at::IntArrayRef sizes, at::ScalarType type = at::kDouble) {
  return at::randn(sizes, at::detail::createCPUGenerator(1), at::TensorOptions(at::kDouble)).to(type);
}
Tensor key_of(int64_t seed, int64_t offset) {
  return at::tensor({seed, offset}, at::kLong);
}
// A step with the circular border by shifted copies.
Tensor circular_step(const Tensor& field, const Tensor& decay, const Tensor& diffusion) {
  Tensor change = -6 * field;
  for (const int64_t axis : {0, 1, 2}) {
    change = change + field.roll(1, axis) + field.roll(-1, axis);
  }
  return (1 - decay) * (field + diffusion * change);
}
TEST(FieldEvolve, FourierModesAreEigenvectors) {
  const int64_t modes[] = {1, 3, 4}, sizes[] = {6, 8, 10};
  Tensor phase = at::zeros({1, 1, 1, 1}, at::kDouble);
  double sum = 0, box = 1, binomial = 1;
  for (const int64_t axis : {0, 1, 2}) {
    const double wave = kTau * static_cast<double>(modes[axis]) / static_cast<double>(sizes[axis]);
    std::vector<int64_t> shape(4, 1);
    shape[static_cast<size_t>(axis)] = sizes[axis];
    phase = phase + wave * at::arange(sizes[axis], at::kDouble).view(shape);
    sum += 2 * std::cos(wave) - 2;
    box *= (1 + 2 * std::cos(wave)) / 3;
    binomial *= (1 + std::cos(wave)) / 2;
  }
  const Tensor mode = at::cos(phase + 0.3);
  const double decay = 0.2, rate = 0.15;
  const std::pair<const char*, double> factors[] = {
      {"laplace", 1 + rate * sum}, {"box", 1 - rate + rate * box}, {"binomial", 1 - rate + rate * binomial}};
  for (const auto& [stencil, factor] : factors) {
    const Tensor got = field_evolve(mode, decay, rate, 5, "circular", stencil);
    EXPECT_TRUE(near(got, mode * std::pow((1 - decay) * factor, 5), 1e-13)) << stencil;
  }
}

TEST(FieldEvolve, KeepsMassUnlessItFlowsOut) {
  const Tensor field = normal({5, 1, 2, 3}).abs();
  const Tensor mass = field.sum({0, 1, 2});
  EXPECT_TRUE(near(field_evolve(field, 0.05, 0.16, 20).sum({0, 1, 2}), mass * std::pow(0.95, 20), 1e-12));
  EXPECT_TRUE((field_evolve(field, 0, 0.16, 1, "zeros").sum({0, 1, 2}) < 0.95 * mass).all().item<bool>());
}

TEST(FieldEvolve, StepsAreCallsAndNoiseIsNumberedByTheKey) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor field = normal({3, 4, 5, 7}, type);
    const int64_t counters = (field.numel() + 3) / 4;
    const Tensor whole = field_evolve(field, 0.1, 0.1, 3, "zeros", "box", 0.5, key_of(7, 0));
    Tensor twice = at::empty_like(field);
    field_evolve_out(twice, field, 0.1, 0.1, 2, "zeros", "box", 0.5, key_of(7, 0));
    EXPECT_TRUE(field_evolve(twice, 0.1, 0.1, 1, "zeros", "box", 0.5, key_of(7, 2 * counters)).equal(whole));
    EXPECT_FALSE(field_evolve(twice, 0.1, 0.1, 1, "zeros", "box", 0.5, key_of(7, counters)).equal(whole));
  }
  const Tensor noise = field_evolve(at::zeros({20, 20, 20, 8}), 0, 0, 1, "replicate", "laplace", 2, key_of(1, 0));
  EXPECT_NEAR(noise.mean().item<double>(), 0, 0.03);
  EXPECT_NEAR(noise.std().item<double>(), 2, 0.03);
}

TEST(FieldEvolve, HasDerivatives) {
  const Tensor field = normal({3, 4, 5, 2}).requires_grad_();
  const Tensor decay = at::scalar_tensor(0.1, at::kDouble).requires_grad_();
  const Tensor diffusion = at::scalar_tensor(0.15, at::kDouble).requires_grad_();
  const Tensor got = field_evolve(field, decay, diffusion, 2, "circular");
  const Tensor want = circular_step(circular_step(field, decay, diffusion), decay, diffusion);
  EXPECT_TRUE(near(got.detach(), want.detach(), 1e-14));
  const Tensor v = normal({3, 4, 5, 2}).flip(0);
  const auto gradients = torch::autograd::grad({got}, {field, decay, diffusion}, {v});
  const auto expected = torch::autograd::grad({want}, {field, decay, diffusion}, {v});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(near(gradients[i], expected[i], 1e-12)) << i;
  }
  const Tensor floats = field_evolve(field, 0.1, 0.15, 2, "circular");
  EXPECT_TRUE(near(torch::autograd::grad({floats}, {field}, {v})[0], expected[0], 1e-12));
}

TEST(FieldGradient, IsExactOnALinearField) {
  const Tensor slopes = at::tensor({2.0, -0.5, 3.0}, at::kDouble);
  const Tensor leaf = at::zeros({5, 6, 7, 2}, at::kDouble).requires_grad_();
  const Tensor field = leaf + slopes[0] * at::arange(5, at::kDouble).view({5, 1, 1, 1}) +
                       slopes[1] * at::arange(6, at::kDouble).view({6, 1, 1}) +
                       slopes[2] * at::arange(7, at::kDouble).view({7, 1});
  const auto inside = [](Tensor t) {
    for (const int64_t axis : {-4, -3, -2}) {
      t = t.slice(axis, 1, t.size(axis) - 1);
    }
    return t;
  };
  const Tensor want = slopes.view({3, 1, 1, 1, 1}).expand({3, 3, 4, 5, 2});
  const Tensor got = field_gradient(field), steepness = gradient_magnitude(field);
  EXPECT_TRUE(near(inside(got), want, 1e-14));
  EXPECT_TRUE(near(inside(field_gradient(field, false)), 32 * want, 1e-12));
  EXPECT_TRUE(near(steepness, got.square().sum(0).sqrt(), 1e-14));
  Tensor slopes_out = at::empty({3, 5, 6, 7, 2}, at::kFloat), steepness_out = at::empty({5, 6, 7, 2}, at::kFloat);
  field_gradient_out(slopes_out, field.detach().to(at::kFloat));
  gradient_magnitude_out(steepness_out, field.detach().to(at::kFloat));
  EXPECT_TRUE(near(slopes_out, got.detach(), 1e-6) && near(steepness_out, steepness.detach(), 1e-6));
  // Against differences: a quadratic form's are exact up to rounding.
  const Tensor direction = normal({5, 6, 7, 2});
  const Tensor derivative = (torch::autograd::grad({got.square().sum()}, {leaf})[0] * direction).sum();
  const auto energy = [&](double step) { return field_gradient(field + step * direction).square().sum(); };
  EXPECT_TRUE(near(derivative, (energy(0.5) - energy(-0.5)).detach(), 1e-9));
  // The magnitude is smooth away from 0: its square has the same derivative.
  const Tensor squared = torch::autograd::grad({gradient_magnitude(field).square().sum()}, {leaf})[0];
  EXPECT_TRUE(near((squared * direction).sum(), derivative, 1e-9));
}

TEST(Fields, BadArgumentsAreErrors) {
  const Tensor field = at::ones({2, 3, 4, 5});
  EXPECT_THROW(field_evolve(field, 1.5, 0.1), c10::ValueError);
  EXPECT_THROW(field_evolve(field, NAN, 0.1), c10::ValueError);
  EXPECT_THROW(field_evolve(field, 0.1, 0.2), c10::ValueError);
  EXPECT_THROW(field_evolve(field, 0.1, 1.2, 1, "zeros", "box"), c10::ValueError);
  EXPECT_THROW(field_evolve(field, at::scalar_tensor(0.1), at::scalar_tensor(-0.1)), c10::ValueError);
  EXPECT_THROW(field_evolve(field, 0.1, 0.1, -1), c10::ValueError);
  EXPECT_THROW(field_evolve(field, 0.1, 0.1, 1, "other"), c10::ValueError);
  EXPECT_THROW(field_evolve(field, 0.1, 0.1, 1, "zeros", "other"), c10::ValueError);
  EXPECT_THROW(field_evolve(field, 0.1, 0.1, 1, "zeros", "box", 0.1), c10::ValueError);
  EXPECT_THROW(field_evolve(field, 0.1, 0.1, 1, "zeros", "box", 0.1, at::zeros({2})), c10::TypeError);
  EXPECT_THROW(field_evolve(field.to(at::kInt), 0.1, 0.1), c10::TypeError);
  EXPECT_THROW(field_gradient(field.to(at::kBool)), c10::TypeError);
  EXPECT_THROW(field_gradient(field[0]), c10::ValueError);
  EXPECT_THROW(gradient_magnitude(field[0]), c10::ValueError);
  Tensor undefined, same = field;
  EXPECT_THROW(field_evolve_out(same, field, 0.1, 0.1), c10::Error);
  EXPECT_THROW(field_evolve_out(undefined, field, 0.1, 0.1), c10::TypeError);
  EXPECT_THROW(field_gradient_out(undefined, field), c10::TypeError);
  EXPECT_THROW(gradient_magnitude_out(undefined, field), c10::TypeError);
}

}  // namespace
}  // namespace torch_hrr
