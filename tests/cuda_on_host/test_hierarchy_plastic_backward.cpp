// The kernels of the gradient of layers that learn give the bits of the CPU's kernels.
#include "tests/cuda_on_host/hierarchy_testing.h"

#include "kernels/hierarchy/launch_plastic_backward.cuh"

namespace torch_hrr::kernels {
namespace {

template <typename T>
struct Gradients {
  std::vector<T> inputs, weight, theta;

  bool operator==(const Gradients&) const = default;
};

template <typename T>
class Problem {
 public:
  Problem(const Shape& shape, LearningRule rule, Activation activation, bool normalize, bool for_inputs = true)
      : for_inputs_(for_inputs) {
    Draw<T> draw;
    const int64_t rows = shape.learners * shape.units;
    inputs_ = draw(shape.learners * shape.ticks * shape.batch * shape.size, 1);
    weight_ = draw(rows * shape.size, 0.1);
    theta_ = std::vector<T>(static_cast<size_t>(rows), T(0.75));
    of_outputs_ = draw(shape.learners * shape.ticks * shape.batch * shape.units, 1);
    start_ = {{}, draw(rows * shape.size, 1), draw(rows, 1)};
    params_.scan = call_of(shape, rule, activation, normalize);
  }

  Gradients<T> on_cpu() const {
    const PlasticParams& p = params_.scan;
    const int64_t blocks = p.coupled() ? 1 : plastic_backward_blocks(p.units, for_inputs_);
    Gradients<T> own = run(blocks, [&](const PlasticBackwardParams& params) {
      const auto with = [&](const auto& tables) {
        run_rows_on_cpu(sizeof(T) == 4 ? tables.of_float : tables.of_double, params, p.learners * blocks);
      };
      p.coupled() ? with(kernel_table<CoupledBackwardKernels>()) : with(kernel_table<PlasticBackwardKernels>());
    });
    // The caller's sum over blocks.
    const size_t count = inputs_.size();
    for (size_t i = count; i < own.inputs.size(); ++i) {
      own.inputs[i % count] += own.inputs[i];
    }
    own.inputs.resize(for_inputs_ ? count : 0);
    return own;
  }
  Gradients<T> on_gpu(const Schedule& schedule = {}) const {
    return run(1, [&](const PlasticBackwardParams& params) {
      PlasticBackwardParams own = params;
      auto workspace = poisoned<T>(static_cast<size_t>(plastic_backward_workspace<T>(params)));
      own.workspace = workspace.data();
      launch_plastic_backward_with<T>(own, HostLauncher{schedule});
    });
  }

 private:
  template <typename Run>
  Gradients<T> run(int64_t blocks, const Run& body) const {
    Gradients<T> own = start_;
    own.inputs = poisoned<T>(for_inputs_ ? static_cast<size_t>(blocks) * inputs_.size() : 0);
    PlasticBackwardParams params = params_;
    params.scan.inputs = inputs_.data();
    params.weight = weight_.data();
    params.grad_outputs = of_outputs_.data();
    params.grad_weight = own.weight.data();
    params.grad_inputs = for_inputs_ ? own.inputs.data() : nullptr;
    if (params.scan.rule == LearningRule::kBcm) {
      params.theta = theta_.data();
      params.grad_theta = own.theta.data();
    }
    body(params);
    return own;
  }

  bool for_inputs_;
  PlasticBackwardParams params_;
  std::vector<T> inputs_, weight_, theta_, of_outputs_;
  Gradients<T> start_;
};

constexpr LearningRule kRules[] = {LearningRule::kHebb, LearningRule::kOja, LearningRule::kBcm};
constexpr LearningRule kCoupledRules[] = {LearningRule::kGha, LearningRule::kSubspace};

template <typename T>
class PlasticBackwardTypes : public testing::Test {};
using ComputeTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(PlasticBackwardTypes, ComputeTypes);

TYPED_TEST(PlasticBackwardTypes, AreBitwiseTheCpus) {
  // Rows in registers and in memory; half a chunk; units that fill no block, and several blocks; parts that are not
  // full.
  const Shape shapes[] = {{1, 1, 1, 1, 16},   {1, 7, 1, 9, 48},  {2, 5, 3, 5, 112}, {1, 4, 1, 17, 256},
                          {1, 3, 1, 130, 16}, {1, 3, 2, 3, 528}, {1, 10, 1, 3, 528}};
  expect_cpus_bits(
      shapes, kRules,
      [](const Shape& shape, LearningRule rule, Activation activation, int number) {
        return Problem<TypeParam>(shape, rule, activation, number % 4 == 0, number % 5 != 0);
      },
      [](const auto& problem, int) { return problem.on_gpu(); });
}

TYPED_TEST(PlasticBackwardTypes, CoupledUnitsAreBitwiseTheCpus) {
  // One unit; parts that are not full; several tiles of units, for one sample and for a batch; more columns than
  // threads.
  const Shape shapes[] = {{1, 1, 1, 1, 16}, {2, 7, 1, 9, 48}, {1, 3, 1, 130, 16}, {2, 3, 30, 5, 16}, {1, 2, 3, 3, 528}};
  expect_cpus_bits(
      shapes, kCoupledRules,
      [](const Shape& shape, LearningRule rule, Activation activation, int number) {
        return Problem<TypeParam>(shape, rule, activation, number % 4 < 2, number % 5 != 1);
      },
      [](const auto& problem, int) { return problem.on_gpu(); });
}

template <size_t kCount>
void expect_any_schedule(const Shape& shape, const LearningRule (&rules)[kCount]) {
  for (const LearningRule rule : rules) {
    for (const bool for_inputs : {false, true}) {
      const Problem<float> problem(shape, rule, Activation::kTanh, true, for_inputs);
      const auto expected = problem.on_cpu();
      for (const Schedule& schedule : all_schedules()) {
        EXPECT_EQ(problem.on_gpu(schedule), expected);
      }
    }
  }
}
TEST(PlasticBackward, DoesNotDependOnTheSchedule) {
  expect_any_schedule({2, 5, 2, 9, 48}, kRules);
}
TEST(PlasticBackward, CoupledUnitsDoNotDependOnTheSchedule) {
  expect_any_schedule({1, 3, 2, 9, 48}, kCoupledRules);
}

}  // namespace
}  // namespace torch_hrr::kernels
