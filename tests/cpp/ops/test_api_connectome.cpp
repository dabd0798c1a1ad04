// connectome_inputs for C++ programs: called through the installed header.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "torch_hrr/torch_hrr.h"

namespace torch_hrr::testing {
namespace {

using at::Tensor;

// Edges of neuron 1 in the graph of seed 0, brain 0 and fiber 0: the golden row of the kernels' tests.
TEST(ConnectomeInputs, CountTheGoldenEdges) {
  const Tensor winners = at::tensor({1, 1, 1}, at::kLong);
  const Tensor inputs = connectome_inputs(winners, 1000, 0.01, 0, 0);
  Tensor expected = at::zeros({1000}, at::kInt);
  expected.index_fill_(0, at::tensor({141, 155, 315, 330, 632, 655, 715, 943, 980}, at::kLong), 3);
  EXPECT_TRUE(at::equal(inputs, expected));
  EXPECT_FALSE(at::equal(connectome_inputs(winners, 1000, 0.01, 0, 0, 1), expected));
  EXPECT_EQ(connectome_inputs(winners.view({3, 1}), 7, 1, 0, 0).sum().item<int64_t>(), 21);
}

TEST(ConnectomeInputs, RefuseWhatTheyMust) {
  const Tensor winners = at::tensor({1, 2}, at::kLong);
  EXPECT_THROW(connectome_inputs(winners.to(at::kFloat), 10, 0.5, 0, 0), c10::TypeError);
  EXPECT_THROW(connectome_inputs(winners, 10, 1.5, 0, 0), c10::ValueError);
  EXPECT_THROW(connectome_inputs(winners, -1, 0.5, 0, 0), c10::ValueError);
  EXPECT_THROW(connectome_inputs(-winners, 10, 0.5, 0, 0), c10::IndexError);
  EXPECT_THROW(connectome_inputs(Tensor(), 10, 0.5, 0, 0), c10::Error);
}

}  // namespace
}  // namespace torch_hrr::testing
