// The sinusoidal encodings from C++: values, out forms, gradients, errors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "tests/cpp/ops/direct.h"
#include "torch_hrr/torch_hrr.h"

namespace torch_hrr {
namespace {

using at::Tensor;
using testing::near;

Tensor angles_of(const Tensor& positions, int64_t dim) {
  const Tensor pair = at::arange((dim + 1) / 2, at::kDouble);
  return positions.to(at::kDouble).unsqueeze(-1) * at::pow(10000.0, pair * (-2.0 / static_cast<double>(dim)));
}
Tensor interleaved(const Tensor& angles, int64_t dim) {
  return at::stack({angles.sin(), angles.cos()}, -1).flatten(-2).slice(-1, 0, dim);
}
TEST(SinusoidalEncoding, IsItsDefinition) {
  const Tensor positions = at::arange(-50, 1000);
  for (const int64_t dim : {1, 2, 7, 64}) {
    const Tensor want = interleaved(angles_of(positions, dim), dim);
    EXPECT_TRUE(near(sinusoidal_encoding(positions, dim), want, 1.5e-7));
    EXPECT_TRUE(near(
        sinusoidal_encoding(positions, dim, 10000, 1, 0, "interleaved", std::optional<at::ScalarType>(at::kDouble)),
        want, 1e-12));
    Tensor out = at::zeros({positions.size(0), dim}, at::kHalf);
    sinusoidal_encoding_out(out, positions);
    EXPECT_TRUE(out.equal(sinusoidal_encoding(positions, dim).to(at::kHalf)));
  }
  EXPECT_EQ(sinusoidal_encoding(positions.to(at::kDouble), 4).scalar_type(), at::kDouble);
}

TEST(SinusoidalEncoding, IsExactAtTheLastPosition) {
  // sin and cos of 2^31 - 1, from arithmetic of 200 bits.
  const Tensor last = sinusoidal_encoding(at::full({1}, int64_t{2147483647}, at::kLong), 2);
  EXPECT_NEAR(last[0][0].item<float>(), -0.72491655514455639, 1.5e-7);
  EXPECT_NEAR(last[0][1].item<float>(), -0.68883669187794383, 1.5e-7);
}

TEST(Rotate, IsTheShiftOfAnEncoding) {
  const Tensor positions = at::arange(6);
  const auto encoded = [](const Tensor& at) {
    return sinusoidal_encoding(at, 8, 10000, 1, 0, "half", std::optional<at::ScalarType>(at::kDouble));
  };
  const Tensor rows = encoded(positions);
  const Tensor want = encoded(positions + 1000);
  const Tensor shift = at::full({}, int64_t{1000}, at::kLong);
  EXPECT_TRUE(near(rotate(rows, shift, std::nullopt, 10000, 1, "half"), want, 1e-12));
  const Tensor ladder = at::pow(10000.0, at::arange(4, at::kDouble) * -0.25);
  EXPECT_TRUE(near(rotate(rows, shift, ladder, 10000, 1, "half"), want, 1e-12));
  EXPECT_TRUE(near(rotate(want, shift, ladder, 10000, 1, "half", 2, 8, true), 2 * rows, 1e-12));
  Tensor out = at::zeros_like(rows);
  rotate_out(out, rows, shift, ladder, 10000, 1, "half");
  Tensor in_place = rows.t().contiguous().t();
  rotate_(in_place, shift, ladder, 10000, 1, "half");
  EXPECT_TRUE(out.equal(in_place));
  const Tensor x = rows.clone().requires_grad_();
  const Tensor grad = at::randn({6, 8}, at::detail::createCPUGenerator(1), at::TensorOptions(at::kDouble));
  const auto turned_back = torch::autograd::grad({rotate(x, shift, ladder, 10000, 1, "half")}, {x}, {grad});
  EXPECT_TRUE(turned_back[0].equal(rotate(grad, shift, ladder, 10000, 1, "half", 1, std::nullopt, true)));
  EXPECT_THROW(rotate(rows.slice(-1, 0, 7), shift), c10::ValueError);
}

TEST(SinusoidalFeatures, HaveGradients) {
  const Tensor positions = at::arange(5, at::kDouble).requires_grad_();
  const Tensor frequencies = at::arange(1, 4, at::kDouble).div(3).requires_grad_();
  const Tensor phase = at::arange(3, at::kDouble).requires_grad_();
  const Tensor angles = positions.unsqueeze(-1) * frequencies + phase;
  const Tensor want = at::cat({angles.sin(), angles.cos()}, -1);
  const Tensor got = sinusoidal_features(positions, frequencies, phase, "half");
  EXPECT_TRUE(near(got.detach(), want.detach(), 1e-14));
  const Tensor v = at::randn(want.sizes(), at::detail::createCPUGenerator(1), at::TensorOptions(at::kDouble));
  const auto gradients = torch::autograd::grad({got}, {positions, frequencies, phase}, {v});
  const auto expected = torch::autograd::grad({want}, {positions, frequencies, phase}, {v});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(near(gradients[i], expected[i], 1e-12)) << i;
  }
  Tensor out = at::empty({5, 6}, at::kFloat);
  sinusoidal_features_out(out, positions.detach(), frequencies.detach(), phase.detach(), "half");
  EXPECT_TRUE(near(out, want.detach(), 1.5e-7));
}

TEST(EmbedPositions, AddsRowsOfATable) {
  const Tensor table = at::randn({5, 6}, at::detail::createCPUGenerator(2), at::TensorOptions(at::kFloat));
  const Tensor tokens = at::tensor({0, 3, 3, 1}, at::kLong).view({2, 2});
  const Tensor encoded = sinusoidal_encoding(at::arange(2), 6);
  const Tensor want = (table.index_select(0, tokens.flatten()).view({2, 2, 6}) + encoded) / 0.5;
  EXPECT_TRUE(embed_positions(tokens, table, std::nullopt, -1, 0.5).equal(want));
  const Tensor padded = embed_positions(tokens.to(at::kInt), table, at::arange(2), 3, 0.5);
  EXPECT_TRUE(padded.equal(want.masked_fill((tokens == 3).unsqueeze(-1), 0)));
  Tensor out = at::empty({2, 2, 6}, at::kBFloat16);
  embed_positions_out(out, tokens, table, std::nullopt, -1, 0.5);
  EXPECT_TRUE(out.equal(want.to(at::kBFloat16)));
  const Tensor leaf = table.clone().requires_grad_();
  const Tensor result = embed_positions(tokens, leaf, std::nullopt, 3);
  const Tensor grad = torch::autograd::grad({result}, {leaf}, {at::ones_like(result)})[0];
  EXPECT_TRUE(grad.equal(at::tensor({1, 1, 0, 0, 0}, at::kFloat).unsqueeze(-1).expand({5, 6})));
}

TEST(Encodings, BadArgumentsAreErrors) {
  const Tensor positions = at::arange(3);
  const Tensor table = at::ones({4, 6});
  EXPECT_THROW(sinusoidal_encoding(positions, -1), c10::ValueError);
  EXPECT_THROW(sinusoidal_encoding(positions, 4, 0), c10::ValueError);
  EXPECT_THROW(sinusoidal_encoding(positions, 4, 10000, INFINITY), c10::ValueError);
  EXPECT_THROW(sinusoidal_encoding(positions, 4, 10000, 1, NAN), c10::ValueError);
  EXPECT_THROW(sinusoidal_encoding(positions, 4, 10000, 1, 0, "other"), c10::ValueError);
  EXPECT_THROW(sinusoidal_encoding(positions.to(at::kBool), 4), c10::TypeError);
  EXPECT_THROW(sinusoidal_features(positions, positions), c10::TypeError);
  EXPECT_THROW(sinusoidal_features(positions, table), c10::Error);
  EXPECT_THROW(embed_positions(positions + 2, table), c10::IndexError);
  EXPECT_THROW(embed_positions(positions, table, std::nullopt, -1, 0), c10::ValueError);
  EXPECT_THROW(embed_positions(positions.to(at::kFloat), table), c10::TypeError);
  Tensor undefined;
  EXPECT_THROW(sinusoidal_encoding_out(undefined, positions), c10::TypeError);
  EXPECT_THROW(sinusoidal_features_out(undefined, positions, at::ones({2})), c10::TypeError);
  EXPECT_THROW(embed_positions_out(undefined, positions, table), c10::TypeError);
}

}  // namespace
}  // namespace torch_hrr
