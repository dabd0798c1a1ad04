// The kernel of the tangents of layers that learn gives the bits of the CPU's kernels.
#include "tests/cuda_on_host/hierarchy_testing.h"

#include "kernels/hierarchy/launch_plastic_tangent.cuh"
#include "kernels/hierarchy/plastic_rows.h"

namespace torch_hrr::kernels {
namespace {

template <typename T>
struct Tangents {
  std::vector<T> outputs, weight, theta;

  bool operator==(const Tangents&) const = default;
};

template <typename T>
class Problem {
 public:
  Problem(const Shape& shape, LearningRule rule, Activation activation, bool normalize, bool of_inputs = true)
      : of_inputs_(of_inputs) {
    Draw<T> draw;
    const int64_t rows = shape.learners * shape.units;
    const int64_t samples = shape.learners * shape.ticks * shape.batch;
    inputs_ = draw(samples * shape.size, 1);
    moved_inputs_ = draw(samples * shape.size, 1);
    weight_ = draw(rows * shape.size, 0.1);
    theta_ = std::vector<T>(static_cast<size_t>(rows), T(0.75));
    start_ = {poisoned<T>(static_cast<size_t>(samples * shape.units)), draw(rows * shape.size, 1), draw(rows, 1)};
    params_.scan = call_of(shape, rule, activation, normalize);
  }

  Tangents<T> on_cpu() const {
    return run([&](const PlasticTangentParams& params) {
      const auto with = [&](const auto& tables) {
        run_rows_on_cpu(sizeof(T) == 4 ? tables.of_float : tables.of_double, params, plastic_rows(params.scan));
      };
      params.scan.coupled() ? with(kernel_table<CoupledTangentKernels>()) : with(kernel_table<PlasticTangentKernels>());
    });
  }
  Tangents<T> on_gpu(const Schedule& schedule = {}) const {
    return run([&](const PlasticTangentParams& params) {
      PlasticTangentParams own = params;
      auto workspace = poisoned<T>(static_cast<size_t>(plastic_tangent_workspace<T>(params)));
      own.workspace = workspace.data();
      launch_plastic_tangent_with<T>(own, HostLauncher{schedule});
    });
  }

 private:
  template <typename Run>
  Tangents<T> run(const Run& body) const {
    Tangents<T> own = start_;
    PlasticTangentParams params = params_;
    params.scan.inputs = inputs_.data();
    params.weight = weight_.data();
    params.tangent_inputs = of_inputs_ ? moved_inputs_.data() : nullptr;
    params.tangent_weight = own.weight.data();
    params.tangent_outputs = own.outputs.data();
    if (params.scan.rule == LearningRule::kBcm) {
      params.theta = theta_.data();
      params.tangent_theta = own.theta.data();
    }
    body(params);
    return own;
  }

  bool of_inputs_;
  PlasticTangentParams params_;
  std::vector<T> inputs_, moved_inputs_, weight_, theta_;
  Tangents<T> start_;
};

constexpr LearningRule kRules[] = {LearningRule::kHebb, LearningRule::kOja, LearningRule::kGha, LearningRule::kSubspace,
                                   LearningRule::kBcm};

template <typename T>
class PlasticTangentTypes : public testing::Test {};
using ComputeTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(PlasticTangentTypes, ComputeTypes);

TYPED_TEST(PlasticTangentTypes, AreBitwiseTheCpus) {
  // Rows in registers and in memory; half a chunk; units that fill no block, and several blocks.
  const Shape shapes[] = {{1, 1, 1, 1, 16}, {1, 7, 1, 9, 48}, {2, 5, 3, 5, 112}, {1, 4, 1, 17, 256}, {1, 3, 2, 3, 528}};
  expect_cpus_bits(
      shapes, kRules,
      [](const Shape& shape, LearningRule rule, Activation activation, int number) {
        return Problem<TypeParam>(shape, rule, activation, number % 4 == 0, number % 7 != 0);
      },
      [](const auto& problem, int) { return problem.on_gpu(); });
}

TEST(PlasticTangent, DoesNotDependOnTheSchedule) {
  for (const LearningRule rule : kRules) {
    const Problem<float> problem({2, 5, 2, 9, 48}, rule, Activation::kTanh, true);
    const auto expected = problem.on_cpu();
    for (const Schedule& schedule : all_schedules()) {
      EXPECT_EQ(problem.on_gpu(schedule), expected);
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
