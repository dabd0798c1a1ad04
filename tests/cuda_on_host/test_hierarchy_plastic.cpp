// The kernels of layers that learn give the bits of the CPU's kernels.
#include "tests/cuda_on_host/hierarchy_testing.h"

#include "kernels/hierarchy/launch_plastic.cuh"
#include "kernels/hierarchy/plastic_rows.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

template <typename T>
struct Learned {
  std::vector<T> outputs, weight, theta;

  bool operator==(const Learned&) const = default;
};

template <typename T>
class Problem {
 public:
  Problem(const Shape& shape, LearningRule rule, Activation activation, bool normalize, double size = 0.1)
      : shape_(shape), params_(call_of(shape, rule, activation, normalize)) {
    Draw<T> draw;
    inputs_ = draw(shape.learners * shape.ticks * shape.batch * shape.size, 1);
    weight_ = draw(shape.learners * shape.units * shape.size, size);
    theta_ = std::vector<T>(static_cast<size_t>(shape.learners * shape.units), T(0.75));
  }

  Learned<T> on_cpu() const {
    return run([](const PlasticParams& params) {
      const auto& tables = kernel_table<PlasticKernels>();
      run_rows_on_cpu(sizeof(T) == 4 ? tables.of_float : tables.of_double, params, plastic_rows(params));
    });
  }
  Learned<T> on_gpu(int64_t most_shared = kPlasticSharedBytes, const Schedule& schedule = {}) const {
    return run(
        [&](const PlasticParams& params) { launch_plastic_with<T>(params, HostLauncher{schedule}, most_shared); });
  }

 private:
  template <typename Run>
  Learned<T> run(const Run& body) const {
    Learned<T> own{poisoned<T>(static_cast<size_t>(shape_.learners * shape_.ticks * shape_.batch * shape_.units)),
                   weight_, theta_};
    auto residual = poisoned<T>(static_cast<size_t>(shape_.learners * shape_.batch * shape_.size));
    PlasticParams params = params_;
    params.inputs = inputs_.data();
    params.weight = own.weight.data();
    params.theta = params.rule == LearningRule::kBcm ? own.theta.data() : nullptr;
    params.outputs = own.outputs.data();
    params.residual = residual.data();
    body(params);
    return own;
  }

  Shape shape_;
  PlasticParams params_;
  std::vector<T> inputs_, weight_, theta_;
};

constexpr LearningRule kRules[] = {LearningRule::kHebb, LearningRule::kOja, LearningRule::kGha, LearningRule::kSubspace,
                                   LearningRule::kBcm};
template <typename T>
class PlasticTypes : public testing::Test {};
using ComputeTypes = cuda_on_host::TestedTypes<float, double>;
TYPED_TEST_SUITE(PlasticTypes, ComputeTypes);

TYPED_TEST(PlasticTypes, AreBitwiseTheCpus) {
  // Rows in 4 to 32 registers and in memory; half a chunk; units that fill no block; tiles of several ticks and of one.
  const Shape shapes[] = {{1, 1, 1, 1, 16},  {1, 7, 1, 9, 48},   {2, 5, 3, 5, 112}, {1, 4, 1, 17, 256},
                          {1, 3, 2, 3, 400}, {1, 3, 1, 4, 1024}, {1, 2, 1, 3, 1040}};
  expect_cpus_bits(
      shapes, kRules,
      [](const Shape& shape, LearningRule rule, Activation activation, int number) {
        return Problem<TypeParam>(shape, rule, activation, number % 4 == 0);
      },
      // Also without shared memory, where a tick has no room in it.
      [](const auto& problem, int number) {
        return problem.on_gpu(number % 3 == 2 ? 0 : kPlasticSharedBytes / (1 + 3 * (number % 3)));
      });
}

TYPED_TEST(PlasticTypes, NormalisesRowsWhoseSquaresOverflowOrUnderflow) {
  const bool single = sizeof(TypeParam) == 4;
  for (const double size : {single ? 1e30 : 1e300, single ? 1e-30 : 1e-300, single ? 1e-42 : 1e-318}) {
    for (const int64_t row : {int64_t{48}, int64_t{1040}}) {
      const Problem<TypeParam> problem({1, 1, 1, 3, row}, LearningRule::kHebb, Activation::kTanh, true, size);
      const Learned<TypeParam> learned = problem.on_cpu();
      EXPECT_EQ(problem.on_gpu(), learned);
      TypeParam squares = 0;
      for (const TypeParam w : learned.weight) {
        squares += w * w;
      }
      EXPECT_NEAR(squares, 3, 1e-4);
    }
  }
}

TEST(Plastic, DoesNotDependOnTheSchedule) {
  for (const LearningRule rule : kRules) {
    const Problem<float> problem({2, 5, 2, 9, 48}, rule, Activation::kTanh, true);
    const auto expected = problem.on_cpu();
    for (const Schedule& schedule : all_schedules()) {
      EXPECT_EQ(problem.on_gpu(3000, schedule), expected);
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
