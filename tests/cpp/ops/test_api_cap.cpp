// k_cap from C++: the mask, the soft winners and the gradient that they give it, errors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include "torch_hrr/torch_hrr.h"

namespace torch_hrr {
namespace {

using at::Tensor;

Tensor rows() {
  return at::randn({3, 40}, at::detail::createCPUGenerator(1), at::TensorOptions(at::kDouble));
}

TEST(KCap, TheMaskHasTheWinners) {
  const Tensor x = rows();
  const Tensor mask = k_cap(x, 7);
  const Tensor expected = at::zeros_like(x).scatter(-1, std::get<1>(k_winners(x, 7)), 1);
  EXPECT_TRUE(mask.equal(expected));
  EXPECT_TRUE(k_cap(x, 0).equal(at::zeros_like(x)));
  EXPECT_TRUE(k_cap(x, 40).equal(at::ones_like(x)));
}

TEST(KCap, SoftWinnersSumToKAndGiveTheMaskItsGradient) {
  for (const char* surrogate : {"sigmoid", "laplace"}) {
    const Tensor x = rows().requires_grad_();
    const Tensor v = at::randn({3, 40}, at::detail::createCPUGenerator(2), at::TensorOptions(at::kDouble));
    const Tensor y = k_cap(x, 7, 0.5, surrogate, /*soft=*/true);
    EXPECT_LE((y.sum(-1) - 7).abs().max().item<double>(), 1e-12);
    const Tensor soft = torch::autograd::grad({y}, {x}, {v})[0];
    const Tensor hard = torch::autograd::grad({k_cap(x, 7, 0.5, surrogate)}, {x}, {v})[0];
    const Tensor fixed = y.detach();
    const Tensor d = std::string(surrogate) == "sigmoid" ? fixed * (1 - fixed) : at::minimum(fixed, 1 - fixed);
    const Tensor expected = d * (v - (d * v).sum(-1, true) / d.sum(-1, true)) / 0.5;
    EXPECT_TRUE(soft.allclose(expected, 1e-11, 1e-13));
    EXPECT_TRUE(hard.equal(soft));
  }
}

TEST(KCap, BadArgumentsAreErrors) {
  const Tensor x = rows();
  EXPECT_THROW(k_cap(x, 41), c10::ValueError);
  EXPECT_THROW(k_cap(x, -1), c10::ValueError);
  EXPECT_THROW(k_cap(x, 7, 0), c10::ValueError);
  EXPECT_THROW(k_cap(x, 7, 1, "tanh"), c10::ValueError);
  EXPECT_THROW(k_cap(x, 7, 1, "ste", true), c10::ValueError);
  EXPECT_THROW(k_cap(x.to(at::kInt), 7), c10::TypeError);
}

}  // namespace
}  // namespace torch_hrr
