// Codes of rows on a GPU: that bounds hold, and that the items left hold the best, against sums in double.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/hrr/quantized_rows.cuh"
#include "tests/cuda_on_host/storage_of.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using cuda_on_host::all_schedules;
using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;
using cuda_on_host::Schedule;

// Queries and items of one storage type, coded by the kernel; queries are unit rows.
template <typename S>
struct Problem {
  using T = compute_t<S>;

  int64_t items, dim, count;
  std::vector<S> rows;
  std::vector<T> queries;
  std::vector<int8_t> codes, query_codes;
  std::vector<float> bounds, query_bounds;
  std::vector<int64_t> places;
  std::vector<T> matrix, thresholds;

  Problem(int64_t item_count, int64_t length, int64_t query_count, const Schedule& schedule = {}, unsigned seed = 1)
      : items(item_count), dim(length), count(query_count) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < items * dim; ++i) {
      rows.push_back(static_cast<S>(normal(generator)));
    }
    for (int64_t j = 0; j < count; ++j) {
      std::vector<double> query;
      double squares = 0;
      for (int64_t i = 0; i < dim; ++i) {
        query.push_back(normal(generator));
        squares += query.back() * query.back();
      }
      for (const double x : query) {
        queries.push_back(static_cast<T>(x / std::sqrt(squares)));
      }
    }
    code(schedule);
  }
  void code(const Schedule& schedule = {}) {
    code_rows<S>(rows, items, codes, bounds, schedule);
    code_rows<T>(queries, count, query_codes, query_bounds, schedule);
  }
  template <typename R>
  void code_rows(const std::vector<R>& values, int64_t number, std::vector<int8_t>& own, std::vector<float>& limits,
                 const Schedule& schedule) const {
    own.assign(values.size(), 99);
    limits = poisoned<float>(static_cast<size_t>(2 * number));
    QuantizeParams params;
    params.input = values.data();
    params.codes = own.data();
    params.bounds = limits.data();
    params.rows = number;
    params.dim = dim;
    params.map.ndim = 1;
    params.map.sizes[0] = number;
    params.map.strides[0][0] = dim;
    params.storage = kStorage<R>;
    launch_quantize_rows_with(params, HostLauncher{schedule});
  }
  DeviceCleanupParams params() {
    DeviceCleanupParams all;
    all.rows = rows.data();
    all.codes = codes.data();
    all.bounds = bounds.data();
    all.places = places.empty() ? nullptr : places.data();
    all.queries = queries.data();
    all.query_codes = query_codes.data();
    all.query_bounds = query_bounds.data();
    all.thresholds = thresholds.data();
    all.matrix = matrix.data();
    all.row_stride = dim;
    all.items = items;
    all.dim = dim;
    all.count = count;
    all.storage = kStorage<S>;
    all.is_double = std::is_same_v<T, double>;
    return all;
  }
  // Lower bounds, thresholds of the top_k, and the cosines that are left.
  void run(int64_t top_k, const Schedule& schedule = {}, int64_t max_blocks = kMaxGridX) {
    matrix.assign(static_cast<size_t>(count * items), static_cast<T>(kExcluded));
    thresholds.assign(static_cast<size_t>(count), 0);
    launch_code_bounds_with(params(), HostLauncher{schedule}, max_blocks);
    lower = matrix;
    for (int64_t j = 0; j < count; ++j) {
      std::vector<T> row(matrix.begin() + j * items, matrix.begin() + (j + 1) * items);
      std::sort(row.begin(), row.end(), std::greater<T>());
      thresholds[static_cast<size_t>(j)] = row[static_cast<size_t>(top_k - 1)];
    }
    launch_left_cosines_with(params(), HostLauncher{schedule}, max_blocks);
  }
  std::vector<T> lower;

  double cosine(int64_t j, int64_t item) const {
    double product = 0;
    double squares = 0;
    for (int64_t i = 0; i < dim; ++i) {
      const auto x = static_cast<double>(rows[static_cast<size_t>(item * dim + i)]);
      product += static_cast<double>(queries[static_cast<size_t>(j * dim + i)]) * x;
      squares += x * x;
    }
    return squares == 0 ? 0 * product : product / std::sqrt(squares);
  }
  int64_t place(int64_t item) const {
    return places.empty() ? item : places[static_cast<size_t>(item)];
  }
};

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
    Problem<TypeParam> problem(size.items, size.dim, size.count);
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
  Problem<float> problem(50, 131, 1);
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
  Problem<float> problem(8, 20, 2);
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
  Problem<float> problem(100, 70, 6);
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
