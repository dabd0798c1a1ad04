// The kernel of units that compete gives the bits of the CPU's.
#include "tests/cuda_on_host/hierarchy_testing.h"

#include "kernels/hierarchy/launch_plastic.cuh"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

template <typename T>
class Competitors {
 public:
  // With `published`, the options of multilayer SoftHebb.
  Competitors(const Shape& shape, bool published, bool normalize) {
    PlasticParams& p = params_.scan;
    p = call_of(shape, LearningRule::kSoftHebb, Activation::kLinear, normalize);
    params_.temperature = 0.5;
    if (published) {
      params_.losers = -1;
      params_.scaled = true;
      params_.power = 0.5;
    }
    Draw<T> draw;
    inputs_ = draw(p.learners * p.ticks * p.batch * p.size, 1);
    weight_ = draw(p.learners * p.units * p.size, 0.1);
  }

  // Outputs and weights.
  std::vector<std::vector<T>> on_cpu() const {
    return run([](const CompetingParams& params) {
      const auto& tables = kernel_table<CompetingKernels>();
      run_rows_on_cpu(sizeof(T) == 4 ? tables.of_float : tables.of_double, params, params.scan.learners);
    });
  }
  std::vector<std::vector<T>> on_gpu(const Schedule& schedule = {}) const {
    return run([&](const CompetingParams& params) { launch_competing_with<T>(params, HostLauncher{schedule}); });
  }

 private:
  template <typename Run>
  std::vector<std::vector<T>> run(const Run& body) const {
    CompetingParams params = params_;
    PlasticParams& p = params.scan;
    std::vector<T> weight = weight_;
    auto outputs = poisoned<T>(static_cast<size_t>(p.learners * p.ticks * p.batch * p.units));
    auto workspace = poisoned<T>(static_cast<size_t>(p.learners * params.workspace_elements()));
    p.inputs = inputs_.data();
    p.weight = weight.data();
    p.outputs = outputs.data();
    params.workspace = workspace.data();
    body(params);
    return {outputs, weight};
  }

  CompetingParams params_;
  std::vector<T> inputs_, weight_;
};

template <typename T>
class CompetingTypes : public testing::Test {};
using ComputeTypes = cuda_on_host::TestedTypes<float, double>;
TYPED_TEST_SUITE(CompetingTypes, ComputeTypes);

TYPED_TEST(CompetingTypes, AreBitwiseTheCpus) {
  // Units that fill no vector and no warp, and more than one warp's; one sample and several; half a set of sums.
  const Shape shapes[] = {
      {1, 1, 1, 1, 16}, {2, 5, 3, 5, 112}, {1, 4, 1, 33, 48}, {1, 2, 2, 70, 32}, {1, 3, 1, 4, 1040}};
  for (const Shape& shape : shapes) {
    for (const bool published : {false, true}) {
      for (const bool normalize : {false, true}) {
        SCOPED_TRACE(testing::Message() << shape.batch << "x" << shape.size << " to " << shape.units << " published "
                                        << published << " normalised " << normalize);
        const Competitors<TypeParam> layer(shape, published, normalize);
        EXPECT_EQ(layer.on_gpu(), layer.on_cpu());
      }
    }
  }
}

TEST(Competing, DoesNotDependOnTheSchedule) {
  const Competitors<float> layer({2, 4, 2, 9, 48}, true, true);
  const auto expected = layer.on_cpu();
  for (const Schedule& schedule : all_schedules()) {
    EXPECT_EQ(layer.on_gpu(schedule), expected);
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
