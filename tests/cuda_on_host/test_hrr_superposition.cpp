// The kernels of superpose against a plain sum: one block and workspace forms, types, layouts, range, edge rows.
#include "tests/cuda_on_host/hrr_problems.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

struct Size {
  int64_t items, dim;
};
// Both forms, whole and partial tiles, chunks and runs; the first six fit into one block.
constexpr Size kSizes[] = {{1, 1},    {2, 3},   {5, 64},    {64, 100},   {7, 1000},
                           {3, 2100}, {65, 48}, {200, 513}, {130, 1024}, {2, 4100}};

template <typename S>
class SuperpositionTypes : public testing::Test {};
using StorageTypes = cuda_on_host::TestedTypes<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(SuperpositionTypes, StorageTypes);

TYPED_TEST(SuperpositionTypes, MatchesThePlainSum) {
  using S = TypeParam;
  for (const Size& size : kSizes) {
    Superposition<S> sum(2, size.items, size.dim, 1);
    for (const bool weighted : {false, true}) {
      sum.weighted = weighted;
      for (const bool normalize : {false, true}) {
        sum.normalize = normalize;
        std::vector<S> first;
        for (const Schedule& schedule : all_schedules(1)) {
          const std::vector<S> out = sum.run(schedule);
          first = first.empty() ? out : first;
          EXPECT_TRUE(same_bits(out.data(), first.data(), 2 * size.dim));
        }
        for (int64_t r = 0; r < 2; ++r) {
          EXPECT_TRUE(row_close(first.data() + r * size.dim, sum.expected(r), kTolerance<S>))
              << size.items << " x " << size.dim << " weighted " << weighted << " normalize " << normalize;
        }
      }
    }
  }
}

TEST(Superposition, NoItemsGiveZeros) {
  for (const int64_t dim : {1, 100, 4100}) {
    for (const bool normalize : {false, true}) {
      Superposition<float> sum(2, 0, dim, 2);
      sum.normalize = normalize;
      for (const float value : sum.run()) {
        EXPECT_EQ(value, 0);
      }
    }
  }
  SuperpositionParams nothing;
  nothing.dim = 8;
  EXPECT_NO_THROW(run_superposition<float>(nothing));
}

// Odd addresses and strides, shared vectors and weights, small grids, one row at a time.
TEST(Superposition, LayoutsAndGridsGiveTheSameBits) {
  for (const Size& size : kSizes) {
    const int64_t rows = 5;
    const int64_t dim = size.dim;
    const Superposition<float> source(1, rows * size.items, dim, 3);
    Superposition<float> sum(rows, size.items, dim, 0);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < size.items; ++k) {
        std::copy_n(source.vectors.row(k * rows + r), dim, sum.vectors.row(r * size.items + k));
        sum.weights.values[static_cast<size_t>(r * size.items + k)] = source.weights.values[static_cast<size_t>(k)];
      }
    }
    const std::vector<float> expected = sum.run();
    for (const Schedule& schedule : all_schedules(1)) {
      SCOPED_TRACE(schedule);
      EXPECT_TRUE(same_bits(sum.run(schedule, 2).data(), expected.data(), rows * dim)) << size.items << " x " << dim;
    }
    for (const int64_t shift : {0, 1, 2}) {
      const int64_t stride = dim + shift;
      std::vector<float> memory(static_cast<size_t>(rows * size.items * stride + shift), 1e9f);
      for (int64_t i = 0; i < rows * size.items; ++i) {
        std::copy_n(source.vectors.row(i), dim, memory.data() + shift + i * stride);
      }
      auto out = poisoned<float>(expected.size());
      SuperpositionParams params = sum.params(out);
      params.vectors = memory.data() + shift;
      params.weights = source.weights.values.data();
      params.map.strides[0][0] = stride;
      params.map.strides[1][0] = 0;
      params.item_stride_vectors = rows * stride;
      run_superposition<float>(params);
      EXPECT_TRUE(same_bits(out.data(), expected.data(), rows * dim)) << size.items << " x " << dim;
    }
    auto alone = poisoned<float>(static_cast<size_t>(dim));
    SuperpositionParams params = sum.params(alone);
    params.rows = 1;
    params.map = RowMap{};
    params.vectors = sum.vectors.row(3 * size.items);
    params.weights = sum.weights.row(3 * size.items);
    run_superposition<float>(params);
    EXPECT_TRUE(same_bits(alone.data(), expected.data() + 3 * dim, dim)) << size.items << " x " << dim;
  }
}

TEST(Superposition, ANonFiniteInputMakesItsRowNan) {
  for (const Size& size : kSizes) {
    for (const bool normalize : {false, true}) {
      Superposition<float> clean(4, size.items, size.dim, 4);
      clean.normalize = normalize;
      const std::vector<float> expected = clean.run();
      for (const float bad : {NAN, INFINITY}) {
        Superposition<float> sum = clean;
        sum.vectors.row(size.items - 1)[size.dim - 1] = bad;
        sum.weights.values[static_cast<size_t>(size.items)] = bad;
        sum.vectors.row(3 * size.items)[0] = bad;
        sum.weights.values[static_cast<size_t>(3 * size.items)] = 0;
        const std::vector<float> out = sum.run();
        for (int64_t r = 0; r < 4; ++r) {
          const float* row = out.data() + r * size.dim;
          EXPECT_TRUE(r == 2 ? same_bits(row, expected.data() + r * size.dim, size.dim) : all_nan(row, size.dim))
              << size.items << " x " << size.dim << " row " << r;
        }
      }
    }
  }
}

TEST(Superposition, SurvivesScaling) {
  for (const Size& size : kSizes) {
    for (const double scale : {1e-30, 1e30, 1e-42, 3e37}) {
      Superposition<float> sum(2, size.items, size.dim, 5);
      sum.eps = 0;
      const std::vector<float> plain = sum.run();
      const double root = std::sqrt(static_cast<double>(size.dim));
      const Rows<float> vectors(size.items, size.dim, 6, scale * (scale < 1 ? root : 1));
      std::copy(vectors.values.begin(), vectors.values.end(), sum.vectors.row(size.items));
      EXPECT_TRUE(row_close(sum.run().data() + size.dim, sum.expected(1), kTolerance<float>))
          << size.items << " x " << size.dim << " scale " << scale;
      EXPECT_TRUE(same_bits(sum.run().data(), plain.data(), size.dim));
    }
  }
}

// Terms of the order of 1 from factors that differ by 1e60, in items and in weights; sums whose terms overflow.
TEST(Superposition, WeightsMayUndoTheScaleOfVectors) {
  for (const bool normalize : {false, true}) {
    Superposition<float> sum(1, 3, 64, 7);
    sum.normalize = normalize;
    for (int64_t i = 0; i < 64; ++i) {
      sum.vectors.row(0)[i] *= 1e30f;
      sum.vectors.row(1)[i] *= 1e-30f;
      sum.vectors.row(2)[i] = -sum.vectors.row(0)[i];
    }
    sum.weights.values = {1e15f, 1e30f, 1e15f};
    EXPECT_TRUE(row_close(sum.run().data(), sum.expected(0), kTolerance<float>)) << normalize;
  }
}

TEST(Superposition, ShortNormsAreDividedByEps) {
  for (const double scale : {1e-4, 1e-16}) {
    Superposition<float> sum(1, 4, 100, 8);
    for (float& x : sum.vectors.values) {
      x *= static_cast<float>(scale);
    }
    sum.eps = scale * 1e3;
    EXPECT_TRUE(row_close(sum.run().data(), sum.expected(0), kTolerance<float>)) << scale;
  }
  Superposition<float> zeros(1, 2, 100, 9);
  std::fill(zeros.vectors.values.begin(), zeros.vectors.values.end(), 0.0f);
  for (const float value : zeros.run()) {
    EXPECT_EQ(value, 0);
  }
  zeros.eps = 0;
  EXPECT_TRUE(all_nan(zeros.run().data(), 100));
}

}  // namespace
}  // namespace torch_hrr::kernels
