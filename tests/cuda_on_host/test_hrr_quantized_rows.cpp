// Codes of rows on a GPU: that bounds hold, and that the items left hold the best, against sums in double.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/cuda_on_host/quantized_problem.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using cuda_on_host::all_schedules;
using cuda_on_host::Schedule;
using hrr_testing::QuantizedProblem;

template <typename S>
class QuantizedTypes : public testing::Test {};
using StorageTypes = cuda_on_host::TestedTypes<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(QuantizedTypes, StorageTypes);

struct Size {
  int64_t items, dim, count;
};
// Parts of a tile and several; a tile for few queries and one for many; words that are aligned and that are not.
constexpr Size kSizes[] = {{1, 1, 1}, {70, 64, 3}, {130, 37, 4}, {65, 130, 33}, {40, 3, 40}};

TYPED_TEST(QuantizedTypes, WhatIsExcludedIsNotAmongTheBest) {
  for (const Size& size : kSizes) {
    QuantizedProblem<TypeParam> problem(size.items, size.dim, size.count);
    const int64_t top_k = std::min<int64_t>(3, size.items);
    problem.run(top_k);
    for (int64_t j = 0; j < size.count; ++j) {
      std::vector<double> all;
      for (int64_t i = 0; i < size.items; ++i) {
        all.push_back(problem.cosine(j, i));
      }
      std::vector<double> best = all;
      std::sort(best.begin(), best.end(), std::greater<double>());
      const double least = best[static_cast<size_t>(top_k - 1)];
      for (int64_t i = 0; i < size.items; ++i) {
        const auto at = static_cast<size_t>(j * size.items + i);
        EXPECT_LE(static_cast<double>(problem.lower[at]), all[static_cast<size_t>(i)]);
        const auto found = static_cast<double>(problem.matrix[at]);
        if (found == kExcluded) {
          EXPECT_LT(all[static_cast<size_t>(i)], least) << size.items << " " << size.dim << " " << j << " " << i;
        } else {
          EXPECT_NEAR(found, all[static_cast<size_t>(i)], 1e-6);
        }
      }
    }
  }
}

TEST(QuantizedRows, CodesAndBoundsAreTheirDefinition) {
  QuantizedProblem<float> problem(50, 131, 1);
  for (int64_t r = 0; r < problem.items; ++r) {
    double squares = 0;
    double largest = 0;
    for (int64_t i = 0; i < problem.dim; ++i) {
      const double x = problem.rows[static_cast<size_t>(r * problem.dim + i)];
      squares += x * x;
      largest = std::max(largest, std::abs(x));
    }
    const double scale = problem.bounds[static_cast<size_t>(2 * r)];
    EXPECT_NEAR(scale * 127 * std::sqrt(squares) / largest, 1, 1e-6);
    double rest = 0;
    for (int64_t i = 0; i < problem.dim; ++i) {
      const auto at = static_cast<size_t>(r * problem.dim + i);
      const double unit = problem.rows[at] / std::sqrt(squares);
      EXPECT_NEAR(problem.codes[at], unit / scale, 0.5001);
      rest += std::pow(unit - scale * problem.codes[at], 2);
    }
    EXPECT_GE(problem.bounds[static_cast<size_t>(2 * r + 1)], std::sqrt(rest));
    EXPECT_LE(problem.bounds[static_cast<size_t>(2 * r + 1)], 1.01 * std::sqrt(rest) + 2e-6);
  }
}

// Zero, NaN, infinity, beyond the squares of float on both sides, and absent items.
TEST(QuantizedRows, RowsWithoutCodesAreComputed) {
  QuantizedProblem<float> problem(8, 20, 2);
  const auto fill = [&](int64_t item, float factor) {
    for (int64_t i = 0; i < problem.dim; ++i) {
      problem.rows[static_cast<size_t>(item * problem.dim + i)] *= factor;
    }
  };
  fill(0, 0);
  fill(1, std::numeric_limits<float>::quiet_NaN());
  fill(2, 1e38f);
  fill(3, 1e-38f);
  problem.rows[4 * 20] = std::numeric_limits<float>::infinity();
  problem.places = {7, 6, 5, 4, 3, -1, 8, 0};
  problem.code();
  problem.run(2);
  for (int64_t j = 0; j < 2; ++j) {
    const auto at = [&](int64_t item) {
      return static_cast<double>(problem.matrix[static_cast<size_t>(j * problem.items + problem.place(item))]);
    };
    EXPECT_EQ(at(1), kNotANumber);
    EXPECT_EQ(at(4), kNotANumber);
    // Of a row whose elements are subnormal few bits are left.
    EXPECT_NEAR(at(2), problem.cosine(j, 2), 1e-6);
    EXPECT_NEAR(at(3), problem.cosine(j, 3), 1e-5);
    // The columns of no item, since one is absent and one has a place outside.
    EXPECT_EQ(problem.matrix[static_cast<size_t>(j * problem.items + 1)], kExcluded);
    EXPECT_EQ(problem.matrix[static_cast<size_t>(j * problem.items + 2)], kExcluded);
  }
}

TEST(QuantizedRows, TheGridAndTheScheduleDoNotShow) {
  QuantizedProblem<float> problem(100, 70, 6);
  problem.run(2);
  const std::vector<float> expected = problem.matrix;
  const std::vector<float> bounds = problem.bounds;
  for (const Schedule& schedule : all_schedules()) {
    for (const int64_t blocks : {int64_t{1}, int64_t{3}, kMaxGridX}) {
      problem.code(schedule);
      EXPECT_EQ(problem.bounds, bounds);
      problem.run(2, schedule, blocks);
      EXPECT_EQ(problem.matrix, expected);
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
