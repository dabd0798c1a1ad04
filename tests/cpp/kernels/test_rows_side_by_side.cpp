// Rows of a batch, many of which go side by side, get the bits that each of them gets by itself, whatever their
// neighbours are.
#include <algorithm>
#include <cstring>

#include "kernels/hrr/packed_spectrum.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

// Two groups and more rows than make a third worthwhile on every vector, then one and a few.
constexpr int64_t kBatches[] = {46, 19};

// A row of NaN, rows at either end of the range, rows whose squares just stay in it or just do not, and one of zeros.
template <typename S>
Buffer<S> rows_of_all_kinds(int64_t rows, int64_t dim, uint64_t seed) {
  Buffer<S> values = random_values<S>(rows * dim, seed);
  const double largest = to_double(std::numeric_limits<S>::max());
  const auto scale = [&](int64_t r, double factor) {
    for (int64_t i = r * dim; i < (r + 1) * dim; ++i) {
      values.data()[i] = from_double<S>(to_double(values.data()[i]) * factor);
    }
  };
  values.data()[2 * dim + dim / 2] = from_double<S>(NAN);
  scale(4, largest / 8);
  scale(5, 1 / largest);
  scale(7, std::sqrt(largest) / static_cast<double>(dim));
  scale(8, std::sqrt(largest) / std::sqrt(static_cast<double>(dim)));
  scale(11, 4 / std::sqrt(largest));
  scale(17, 0);
  return values;
}

template <typename S>
class RowsSideBySide : public ::testing::Test {
 protected:
  // run(begin, end, out) for all rows at once and for each row
  template <typename Run>
  static void expect_same(int64_t rows, int64_t dim, const char* what, const Run& run) {
    Buffer<S> batch(rows * dim);
    Buffer<S> alone(rows * dim);
    run(0, rows, batch.data());
    for (int64_t r = 0; r < rows; ++r) {
      run(r, r + 1, alone.data());
    }
    for (int64_t r = 0; r < rows; ++r) {
      EXPECT_TRUE(same_bits(batch.data() + r * dim, alone.data() + r * dim, dim))
          << what << ", dim " << dim << ", row " << r << " of " << rows;
    }
  }
};
TYPED_TEST_SUITE(RowsSideBySide, StorageTypes);

TYPED_TEST(RowsSideBySide, GetTheBitsOfRowsByThemselves) {
  using S = TypeParam;
  for (int64_t dim = 17; dim <= 2200; dim += dim < 900 ? 1 : 7) {
    if (row_transform(dim) != RowTransform::kMatrix) {
      continue;
    }
    for (const int64_t rows : kBatches) {
      const Buffer<S> a = rows_of_all_kinds<S>(rows, dim, 101);
      const Buffer<S> b = random_values<S>(rows * dim, 102);
      for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
        for (const bool normalize : {false, true}) {
          this->expect_same(rows, dim, normalize ? "normalized product" : "product",
                            [&](int64_t begin, int64_t end, S* out) {
                              BindParams params;
                              params.a = a.data();
                              params.b = b.data();
                              params.out = out;
                              params.rows = rows;
                              params.dim = dim;
                              params.map = row_map(rows, {dim, dim});
                              params.product = product;
                              params.normalize = normalize;
                              params.eps = 1e-12;
                              run_bind<S>(params, begin, end);
                            });
        }
        this->expect_same(rows, dim, "product with bins", [&](int64_t begin, int64_t end, S* out) {
          SpectrumBindParams params;
          params.a = a.data();
          params.spectrum = b.data();
          params.out = out;
          params.rows = rows;
          params.dim = dim;
          params.map = row_map(rows, {dim, 0});
          params.product = product;
          run_bind_spectrum<S>(params, begin, end);
        });
      }
      for (const bool inverse : {false, true}) {
        this->expect_same(rows, dim, inverse ? "row of bins" : "bins", [&](int64_t begin, int64_t end, S* out) {
          PackedSpectrumParams params;
          params.in = a.data();
          params.out = out;
          params.rows = rows;
          params.dim = dim;
          params.map = row_map(rows, {dim});
          params.inverse = inverse;
          run_packed_spectrum<S>(params, begin, end);
        });
      }
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
