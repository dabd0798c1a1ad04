// Queries and items of quantized cleanup, for the tests and the counts of its kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/hrr/quantized_rows.cuh"
#include "tests/cuda_on_host/hrr_testing.h"

namespace torch_hrr::kernels::hrr_testing {

// Queries and items of one storage type, coded by the kernel; queries are unit rows.
template <typename S>
struct QuantizedProblem {
  using T = compute_t<S>;

  int64_t items, dim, count;
  std::vector<S> rows;
  std::vector<T> queries;
  std::vector<int8_t> codes, query_codes;
  std::vector<float> bounds, query_bounds;
  std::vector<int64_t> places;
  std::vector<T> matrix, thresholds, lower;

  QuantizedProblem(int64_t item_count, int64_t length, int64_t query_count, const Schedule& schedule = {},
                   unsigned seed = 1)
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
    // In the memory that they have: counts name it.
    own.assign(values.size(), 99);
    limits.assign(static_cast<size_t>(2 * number), std::numeric_limits<float>::quiet_NaN());
    QuantizeParams params;
    params.input = values.data();
    params.codes = own.data();
    params.bounds = limits.data();
    params.rows = number;
    params.dim = dim;
    params.map = contiguous_rows(number, dim);
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
    bound(schedule, max_blocks);
    lower = matrix;
    choose(top_k);
    compute_left(schedule, max_blocks);
  }
  void bound(const Schedule& schedule = {}, int64_t max_blocks = kMaxGridX) {
    matrix.assign(static_cast<size_t>(count * items), static_cast<T>(kExcluded));
    thresholds.assign(static_cast<size_t>(count), 0);
    launch_code_bounds_with(params(), HostLauncher{schedule}, max_blocks);
  }
  void choose(int64_t top_k) {
    for (int64_t j = 0; j < count; ++j) {
      std::vector<T> row(matrix.begin() + j * items, matrix.begin() + (j + 1) * items);
      std::sort(row.begin(), row.end(), std::greater<T>());
      thresholds[static_cast<size_t>(j)] = row[static_cast<size_t>(top_k - 1)];
    }
  }
  void compute_left(const Schedule& schedule = {}, int64_t max_blocks = kMaxGridX) {
    launch_left_cosines_with(params(), HostLauncher{schedule}, max_blocks);
  }

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

}  // namespace torch_hrr::kernels::hrr_testing
