// Derivatives of the public C++ functions against torch's own, through the definitions in direct.h.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <functional>

#include "direct.h"

namespace torch_hrr::testing {
namespace {

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

struct Case {
  const char* name;
  Function function;
  Function definition;
  std::vector<std::vector<int64_t>> sizes;
};

// Broadcast and repeated dimensions included; D of each algorithm.
std::vector<Case> cases(int64_t dim) {
  const auto superposed = [](const Tensor& x, const Tensor& w) { return direct_superpose(x, w); };
  return {
      {"bind",
       [](const Inputs& x) { return bind(x[0], x[1]); },
       [](const Inputs& x) { return direct_bind(x[0], x[1]); },
       {{2, 1, dim}, {3, dim}}},
      {"unbind",
       [](const Inputs& x) { return unbind(x[0], x[1]); },
       [](const Inputs& x) { return direct_unbind(x[0], x[1]); },
       {{dim}, {2, dim}}},
      {"bind_normalize",
       [](const Inputs& x) { return bind_normalize(x[0], x[1]); },
       [](const Inputs& x) { return direct_normalize(direct_bind(x[0], x[1])); },
       {{2, dim}, {1, dim}}},
      {"bind_normalize below eps",
       [](const Inputs& x) { return bind_normalize(x[0], x[1], 1e6); },
       [](const Inputs& x) { return direct_bind(x[0], x[1]) / 1e6; },
       {{2, dim}, {2, dim}}},
      {"superpose",
       [](const Inputs& x) { return superpose(x[0], x[1]); },
       [=](const Inputs& x) { return direct_normalize(superposed(x[0], x[1])); },
       {{2, 3, dim}, {3}}},
      {"superpose without weights",
       [](const Inputs& x) { return superpose(x[0], std::nullopt, false); },
       [](const Inputs& x) { return direct_superpose(x[0], std::nullopt); },
       {{2, 3, dim}}},
      {"bind_superpose",
       [](const Inputs& x) { return bind_superpose(x[0], x[1], x[2]); },
       [=](const Inputs& x) { return superposed(direct_bind(x[0], x[1]), x[2]); },
       {{2, 3, dim}, {3, dim}, {2, 3}}},
      {"bind_superpose normalised",
       [](const Inputs& x) { return bind_superpose(x[0], x[1], x[2], true); },
       [=](const Inputs& x) { return direct_normalize(superposed(direct_bind(x[0], x[1]), x[2])); },
       {{2, 3, dim}, {1, dim}, {3}}},
  };
}

Inputs make_inputs(const Case& tested, at::ScalarType dtype = at::kDouble) {
  Inputs inputs;
  for (size_t i = 0; i < tested.sizes.size(); ++i) {
    inputs.push_back(random(tested.sizes[i], 100 + i, dtype).requires_grad_());
  }
  return inputs;
}

template <typename Check>
void for_each_case(const Check& check) {
  for (const int64_t dim : {5, 17, 32, 100}) {
    for (const Case& tested : cases(dim)) {
      SCOPED_TRACE(::testing::Message() << tested.name << ", dim " << dim);
      check(tested);
    }
  }
}

TEST(ApiGradients, BackwardGivesTheDerivative) {
  for_each_case([](const Case& tested) {
    const Inputs inputs = make_inputs(tested);
    const Inputs others = make_inputs(tested);
    const Tensor result = tested.function(inputs);
    const Tensor upstream = random(result.sizes(), 7);
    result.backward(upstream);
    tested.definition(others).backward(upstream);
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_TRUE(inputs[i].grad().defined());
      EXPECT_LE(relative_error(inputs[i].grad(), others[i].grad()), 1e-11) << "input " << i;
    }
  });
}

TEST(ApiGradients, DoubleBackwardGivesTheSecondDerivative) {
  for_each_case([](const Case& tested) {
    const Tensor upstream = random(tested.definition(make_inputs(tested)).sizes(), 7).requires_grad_();
    // The gradient of sum_i (gradient_i . v_i), in the inputs and in the upstream gradient.
    const auto second = [&](const Function& function) {
      Inputs inputs = make_inputs(tested);
      const Inputs first = torch::autograd::grad({function(inputs)}, inputs, {upstream}, /*retain_graph=*/true,
                                                 /*create_graph=*/true);
      Tensor total = at::zeros({}, at::kDouble);
      for (size_t i = 0; i < first.size(); ++i) {
        total = total + (first[i] * random(first[i].sizes(), 200 + i)).sum();
      }
      inputs.push_back(upstream);
      return torch::autograd::grad({total}, inputs, {}, std::nullopt, false, /*allow_unused=*/true);
    };
    const Inputs got = second(tested.function);
    const Inputs want = second(tested.definition);
    for (size_t i = 0; i < got.size(); ++i) {
      const Tensor expected = want[i].defined() ? want[i] : at::zeros_like(got[i].defined() ? got[i] : upstream);
      const Tensor computed = got[i].defined() ? got[i] : at::zeros_like(expected);
      EXPECT_LE(relative_error(computed, expected), 1e-10) << "input " << i;
    }
  });
}

TEST(ApiGradients, OnlyWhatIsAskedForIsComputed) {
  for_each_case([](const Case& tested) {
    const Inputs all = make_inputs(tested);
    const Tensor upstream = random(tested.function(all).sizes(), 7);
    tested.function(all).backward(upstream);
    for (size_t wanted = 0; wanted < all.size(); ++wanted) {
      Inputs inputs = make_inputs(tested);
      for (size_t i = 0; i < inputs.size(); ++i) {
        inputs[i].requires_grad_(i == wanted);
      }
      tested.function(inputs).backward(upstream);
      for (size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_EQ(inputs[i].grad().defined(), i == wanted) << i;
      }
      EXPECT_LE(relative_error(inputs[wanted].grad(), all[wanted].grad()), 1e-11) << "input " << wanted;
    }
  });
}

TEST(ApiGradients, KeepTheirInputsTypes) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
    const Tensor a = random({3, 64}, 1, dtype).requires_grad_();
    const Tensor b = random({64}, 2, at::kFloat).requires_grad_();
    bind_normalize(a, b).sum().backward();
    EXPECT_EQ(a.grad().scalar_type(), dtype);
    EXPECT_EQ(a.grad().sizes(), a.sizes());
    EXPECT_EQ(b.grad().scalar_type(), at::kFloat);
    EXPECT_EQ(b.grad().sizes(), b.sizes());
  }
}

TEST(ApiGradients, AreNotRecordedWithoutNeed) {
  const Tensor a = random({2, 64}, 1).requires_grad_();
  const Tensor b = random({2, 64}, 2);
  EXPECT_FALSE(bind(b, b).requires_grad());
  EXPECT_TRUE(bind(a, b).requires_grad());
  EXPECT_NE(bind(a, b).grad_fn()->name().find("Bind"), std::string::npos);
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(bind(a, b).requires_grad());
}

TEST(ApiGradients, NoticeInputsChangedInPlace) {
  const Tensor a = random({2, 64}, 1).requires_grad_();
  Tensor b = random({2, 64}, 2);
  const Tensor bound = bind(a, b);
  b.add_(1);
  EXPECT_THROW(bound.sum().backward(), c10::Error);
}

}  // namespace
}  // namespace torch_hrr::testing
