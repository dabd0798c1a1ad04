// Several steps of a field channel by channel, in every instruction set, bit by bit against single steps.
#include "kernels/field/evolve_channels.h"

#include <tuple>

#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

constexpr Boundary kBoundaries[] = {Boundary::kReplicate, Boundary::kZeros, Boundary::kCircular};
constexpr Stencil kStencils[] = {Stencil::kLaplace, Stencil::kBox, Stencil::kBinomial};

EvolveChannels params_of(int64_t batch, int64_t depth, int64_t height, int64_t width, int64_t channels, int64_t steps) {
  EvolveChannels params;
  params.batch = batch;
  params.depth = depth;
  params.height = height;
  params.width = width;
  params.channels = channels;
  params.steps = steps;
  params.number_bytes = 4;
  params.keep = 0.9;
  params.rate = 0.15;
  return params;
}

// Rows in two parts, as two threads would run them.
template <typename Params>
void run_in_parts(const RowKernel<Params>& kernel, const Params& params, int64_t rows) {
  Buffer<char> scratch(kernel.scratch(params));
  kernel.run(params, rows / 2, rows, scratch.data());
  kernel.run(params, 0, rows / 2, scratch.data());
}

template <typename S>
Buffer<S> single_steps(EvolveParams params, int64_t steps) {
  Buffer<S> field(params.elements());
  Buffer<S> out(params.elements());
  std::copy_n(static_cast<const S*>(params.field), params.elements(), field.data());
  for (int64_t step = 0; step < steps; ++step) {
    params.field = field.data();
    params.out = out.data();
    run_in_parts(kernel_of<S, EvolveParams>(), params, params.lines());
    std::copy_n(out.data(), out.size(), field.data());
  }
  return field;
}

template <typename S>
Buffer<S> steps_by_channel(EvolveChannels params, int64_t together) {
  Buffer<S> out(params.elements());
  Buffer<compute_t<S>> volumes(together * params.volume_elements());
  params.out = out.data();
  params.volumes = volumes.data();
  const auto& table = kernel_table<EvolveChannelsKernels>(StorageTraits<S>::kStorage);
  for (params.item = 0; params.item < params.batch; ++params.item) {
    for (params.first_channel = 0; params.first_channel < params.channels; params.first_channel += together) {
      params.count = std::min(together, params.channels - params.first_channel);
      run_in_parts(table.gather, params, params.depth * params.height);
      run_in_parts(table.evolve, params, params.count);
      run_in_parts(table.scatter, params, params.depth * params.height);
    }
  }
  return out;
}

template <typename S>
class EvolveByChannel : public ::testing::Test {
 public:
  void expect_single_steps(EvolveChannels params, int64_t groups) {
    params.number_bytes = sizeof(compute_t<S>);
    params.channels *= params.group();
    const Buffer<S> field = random_values<S>(params.elements(), 5);
    params.field = field.data();
    for (const Boundary boundary : kBoundaries) {
      for (const Stencil stencil : kStencils) {
        params.boundary = boundary;
        params.stencil = stencil;
        if (params.serves()) {
          const Buffer<S> expected = single_steps<S>(params, params.steps);
          const Buffer<S> actual = steps_by_channel<S>(params, groups * params.group());
          ASSERT_EQ(std::memcmp(actual.data(), expected.data(), static_cast<size_t>(expected.size()) * sizeof(S)), 0)
              << "depth " << params.depth << ", height " << params.height << ", width " << params.width << ", steps "
              << params.steps << ", boundary " << static_cast<int>(boundary) << ", stencil "
              << static_cast<int>(stencil);
        } else {
          // A circle must be as deep as its passes have steps.
          ASSERT_TRUE(boundary == Boundary::kCircular && params.depth < 3);
        }
      }
    }
  }
};
TYPED_TEST_SUITE(EvolveByChannel, StorageTypes);

// Depths and heights of one and two, even and odd; widths with kernels of their own and another one.
TYPED_TEST(EvolveByChannel, HasTheBitsOfSingleSteps) {
  for (const int64_t depth : {1, 2, 3, 4, 7}) {
    for (const int64_t height : {1, 2, 5}) {
      this->expect_single_steps(params_of(1, depth, height, 16, 1, 4), 1);
    }
  }
  for (const int64_t width : {32, 48, 64}) {
    this->expect_single_steps(params_of(1, 5, 3, width, 1, 3), 1);
  }
}

TYPED_TEST(EvolveByChannel, MakesAnyNumberOfStepsInPasses) {
  for (const int64_t steps : {3, 5, 6, 7, 11, 16}) {
    this->expect_single_steps(params_of(1, 9, 4, 16, 1, steps), 1);
  }
  // So large a plane that fewer are made at once.
  this->expect_single_steps(params_of(1, 3, 120, 64, 1, 7), 1);
}

TYPED_TEST(EvolveByChannel, TakesItemsAndChannelsInTurn) {
  this->expect_single_steps(params_of(2, 3, 4, 16, 3, 3), 1);
  this->expect_single_steps(params_of(2, 3, 4, 16, 3, 3), 2);
}

// Large enough for its result to be streamed.
TYPED_TEST(EvolveByChannel, StreamsLargeResults) {
  EvolveChannels params = params_of(1, 17, 64, 64, 8, 3);
  params.number_bytes = sizeof(compute_t<TypeParam>);
  params.channels *= params.group();
  const Buffer<TypeParam> field = random_values<TypeParam>(params.elements(), 6);
  params.field = field.data();
  const Buffer<TypeParam> expected = single_steps<TypeParam>(params, params.steps);
  const Buffer<TypeParam> actual = steps_by_channel<TypeParam>(params, params.group());
  EXPECT_EQ(std::memcmp(actual.data(), expected.data(), static_cast<size_t>(expected.size()) * sizeof(TypeParam)), 0);
}

TEST(EvolveChannels, ServeSeveralStepsOfWholeVectors) {
  EXPECT_TRUE(params_of(1, 8, 8, 16, 16, 3).serves());
  EXPECT_TRUE(params_of(2, 64, 64, 64, 64, 10).serves());
  EXPECT_FALSE(params_of(1, 8, 8, 16, 16, 2).serves());
  EXPECT_FALSE(params_of(1, 8, 8, 16, 17, 3).serves());
  EXPECT_FALSE(params_of(1, 8, 8, 17, 16, 3).serves());
  EXPECT_FALSE(params_of(1, 128, 128, 128, 16, 10).serves());  // too large for caches
  EvolveChannels params = params_of(1, 8, 8, 16, 16, 3);
  params.noise = 0.1;
  EXPECT_FALSE(params.serves());
  params = params_of(1, 8, 8, 16, 16, 3);
  params.part.margin = 1;
  EXPECT_FALSE(params.serves());
}

}  // namespace
}  // namespace torch_hrr::kernels
