// The kernel of soft winners against its definition in long double, against the CPU kernel, and in its promises on
// bits.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/assembly/soft_cap.cuh"
#include "kernels/registry.h"
#include "tests/cpp/kernels/soft_cap_oracle.h"
#include "tests/cuda_on_host/run_on_cpu.h"
#include "tests/cuda_on_host/storage_of.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using cuda_on_host::all_schedules;
using cuda_on_host::host_launch;
using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;
using cuda_on_host::Schedule;

// Half a spacing below 1 of the result's type, and the rounding of double sums.
template <typename S>
constexpr double kTolerance = std::is_same_v<S, float>    ? 6e-8
                              : std::is_same_v<S, double> ? 1e-13
                              : std::is_same_v<S, Half>   ? 2.5e-4
                                                          : 2e-3;

enum class Rows { kNormal, kTies, kConstant, kHuge };
constexpr Rows kAllRows[] = {Rows::kNormal, Rows::kTies, Rows::kConstant, Rows::kHuge};

// Rows of inputs and directions, and the calls on them.
template <typename S>
struct Problem {
  std::vector<S> inputs;
  std::vector<S> v;
  SoftCapParams params;

  Problem(int64_t rows, int64_t n, int64_t k, Rows kind = Rows::kNormal, unsigned seed = 1)
      : inputs(static_cast<size_t>(rows * n)), v(inputs.size()) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double x = normal(generator);
      const double huge = std::is_same_v<S, Half> ? 1e4 : 1e30;
      inputs[i] = static_cast<S>(static_cast<float>(kind == Rows::kTies       ? std::round(x)
                                                    : kind == Rows::kConstant ? -0.75
                                                    : kind == Rows::kHuge     ? x * huge
                                                                              : x));
      v[i] = static_cast<S>(static_cast<float>(normal(generator)));
    }
    params.rows = rows;
    params.n = n;
    params.k = k;
    params.map.ndim = 1;
    params.map.sizes[0] = rows;
    params.map.strides[0][0] = n;
    params.map.strides[1][0] = n;
    params.storage = kStorage<S>;
  }

  SoftCapParams bound(CapResult result, std::vector<S>& out) const {
    SoftCapParams all = params;
    all.inputs = inputs.data();
    all.v = v.data();
    all.out = out.data();
    all.result = result;
    return all;
  }
  std::vector<S> run(CapResult result, const Schedule& schedule = {}, int64_t max_blocks = kMaxGridX,
                     std::size_t shared_limit = kDefaultSharedBytes) const {
    auto out = poisoned<S>(inputs.size());
    launch_soft_cap_with(bound(result, out), shared_limit, HostLauncher{schedule}, max_blocks);
    return out;
  }
  std::vector<S> run_on_cpu(CapResult result) const {
    auto out = poisoned<S>(inputs.size());
    const SoftCapParams all = bound(result, out);
    run_rows_on_cpu(kernel_table<RowKernel<SoftCapParams>>(), all, all.rows);
    return out;
  }
};

template <typename S>
std::vector<double> row_of(const std::vector<S>& values, int64_t r, int64_t n) {
  std::vector<double> row;
  for (int64_t i = 0; i < n; ++i) {
    row.push_back(static_cast<double>(values[static_cast<size_t>(r * n + i)]));
  }
  return row;
}

template <typename S>
bool same_bits(const std::vector<S>& a, const std::vector<S>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(S)) == 0;
}

template <typename S>
class SoftCapTypes : public testing::Test {};
using StorageTypes = cuda_on_host::TestedTypes<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(SoftCapTypes, StorageTypes);

struct Size {
  int64_t n, k;
};
// A part of a warp, warps and blocks and a part of one; k at both ends.
constexpr Size kSizes[] = {{2, 1}, {3, 2}, {31, 30}, {33, 5}, {256, 1}, {300, 20}, {600, 599}};

TYPED_TEST(SoftCapTypes, SoftWinnersAndJacobianAreTheirDefinition) {
  using S = TypeParam;
  for (const Size& size : kSizes) {
    for (const Rows kind : kAllRows) {
      for (const CapShape shape : {CapShape::kSigmoid, CapShape::kLaplace}) {
        for (const double tau : {0.1, 4.0}) {
          Problem<S> problem(1, size.n, size.k, kind);
          problem.params.temperature = kind == Rows::kHuge ? tau * 1e4 : tau;
          problem.params.shape = shape;
          SCOPED_TRACE(std::to_string(size.n) + " " + std::to_string(size.k) + " rows " +
                       std::to_string(static_cast<int>(kind)) + " tau " + std::to_string(tau));
          const std::vector<double> x = row_of(problem.inputs, 0, size.n);
          const std::vector<double> v = row_of(problem.v, 0, size.n);
          const auto z = oracle_offsets(x, size.k, problem.params.temperature, shape);
          const std::vector<double> y = row_of(problem.run(CapResult::kSoft), 0, size.n);
          const std::vector<double> jv = row_of(problem.run(CapResult::kJacobian), 0, size.n);
          long double weight = 0;
          long double weighted = 0;
          for (size_t i = 0; i < z.size(); ++i) {
            EXPECT_NEAR(y[i], static_cast<double>(distribution(shape, z[i])), kTolerance<S>);
            weight += density(shape, z[i]);
            weighted += density(shape, z[i]) * v[i];
          }
          for (size_t i = 0; i < z.size(); ++i) {
            const long double mean = weight > 1e-4000L ? weighted / weight : 0;
            const auto expected = static_cast<double>(density(shape, z[i]) * (v[i] - mean));
            // A small derivative is rounded to the type's smallest numbers.
            const double least = static_cast<double>(std::numeric_limits<S>::denorm_min());
            EXPECT_NEAR(jv[i] * problem.params.temperature, expected,
                        4 * kTolerance<S> + least * problem.params.temperature);
          }
        }
      }
    }
  }
}

// All but a few elements tie at the cut and lose: each keeps a small share, with all its digits.
TYPED_TEST(SoftCapTypes, ManyLosingTiesKeepTheDigitsOfTheirShares) {
  using S = TypeParam;
  const int64_t n = 6007;
  for (const CapShape shape : {CapShape::kSigmoid, CapShape::kLaplace}) {
    for (const int64_t k : {1, 3}) {
      Problem<S> problem(1, n, k, Rows::kConstant);
      problem.params.shape = shape;
      const double share = static_cast<double>(k) / static_cast<double>(n);
      const double rounding = std::is_same_v<S, double> ? 1e-14 : 2 * kTolerance<S>;
      for (const double y : row_of(problem.run(CapResult::kSoft), 0, n)) {
        ASSERT_NEAR(y, share, rounding * share + std::numeric_limits<S>::denorm_min());
      }
    }
  }
}

// d is 0 in the elements that are far below, where (v - mean) / tau is beyond double; a mean may be where its sum is
// not.
TEST(SoftCap, TheJacobianStaysInRangeWhereItsStepsDoNot) {
  for (const auto& [tau, size] : {std::pair{1e-300, 1e10}, {1e-10, 1e299}, {5e-324, 1.0}}) {
    Problem<double> problem(1, 4, 1);
    problem.inputs = {1, 1, 0, -1};
    problem.v = {2 * size, 2 * size, 5 * size, -3 * size};
    problem.params.temperature = tau;
    for (const double jv : problem.run(CapResult::kJacobian)) {
      EXPECT_EQ(jv, 0) << tau;
    }
  }
  const double largest = std::numeric_limits<double>::max();
  Problem<double> problem(1, 100, 40);
  problem.v.assign(100, largest);
  problem.params.temperature = 2;
  for (const double jv : problem.run(CapResult::kJacobian)) {
    EXPECT_LE(std::abs(jv), 1e-14 * largest);
  }
  for (size_t i = 0; i < 100; ++i) {
    problem.v[i] = i % 2 == 0 ? largest : -largest;
  }
  const auto ours = problem.run(CapResult::kJacobian);
  const auto theirs = problem.run_on_cpu(CapResult::kJacobian);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(ours[i] / largest, theirs[i] / largest, 1e-13);
    EXPECT_NE(ours[i], 0);
  }
}

TYPED_TEST(SoftCapTypes, AgreesWithTheCpuKernel) {
  using S = TypeParam;
  for (const Size& size : kSizes) {
    for (const Rows kind : kAllRows) {
      Problem<S> problem(2, size.n, size.k, kind, 3);
      problem.params.shape = size.n % 2 == 0 ? CapShape::kLaplace : CapShape::kSigmoid;
      for (const CapResult result : {CapResult::kSoft, CapResult::kJacobian}) {
        const auto ours = row_of(problem.run(result), 0, 2 * size.n);
        const auto theirs = row_of(problem.run_on_cpu(result), 0, 2 * size.n);
        for (size_t i = 0; i < ours.size(); ++i) {
          EXPECT_NEAR(ours[i], theirs[i], 2 * kTolerance<S> * std::max(1.0, std::abs(theirs[i]))) << size.n;
        }
      }
    }
  }
}

TEST(SoftCap, SchedulesGridsAndNeighboursGiveTheSameBits) {
  for (const Rows kind : {Rows::kNormal, Rows::kTies}) {
    const Problem<float> problem(5, 300, 20, kind, 7);
    for (const CapResult result : {CapResult::kSoft, CapResult::kJacobian}) {
      const std::vector<float> expected = problem.run(result);
      for (const Schedule& schedule : all_schedules(1)) {
        SCOPED_TRACE(schedule);
        EXPECT_TRUE(same_bits(problem.run(result, schedule, 2), expected));
      }
      Problem<float> alone(1, 300, 20);
      std::copy_n(problem.inputs.begin() + 900, 300, alone.inputs.begin());
      std::copy_n(problem.v.begin() + 900, 300, alone.v.begin());
      EXPECT_TRUE(same_bits(alone.run(result), std::vector<float>(expected.begin() + 900, expected.begin() + 1200)));
    }
  }
}

TYPED_TEST(SoftCapTypes, RowsKeptInSharedMemoryGiveTheBitsOfOthers) {
  using S = TypeParam;
  for (const Rows kind : kAllRows) {
    for (const CapShape shape : {CapShape::kSigmoid, CapShape::kLaplace}) {
      for (const double tau : {1e-6, 0.5}) {
        Problem<S> problem(2, 333, 50, kind, 11);
        problem.params.shape = shape;
        problem.params.temperature = tau;
        // The row, its elements, the most of them, nothing.
        const std::size_t fixed = sizeof(RadixShared<compute_t<S>>);
        for (const CapResult result : {CapResult::kSoft, CapResult::kJacobian}) {
          const std::vector<S> expected = problem.run(result);
          for (const std::size_t elements : {333, 300, 0}) {
            const std::size_t limit = fixed + elements * sizeof(compute_t<S>);
            EXPECT_TRUE(same_bits(problem.run(result, {}, 1, limit), expected)) << elements;
          }
        }
      }
    }
  }
}

// Directions whose sum is out of range: the mean is found again from smaller ones.
TEST(SoftCap, AMeanOutOfRangeIsFoundAgainFromWhereverTheRowIs) {
  Problem<double> problem(1, 100, 40);
  problem.v.assign(100, std::numeric_limits<double>::max());
  problem.params.temperature = 2;
  EXPECT_TRUE(same_bits(problem.run(CapResult::kJacobian), problem.run(CapResult::kJacobian, {}, 1, 0)));
}

TEST(SoftCap, TheKernelTakesAnyGridAndNoMoreSharedMemoryThanItAsksFor) {
  Problem<double> problem(3, 70, 9, Rows::kNormal, 9);
  problem.params.shape = CapShape::kLaplace;
  for (const unsigned blocks : {1u, 2u, 7u}) {
    for (const CapRoom& room : {CapRoom{}, CapRoom{true, 0}, CapRoom{false, 50}}) {
      auto out = poisoned<double>(problem.inputs.size());
      host_launch("soft_cap_kernel", soft_cap_kernel<double>, dim3(blocks), dim3(kCapThreads),
                  soft_cap_shared_bytes<double>(70, room), {}, problem.bound(CapResult::kJacobian, out), room);
      EXPECT_TRUE(same_bits(out, problem.run(CapResult::kJacobian)));
    }
  }
}

// To the byte: the row as doubles, else its elements, else two thirds of them, else nothing.
TEST(SoftCap, WhatStaysInSharedMemoryIsWhatHasRoom) {
  SoftCapParams params;
  params.rows = 3;
  params.n = 1000;
  const std::size_t fixed = soft_cap_shared_bytes<float>(params.n, {});
  struct Case {
    std::size_t bytes;
    bool numbers;
    int32_t elements;
  };
  for (const Case& expected :
       {Case{8000, true, 0}, Case{7999, false, 1000}, Case{4000, false, 1000}, Case{3999, false, 999},
        Case{2668, false, 667}, Case{2667, false, 0}, Case{0, false, 0}}) {
    bool launched = false;
    launch_soft_cap_with(
        params, fixed + expected.bytes,
        [&](const char*, auto, dim3, dim3, std::size_t shared_bytes, const SoftCapParams&, const CapRoom& room) {
          launched = true;
          EXPECT_EQ(room.numbers, expected.numbers);
          EXPECT_EQ(room.elements, expected.elements);
          EXPECT_EQ(shared_bytes, fixed + (expected.numbers ? 8000 : 4 * static_cast<std::size_t>(expected.elements)));
        });
    EXPECT_TRUE(launched);
  }
  EXPECT_EQ(cap_room<float>(1000, 5).elements, 0);
}

TEST(SoftCap, NoWinnersAllWinnersAndRowsThatAreNotFinite) {
  for (const int64_t k : {0, 40}) {
    const Problem<float> problem(2, 40, k);
    for (const float y : problem.run(CapResult::kSoft)) {
      EXPECT_EQ(y, k == 0 ? 0 : 1);
    }
    for (const float gradient : problem.run(CapResult::kJacobian)) {
      EXPECT_EQ(gradient, 0);
    }
  }
  for (const int64_t k : {0, 7, 40}) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      Problem<float> problem(4, 40, k);
      const auto clean = problem.run(CapResult::kJacobian);
      problem.inputs[79] = bad;
      problem.v[120] = bad;
      const auto y = problem.run(CapResult::kSoft);
      const auto gradient = problem.run(CapResult::kJacobian);
      EXPECT_TRUE(same_bits(gradient, problem.run(CapResult::kJacobian, {}, 1, 0)));
      for (size_t i = 0; i < 160; ++i) {
        EXPECT_EQ(std::isnan(y[i]), i / 40 == 1);
        EXPECT_EQ(std::isnan(gradient[i]), i / 40 == 1 || i / 40 == 3);
        EXPECT_TRUE(std::isnan(gradient[i]) || gradient[i] == clean[i]);
      }
    }
  }
  SoftCapParams nothing;
  nothing.n = 8;
  EXPECT_NO_THROW(launch_soft_cap_with(nothing, 0, [](auto&&...) { FAIL(); }));
}

}  // namespace
}  // namespace torch_hrr::kernels
