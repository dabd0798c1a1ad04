// The public C++ functions of the assembly family: values, gradients, errors.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sort.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "torch_hrr/torch_hrr.h"

namespace torch_hrr::testing {
namespace {

using at::Tensor;

TEST(ApiWinners, AreTheFirstOfAStableSort) {
  at::manual_seed(0);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong}) {
    const Tensor inputs = (at::randn({3, 5000}) * 20).to(dtype);
    const auto [largest, where] = at::sort(inputs, /*stable=*/true, -1, /*descending=*/true);
    const auto [values, indices] = k_winners(inputs, 100, /*sorted=*/true);
    EXPECT_TRUE(at::equal(values, largest.narrow(-1, 0, 100)));
    EXPECT_TRUE(at::equal(indices, where.narrow(-1, 0, 100)));
    const auto [unordered, ascending] = k_winners(inputs, 100);
    EXPECT_TRUE(at::equal(ascending, std::get<0>(indices.sort(-1))));
    EXPECT_TRUE(at::equal(unordered, inputs.gather(-1, ascending)));
  }
}

TEST(ApiWinners, GiveAGradientToTheWinners) {
  const Tensor inputs = at::arange(6, at::kDouble).requires_grad_();
  const auto [values, indices] = k_winners(inputs, 2);
  EXPECT_FALSE(indices.requires_grad());
  const Tensor upstream = at::arange(1, 3, at::kDouble);
  const Tensor grad = torch::autograd::grad({values}, {inputs}, {upstream})[0];
  EXPECT_TRUE(at::equal(grad.slice(0, 0, 4), at::arange(1, 2, at::kDouble).mul(0).expand({4})));
  EXPECT_TRUE(at::equal(grad.slice(0, 4), upstream));
}

TEST(ApiWinners, RefuseWhatTheyCannotTake) {
  const Tensor inputs = at::randn({3, 8});
  EXPECT_THROW(k_winners(inputs, 9), c10::ValueError);
  EXPECT_THROW(k_winners(inputs, -1), c10::ValueError);
  EXPECT_THROW(k_winners(inputs.to(at::kBool), 1), c10::TypeError);
  EXPECT_THROW(k_winners(inputs[0][0], 1), c10::ValueError);
  EXPECT_EQ(std::get<0>(k_winners(inputs.to(at::kMeta), 2)).sizes(), at::IntArrayRef({3, 2}));
}

}  // namespace
}  // namespace torch_hrr::testing
