// The kernel of bind_superpose against sums of direct products: items, weights, strides, range, edge rows.
#include "tests/cuda_on_host/hrr_problems.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

constexpr int64_t kDims[] = {4, 16, 40, 64, 300, 512, 1000};

template <typename S>
class RecordTypes : public testing::Test {};
using StorageTypes = cuda_on_host::TestedTypes<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(RecordTypes, StorageTypes);

TYPED_TEST(RecordTypes, MatchesTheSumOfProducts) {
  using S = TypeParam;
  for (const int64_t dim : {6, 300, 512, 1024}) {
    for (const bool weighted : {false, true}) {
      Records<S> records(2, 5, dim, 1);
      records.weighted = weighted;
      for (const bool normalize : {false, true}) {
        records.normalize = normalize;
        const Exact expected[] = {records.expected(0), records.expected(1)};
        for (const Schedule& schedule : all_schedules(1)) {
          const std::vector<S> out = records.run(schedule);
          for (int64_t r = 0; r < 2; ++r) {
            EXPECT_TRUE(row_close(out.data() + r * dim, expected[r], 2 * kTolerance<S>)) << dim;
          }
        }
      }
    }
  }
}

TEST(Record, ItemsFromNoneToMany) {
  for (const int64_t dim : kDims) {
    for (const int64_t items : {0, 1, 2, 17}) {
      Records<float> records(3, items, dim, 4);
      for (const bool normalize : {false, true}) {
        records.normalize = normalize;
        const std::vector<float> out = records.run();
        for (int64_t r = 0; r < 3; ++r) {
          if (items == 0) {
            for (int64_t i = 0; i < dim; ++i) {
              EXPECT_EQ(out[static_cast<size_t>(r * dim + i)], 0);
            }
          } else {
            EXPECT_TRUE(row_close(out.data() + r * dim, records.expected(r), 2 * kTolerance<float>))
                << dim << " items " << items;
          }
        }
      }
    }
  }
}

// K is a stride: items interleaved between rows, shared operands, shared weights; blocks of several shapes.
TEST(Record, LayoutsAndBlocksGiveTheSameBits) {
  for (const int64_t dim : kDims) {
    const int64_t rows = 5;
    const int64_t items = 3;
    const Records<float> source(items, rows, dim, 7);
    Records<float> records(rows, items, dim, 0);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < items; ++k) {
        std::copy_n(source.a.row(k * rows + r), dim, records.a.row(r * items + k));
        std::copy_n(source.b.row(k), dim, records.b.row(r * items + k));
        records.weights.values[static_cast<size_t>(r * items + k)] = source.weights.values[static_cast<size_t>(r)];
      }
    }
    records.normalize = true;
    const std::vector<float> expected = records.run();
    for (const int threads : {64, 128}) {
      auto out = poisoned<float>(expected.size());
      BindSuperposeParams params = records.params(out);
      params.a = source.a.values.data();
      params.b = source.b.values.data();
      params.weights = source.weights.values.data();
      params.map.strides[0][0] = dim;
      params.map.strides[1][0] = 0;
      params.map.strides[2][0] = 1;
      params.item_stride_a = rows * dim;
      params.item_stride_b = dim;
      params.item_stride_weights = 0;
      run_bind_superpose<float>(params, {}, dim == 1000 ? 128 : threads);
      EXPECT_TRUE(same_bits(out.data(), expected.data(), rows * dim)) << dim << " threads " << threads;
    }
    for (int64_t r = 0; r < rows; ++r) {
      auto alone = poisoned<float>(static_cast<size_t>(dim));
      BindSuperposeParams params = records.params(alone);
      params.rows = 1;
      params.map = RowMap{};
      params.a = records.a.row(r * items);
      params.b = records.b.row(r * items);
      params.weights = records.weights.row(r * items);
      run_bind_superpose<float>(params);
      EXPECT_TRUE(same_bits(alone.data(), expected.data() + r * dim, dim)) << dim << " row " << r;
    }
  }
}

TEST(Record, ANonFiniteInputMakesItsRowNan) {
  for (const int64_t dim : kDims) {
    for (const bool normalize : {false, true}) {
      Records<float> clean(4, 3, dim, 10);
      clean.normalize = normalize;
      const std::vector<float> expected = clean.run();
      for (const float bad : {NAN, -INFINITY}) {
        Records<float> records = clean;
        records.a.row(0)[dim - 1] = bad;  // row 0, item 0
        records.weights.values[5] = bad;  // row 1, item 2
        records.b.row(10)[0] = bad;       // row 3, item 1
        records.weights.values[10] = 0;
        const std::vector<float> out = records.run();
        for (int64_t r = 0; r < 4; ++r) {
          if (r == 2) {
            EXPECT_TRUE(same_bits(out.data() + r * dim, expected.data() + r * dim, dim)) << dim;
          } else {
            EXPECT_TRUE(all_nan(out.data() + r * dim, dim)) << dim << " row " << r;
          }
        }
      }
    }
  }
}

TEST(Record, SurvivesScalingOfItemsAndWeights) {
  for (const int64_t dim : kDims) {
    Records<float> records(3, 3, dim, 13);
    records.eps = 0;
    records.normalize = true;
    const std::vector<float> plain = records.run();
    // Row 1: weights undo the scale of two items; the third is zero.
    for (int64_t i = 0; i < dim; ++i) {
      records.a.row(3)[i] *= 1e30f;
      records.b.row(3)[i] *= 1e30f;
      records.a.row(4)[i] *= 1e-20f;
      records.b.row(4)[i] *= 1e-18f;
      records.a.row(5)[i] = 0;
    }
    records.weights.values[3] = 1e-30f;
    records.weights.values[4] = 3e37f;
    records.weights.values[5] = 1e38f;
    EXPECT_TRUE(row_close(records.run().data() + dim, records.expected(1), 2 * kTolerance<float>)) << dim;
    EXPECT_TRUE(same_bits(records.run().data(), plain.data(), dim));
    EXPECT_TRUE(same_bits(records.run().data() + 2 * dim, plain.data() + 2 * dim, dim));
    records.normalize = false;
    EXPECT_TRUE(row_close(records.run().data() + dim, records.expected(1), 2 * kTolerance<float>)) << dim;
    // Both items far below 1, and comparable.
    records.weights.values[3] = 1e-38f;
    for (int64_t i = 0; i < dim; ++i) {
      records.b.row(3)[i] *= 1e-30f;
      records.a.row(3)[i] *= 1e-30f;
    }
    records.weights.values[4] = 1;
    records.normalize = true;
    EXPECT_TRUE(row_close(records.run().data() + dim, records.expected(1), 2 * kTolerance<float>)) << dim;
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
