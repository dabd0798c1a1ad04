// The kernels of layers that learn give the bits of the CPU's kernels.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/hierarchy/launch_plastic.cuh"
#include "kernels/hierarchy/plastic_rows.h"
#include "tests/cuda_on_host/run_on_cpu.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using cuda_on_host::all_schedules;
using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;
using cuda_on_host::Schedule;

struct Shape {
  int64_t learners, ticks, batch, units, size;
};

template <typename T>
struct Learned {
  std::vector<T> outputs, weight, theta;

  bool operator==(const Learned&) const = default;
};

template <typename T>
class Problem {
 public:
  Problem(const Shape& shape, LearningRule rule, Activation activation, bool normalize) : shape_(shape) {
    std::mt19937 generator(7);
    std::normal_distribution<double> normal;
    const auto draw = [&](int64_t count, double scale) {
      std::vector<T> values(static_cast<size_t>(count));
      for (T& value : values) {
        value = static_cast<T>(scale * normal(generator));
      }
      return values;
    };
    inputs_ = draw(shape.learners * shape.ticks * shape.batch * shape.size, 1);
    weight_ = draw(shape.learners * shape.units * shape.size, 0.1);
    theta_ = std::vector<T>(static_cast<size_t>(shape.learners * shape.units), T(0.75));
    params_.learners = shape.learners;
    params_.ticks = shape.ticks;
    params_.batch = shape.batch;
    params_.units = shape.units;
    params_.size = shape.size;
    params_.rule = rule;
    params_.activation = activation;
    params_.rate = 0.01;
    params_.tau = 20;
    params_.decay = 0.1;
    params_.normalize = normalize;
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
constexpr Activation kActivations[] = {Activation::kTanh, Activation::kLinear, Activation::kRelu};

template <typename T>
class PlasticTypes : public testing::Test {};
using ComputeTypes = cuda_on_host::TestedTypes<float, double>;
TYPED_TEST_SUITE(PlasticTypes, ComputeTypes);

TYPED_TEST(PlasticTypes, AreBitwiseTheCpus) {
  // Rows in 4 to 32 registers and in memory; half a chunk; units that fill no block; tiles of several ticks and of one.
  const Shape shapes[] = {{1, 1, 1, 1, 16},  {1, 7, 1, 9, 48},   {2, 5, 3, 5, 112}, {1, 4, 1, 17, 256},
                          {1, 3, 2, 3, 400}, {1, 3, 1, 4, 1024}, {1, 2, 1, 3, 1040}};
  int number = 0;
  for (const Shape& shape : shapes) {
    for (const LearningRule rule : kRules) {
      const Problem<TypeParam> problem(shape, rule, kActivations[number % 3], number % 4 == 0);
      SCOPED_TRACE(testing::Message() << shape.ticks << "x" << shape.batch << "x" << shape.size << " to " << shape.units
                                      << " rule " << static_cast<int>(rule));
      // Also without shared memory, where a tick has no room in it.
      EXPECT_EQ(problem.on_gpu(number % 3 == 2 ? 0 : kPlasticSharedBytes / (1 + 3 * (number % 3))), problem.on_cpu());
      ++number;
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
