// What the tests of layers that learn share: shapes, arguments and numbers.
#pragma once

#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/hierarchy/plastic.h"
#include "tests/cuda_on_host/run_on_cpu.h"

namespace torch_hrr::kernels {

using cuda_on_host::all_schedules;
using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;
using cuda_on_host::Schedule;

struct Shape {
  int64_t learners, ticks, batch, units, size;
};

// A call without arrays.
inline PlasticParams call_of(const Shape& shape, LearningRule rule, Activation activation, bool normalize) {
  PlasticParams params;
  params.learners = shape.learners;
  params.ticks = shape.ticks;
  params.batch = shape.batch;
  params.units = shape.units;
  params.size = shape.size;
  params.rule = rule;
  params.activation = activation;
  params.rate = 0.01;
  params.tau = 20;
  params.decay = 0.1;
  params.normalize = normalize;
  return params;
}

// Normal numbers, the same in every test.
template <typename T>
class Draw {
 public:
  std::vector<T> operator()(int64_t count, double scale) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values) {
      value = static_cast<T>(scale * normal_(generator_));
    }
    return values;
  }

 private:
  std::mt19937 generator_{7};
  std::normal_distribution<double> normal_;
};

constexpr Activation kActivations[] = {Activation::kTanh, Activation::kLinear, Activation::kRelu};

// Compares on_gpu(problem, number) with problem.on_cpu() for every shape and rule; number counts the problems, which
// `make` makes of a shape, a rule, an activation and a number.
template <size_t kShapes, size_t kRules, typename Make, typename OnGpu>
void expect_cpus_bits(const Shape (&shapes)[kShapes], const LearningRule (&rules)[kRules], const Make& make,
                      const OnGpu& on_gpu) {
  int number = 0;
  for (const Shape& shape : shapes) {
    for (const LearningRule rule : rules) {
      const auto problem = make(shape, rule, kActivations[number % 3], number);
      SCOPED_TRACE(testing::Message() << shape.ticks << "x" << shape.batch << "x" << shape.size << " to " << shape.units
                                      << " rule " << static_cast<int>(rule));
      EXPECT_EQ(on_gpu(problem, number), problem.on_cpu());
      ++number;
    }
  }
}

}  // namespace torch_hrr::kernels
