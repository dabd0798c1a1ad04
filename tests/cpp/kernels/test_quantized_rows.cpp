// Codes of rows and the search over them, in memory that ends with the last row: bounds hold, the best are found.
#include "kernels/hrr/quantized_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/registry.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

struct Size {
  int64_t items, dim, queries, top_k;
};
// Less than a step of codes, in few rows and in a whole block of them, and several steps; parts of a block; one tile of
// queries and more.
constexpr Size kSizes[] = {{1, 1, 1, 1},   {100, 1, 1, 1},  {100, 12, 2, 3},  {3, 63, 2, 3},
                           {70, 64, 5, 7}, {130, 65, 9, 1}, {257, 200, 3, 10}};

template <typename S>
class QuantizedRows : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(QuantizedRows, Types);

TYPED_TEST(QuantizedRows, TheBestAreFoundAndBoundsHold) {
  using S = TypeParam;
  using T = compute_t<S>;
  for (const auto& [items, dim, queries, top_k] : kSizes) {
    const Buffer<S> rows = random_values<S>(items * dim, 3);
    const Buffer<T> query = random_values<T>(queries * dim, 4);
    std::vector<int8_t> codes(static_cast<size_t>(items * dim));
    std::vector<float> bounds(static_cast<size_t>(kQuantizedBounds * items));
    QuantizeParams coding;
    coding.input = rows.data();
    coding.codes = codes.data();
    coding.bounds = bounds.data();
    coding.rows = items;
    coding.dim = dim;
    coding.map = row_map(items, {dim});
    coding.storage = StorageTraits<S>::kStorage;
    const RowKernel<QuantizeParams>& quantize = kernel_table<RowKernel<QuantizeParams>>(coding.storage);
    Buffer<char> row(quantize.scratch(coding));
    quantize.run(coding, 0, items, row.data());

    CleanupParams params;
    params.rows = rows.data();
    params.codes = codes.data();
    params.bounds = bounds.data();
    params.queries = query.data();
    params.row_stride = dim;
    params.items = items;
    params.dim = dim;
    params.count = queries;
    params.top_k = top_k;
    params.storage = coding.storage;
    params.is_double = std::is_same_v<T, double>;
    const CleanupKernels& kernel = kernel_table<CleanupKernels>(StorageTraits<T>::kStorage);
    Buffer<char> prepared(kernel.prepared_bytes(params));
    Buffer<char> scratch(kernel.scratch_bytes(params));
    std::vector<FoundItem> found(static_cast<size_t>(queries * top_k));
    std::vector<int64_t> sizes(static_cast<size_t>(queries));
    kernel.prepare(params, prepared.data());
    kernel.search(params, prepared.data(), 0, items, found.data(), sizes.data(), scratch.data());

    const auto element = [&](int64_t item, int64_t i) { return to_double(rows.data()[item * dim + i]); };
    for (int64_t item = 0; item < items; ++item) {
      double squares = 0;
      double rest = 0;
      for (int64_t i = 0; i < dim; ++i) {
        squares += element(item, i) * element(item, i);
      }
      for (int64_t i = 0; i < dim; ++i) {
        rest += std::pow(
            element(item, i) / std::sqrt(squares) -
                static_cast<double>(bounds[static_cast<size_t>(2 * item)]) * codes[static_cast<size_t>(item * dim + i)],
            2);
      }
      EXPECT_LE(std::sqrt(rest), bounds[static_cast<size_t>(2 * item + 1)]);
    }
    for (int64_t j = 0; j < queries; ++j) {
      std::vector<double> cosines;
      for (int64_t item = 0; item < items; ++item) {
        double product = 0;
        double of_item = 0;
        double of_query = 0;
        for (int64_t i = 0; i < dim; ++i) {
          const auto own = static_cast<double>(query.data()[j * dim + i]);
          product += own * element(item, i);
          of_item += element(item, i) * element(item, i);
          of_query += own * own;
        }
        cosines.push_back(product / std::sqrt(of_item) / std::sqrt(of_query));
      }
      ASSERT_EQ(sizes[static_cast<size_t>(j)], top_k);
      FoundItem* const first = found.data() + j * top_k;
      std::sort(first, first + top_k, ranks_before);
      std::vector<double> best = cosines;
      std::sort(best.begin(), best.end(), std::greater<double>());
      for (int64_t i = 0; i < top_k; ++i) {
        EXPECT_NEAR(first[i].value, best[static_cast<size_t>(i)], 1e-6) << items << " " << dim;
        EXPECT_NEAR(first[i].value, cosines[static_cast<size_t>(first[i].item)], 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
