// The kernels of gradients of fields give the bits of the CPU's kernels.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/field/launch_gradient.cuh"
#include "tests/cuda_on_host/run_on_cpu.h"
#include "tests/cuda_on_host/storage_of.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using cuda_on_host::all_schedules;
using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;
using cuda_on_host::Schedule;

constexpr GradientKind kKinds[] = {GradientKind::kDerivatives, GradientKind::kMagnitude, GradientKind::kTransposed};

using Shape = FieldShape;

template <typename S>
struct Problem {
  std::vector<S> in;
  size_t results;
  GradientParams params;

  Problem(const Shape& shape, GradientKind kind) {
    static_cast<Shape&>(params) = shape;
    params.kind = kind;
    params.normalize = shape.width % 2 == 0;
    results = static_cast<size_t>(shape.elements());
    in.resize(kind == GradientKind::kTransposed ? 3 * results : results);
    results = kind == GradientKind::kDerivatives ? 3 * results : results;
    std::mt19937 generator(3);
    std::normal_distribution<float> normal;
    for (S& element : in) {
      element = static_cast<S>(normal(generator));
    }
    params.in = in.data();
  }

  std::vector<S> on_cpu() const {
    auto out = poisoned<S>(results);
    GradientParams own = params;
    own.out = out.data();
    run_rows_on_cpu(kernel_table<RowKernel<GradientParams>>(kStorage<S>), own, own.lines());
    return out;
  }
  std::vector<S> on_gpu(int64_t most_threads, const Schedule& schedule = {}) const {
    auto out = poisoned<S>(results);
    GradientParams own = params;
    own.out = out.data();
    launch_gradient_with(kStorage<S>, own, HostLauncher{schedule}, most_threads);
    return out;
  }
};

template <typename S>
class GradientTypes : public testing::Test {};
using StorageTypes = cuda_on_host::TestedTypes<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(GradientTypes, StorageTypes);

TYPED_TEST(GradientTypes, AreBitwiseTheCpus) {
  // Tiles that are whole, one place short and one place over; axes of one and two; planes in parts.
  const Shape shapes[] = {{1, 1, 1, 1, 1}, {2, 2, 2, 2, 3},  {1, 3, 5, 4, 8},  {1, 5, 3, 9, 17},  {3, 4, 1, 7, 1},
                          {1, 2, 9, 1, 5}, {1, 3, 8, 16, 4}, {1, 1, 7, 15, 2}, {1, 20, 2, 3, 16}, {1, 5, 19, 37, 9}};
  int64_t number = 0;
  for (const Shape& shape : shapes) {
    for (const GradientKind kind : kKinds) {
      const Problem<TypeParam> problem(shape, kind);
      SCOPED_TRACE(testing::Message() << shape.batch << "x" << shape.depth << "x" << shape.height << "x" << shape.width
                                      << "x" << shape.channels << " kind " << static_cast<int>(kind));
      EXPECT_EQ(problem.on_gpu(64 * (number++ % 3 + 1)), problem.on_cpu());
    }
  }
}

TEST(Gradients, DoNotDependOnTheSchedule) {
  for (const GradientKind kind : kKinds) {
    const Problem<float> problem({1, 4, 5, 9, 6}, kind);
    const auto expected = problem.on_cpu();
    for (const Schedule& schedule : all_schedules()) {
      EXPECT_EQ(problem.on_gpu(128, schedule), expected);
    }
  }
}

TEST(Gradients, OfNothingLaunchNothing) {
  const Problem<float> problem({0, 4, 5, 9, 6}, GradientKind::kDerivatives);
  EXPECT_TRUE(problem.on_gpu(128).empty());
}

}  // namespace
}  // namespace torch_hrr::kernels
