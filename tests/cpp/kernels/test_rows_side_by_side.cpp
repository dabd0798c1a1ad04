// Rows of a batch, many of which go side by side, get the bits that each of them gets by itself, whatever their
// neighbours are.
#include <cmath>
#include <limits>

#include "kernels/fft/row_shape.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/safe_range.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

// Groups of 16, 8 or 4 rows, and a last one that is or is not worthwhile.
constexpr int64_t kBatches[] = {46, 19};

template <typename S>
class KindsOfRows {
 public:
  KindsOfRows(int64_t rows, int64_t dim, uint64_t seed)
      : values_(random_values<S>(rows * dim, seed)), rows_(rows), dim_(dim) {}

  template <typename Value>
  void set(int64_t r, const Value& value) {
    for (int64_t n = 0; r < rows_ && n < dim_; ++n) {
      S& x = values_.data()[r * dim_ + n];
      x = from_double<S>(value(n, to_double(x)));
    }
  }
  const S* data() const {
    return values_.data();
  }

 private:
  Buffer<S> values_;
  int64_t rows_;
  int64_t dim_;
};

// Few ones among zeros, of either sign: sums in which the sign of a zero shows.
template <typename S>
void set_sparse_rows(KindsOfRows<S>& rows, int64_t first) {
  for (int64_t r = first; r < first + 4; ++r) {
    rows.set(r, [&](int64_t n, double) {
      const double sign = (n + r) % 3 == 0 ? -1 : 1;
      return n % (11 + r) == 5 ? sign : sign * 0.0;
    });
  }
}

// A row of NaN, rows at either end of the range, one of zeros and sparse ones; then rows whose squares add up to about
// the limits beyond which rows are scaled, all numbers of a size or two among subnormal ones, which scaling would keep.
template <typename S>
KindsOfRows<S> rows_of_all_kinds(int64_t rows, int64_t dim, uint64_t seed) {
  using T = compute_t<S>;
  KindsOfRows<S> result(rows, dim, seed);
  const double largest = to_double(std::numeric_limits<S>::max());
  result.set(2, [&](int64_t n, double x) { return n == dim / 2 ? static_cast<double>(NAN) : x; });
  result.set(4, [&](int64_t, double x) { return x * largest / 8; });
  result.set(5, [&](int64_t, double x) { return x / largest; });
  result.set(7, [](int64_t, double) { return 0.0; });
  set_sparse_rows(result, 8);
  int64_t r = 17;
  for (const double limit : {static_cast<double>(kLowestSafe<T>), static_cast<double>(kHighestSafe<T>)}) {
    for (const double share : {0.3, 0.49, 0.9999, 1.0001, 1.5, 1.9999, 3.0}) {
      // Of a row with this norm, half the bins have this sum of squares.
      const double norm = std::sqrt(2 * share * limit / static_cast<double>(dim));
      result.set(r++, [&](int64_t, double x) { return x * norm / std::sqrt(static_cast<double>(dim)); });
      result.set(r++, [&](int64_t n, double x) {
        const double end = n == 9 ? norm : n == dim - 9 ? -norm : 0;
        return end != 0 ? end / std::sqrt(2.0) : std::round(8 * x) * to_double(std::numeric_limits<T>::denorm_min());
      });
    }
  }
  return result;
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
  for (int64_t dim = 17; dim <= 2200; dim += dim < 400 ? 1 : 9) {
    if (row_transform(dim) != RowTransform::kMatrix) {
      continue;
    }
    for (const int64_t rows : kBatches) {
      const KindsOfRows<S> a = rows_of_all_kinds<S>(rows, dim, 101);
      KindsOfRows<S> b(rows, dim, 102);
      set_sparse_rows(b, 8);
      for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
        for (const bool normalize : {false, true}) {
          const int64_t step = normalize ? 0 : dim;
          this->expect_same(rows, dim, normalize ? "normalized product with one row" : "product",
                            [&](int64_t begin, int64_t end, S* out) {
                              BindParams params;
                              params.a = a.data();
                              params.b = b.data();
                              params.out = out;
                              params.rows = rows;
                              params.dim = dim;
                              params.map = row_map(rows, {dim, step});
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
          params.map = row_map(rows, {dim, dim});
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
