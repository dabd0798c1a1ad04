// project_ from C++, on a state made by hand: one area of six neurons and a stimulus that fires into it.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "direct.h"

namespace torch_hrr::testing {
namespace {

struct Call {
  std::vector<Tensor> state;
  std::vector<int64_t> layout;
  std::vector<double> rates;
};

Call rounds_of_one_area(int64_t rounds) {
  constexpr int64_t n = 6;
  constexpr int64_t k = 2;
  constexpr int64_t slots = 6;
  Call call;
  call.layout = {1, rounds, 1, 0, 1, n, k, 0, 0, 0, 0, 7, 0, 1};
  call.rates = {0.5, std::numeric_limits<double>::infinity()};
  call.state = {
      at::empty({0}, at::kLong),
      at::zeros({1, k}, at::kLong),
      at::zeros({1}, at::kLong),
      at::full({1, n}, -1, at::kInt),
      at::zeros({1, slots}, at::kInt),
      at::zeros({1, slots}, at::kByte),
      at::zeros({1, 2}, at::kLong),
      at::zeros({1, 0}, at::kLong),
      at::zeros({1, 0}, at::kInt),
      at::zeros({0}, at::kLong),
      at::tensor(std::vector<int>{0, 3, 1, 5, 0, 2}, at::kInt).unsqueeze(0),
      at::zeros({1, slots}, at::kFloat),
      at::full({1, 1}, rounds, at::kLong),
  };
  return call;
}

TEST(Projection, TheStimulusChoosesAndItsSynapsesGrow) {
  Call call = rounds_of_one_area(2);
  project_(call.state, call.layout, call.rates, 0);
  EXPECT_TRUE(at::equal(call.state[1], at::tensor({1, 3}, at::kLong).unsqueeze(0)));
  EXPECT_EQ(call.state[2].item<int64_t>(), 2);
  // Slots in use, and neurons that ever won.
  EXPECT_TRUE(at::equal(call.state[6], at::full({1, 2}, 2, at::kLong)));
  EXPECT_EQ(call.state[12].item<int64_t>(), 0);
  const Tensor weights = call.state[11].slice(1, 0, 2);
  EXPECT_TRUE(at::equal(std::get<0>(weights.sort()), at::tensor({6.75F, 11.25F}).unsqueeze(0))) << weights;
}

TEST(Projection, BadArgumentsChangeNothing) {
  Call call = rounds_of_one_area(1);
  const Tensor before = call.state[6].clone();
  call.rates[0] = -1;
  EXPECT_THROW(project_(call.state, call.layout, call.rates, 0), c10::ValueError);
  call.rates[0] = 0.5;
  call.state[2].fill_(2);
  EXPECT_THROW(project_(call.state, call.layout, call.rates, 0), c10::IndexError);
  call.state[2].fill_(0);
  call.layout[5] = 7;
  EXPECT_THROW(project_(call.state, call.layout, call.rates, 0), c10::Error);
  EXPECT_TRUE(at::equal(call.state[6], before));
}

}  // namespace
}  // namespace torch_hrr::testing
