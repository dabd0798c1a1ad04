// Whole records, sum_k w_k (a_k conv b_k), against direct float64 sums.
#include "kernels/hrr/circular_convolution.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

const std::vector<int64_t> kDims = {1, 2, 7, 16, 17, 32, 64, 96, 100, 128, 160, 256, 400, 512, 768, 1000, 1024, 2048};

// A record problem with its own memory. A stride of 0 repeats one item (or one record) everywhere.
template <typename S>
struct Problem {
  int64_t rows, items, dim;
  bool weighted = true;
  bool normalize = false;
  double eps = 1e-12;
  bool repeat_a = false, repeat_b = false, repeat_weights = false;
  Buffer<S> a, b, weights;

  Problem(int64_t the_rows, int64_t the_items, int64_t the_dim)
      : rows(the_rows),
        items(the_items),
        dim(the_dim),
        a(random_values<S>(rows * items * dim, 11)),
        b(random_values<S>(rows * items * dim, 12)),
        weights(random_values<S>(rows * items, 13)) {}

  BindSuperposeParams params(S* out) const {
    BindSuperposeParams params;
    params.a = a.data();
    params.b = b.data();
    params.weights = weighted ? weights.data() : nullptr;
    params.out = out;
    params.rows = rows;
    params.items = items;
    params.dim = dim;
    params.map = row_map(rows, {items * dim, items * dim, items});
    params.item_stride_a = repeat_a ? 0 : dim;
    params.item_stride_b = repeat_b ? 0 : dim;
    params.item_stride_weights = repeat_weights ? 0 : 1;
    params.normalize = normalize;
    params.eps = eps;
    return params;
  }

  std::vector<double> expected(int64_t row) const {
    std::vector<double> sum(static_cast<size_t>(dim), 0.0);
    for (int64_t k = 0; k < items; ++k) {
      const int64_t first = row * items;
      const double weight = weighted ? to_double(weights.data()[first + (repeat_weights ? 0 : k)]) : 1;
      add_to(sum, weight,
             convolve(row_at(a.data() + (first + (repeat_a ? 0 : k)) * dim, dim),
                      row_at(b.data() + (first + (repeat_b ? 0 : k)) * dim, dim)));
    }
    return normalize ? normalized(sum, eps) : sum;
  }
};

template <typename S>
class Record : public ::testing::Test {
 protected:
  static void expect_direct_sum(const Problem<S>& problem) {
    Buffer<S> out(problem.rows * problem.dim);
    run_bind_superpose<S>(problem.params(out.data()), 0, problem.rows);
    for (int64_t r = 0; r < problem.rows; ++r) {
      ASSERT_TRUE(is_close(out.data() + r * problem.dim, problem.expected(r), 2 * StorageTraits<S>::kTolerance))
          << "row " << r;
    }
  }
};
TYPED_TEST_SUITE(Record, StorageTypes);

TYPED_TEST(Record, EqualsTheDirectSum) {
  for (const int64_t dim : kDims) {
    for (const int64_t items : {1, 2, 5}) {
      for (const bool weighted : {false, true}) {
        for (const bool normalize : {false, true}) {
          SCOPED_TRACE(::testing::Message() << "dim " << dim << ", K " << items << (weighted ? ", weighted" : "")
                                            << (normalize ? ", normalised" : ""));
          Problem<TypeParam> problem(2, items, dim);
          problem.weighted = weighted;
          problem.normalize = normalize;
          this->expect_direct_sum(problem);
        }
      }
    }
  }
}

TYPED_TEST(Record, OfNothingIsZero) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    for (const bool normalize : {false, true}) {
      Problem<S> problem(2, 0, dim);
      problem.normalize = normalize;
      Buffer<S> out(2 * dim);
      run_bind_superpose<S>(problem.params(out.data()), 0, 2);
      for (int64_t i = 0; i < 2 * dim; ++i) {
        EXPECT_EQ(to_double(out.data()[i]), 0) << "dim " << dim;
      }
    }
  }
}

TYPED_TEST(Record, ItemsMayRepeat) {
  for (const int64_t dim : {5, 64, 100}) {
    for (int which = 0; which < 8; ++which) {
      SCOPED_TRACE(::testing::Message() << "dim " << dim << ", repeats " << which);
      Problem<TypeParam> problem(2, 5, dim);
      problem.repeat_a = (which & 1) != 0;
      problem.repeat_b = (which & 2) != 0;
      problem.repeat_weights = (which & 4) != 0;
      this->expect_direct_sum(problem);
    }
  }
}

// A record of one pair with weight one is that bind, up to the rounding of another order of operations.
TYPED_TEST(Record, OfOnePairIsItsBinding) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    Problem<S> problem(3, 1, dim);
    problem.weighted = false;
    this->expect_direct_sum(problem);
    Buffer<S> record(3 * dim);
    Buffer<S> bound(3 * dim);
    run_bind_superpose<S>(problem.params(record.data()), 0, 3);
    BindParams params;
    params.a = problem.a.data();
    params.b = problem.b.data();
    params.out = bound.data();
    params.rows = 3;
    params.dim = dim;
    params.map = row_map(3, {dim, dim});
    run_bind<S>(params, 0, 3);
    // Twice the tolerance, and both are rounded to the storage type.
    const std::vector<double> want = row_at(bound.data(), 3 * dim);
    EXPECT_TRUE(is_close(record.data(), want, 2 * StorageTraits<S>::kTolerance + StorageTraits<S>::kRounding)) << dim;
  }
}

// One side of all rows may be the same record, whose spectra are then computed once: with the same bits, whether they
// fit the cache (few items) or not (many).
TYPED_TEST(Record, SharingASideChangesNoBit) {
  using S = TypeParam;
  constexpr int64_t kRows = 3;
  struct Size {
    int64_t items, dim;
  };
  for (const Size size : {Size{1, 3}, Size{5, 16}, Size{5, 17}, Size{5, 32}, Size{4, 96}, Size{4, 100}, Size{4, 512},
                          Size{3, 1000}, Size{80, 4096}}) {
    for (int which = 0; which < 8; which += (size.items > 10 ? 3 : 1)) {
      SCOPED_TRACE(::testing::Message() << "dim " << size.dim << ", K " << size.items << ", shared " << which);
      Problem<S> problem(kRows, size.items, size.dim);
      problem.normalize = (which & 4) != 0;
      const int64_t pitch = size.items * size.dim;
      Buffer<S> all(kRows * size.dim);
      BindSuperposeParams params = problem.params(all.data());
      params.map = row_map(kRows, {(which & 1) != 0 ? 0 : pitch, (which & 2) != 0 ? 0 : pitch, size.items});
      run_bind_superpose<S>(params, 0, 2);
      run_bind_superpose<S>(params, 2, kRows);
      for (int64_t r = 0; r < kRows; ++r) {
        Buffer<S> alone(size.dim);
        BindSuperposeParams single = problem.params(alone.data());
        single.a = problem.a.data() + params.map.strides[0][0] * r;
        single.b = problem.b.data() + params.map.strides[1][0] * r;
        single.weights = problem.weights.data() + size.items * r;
        single.rows = 1;
        single.map = RowMap{};
        run_bind_superpose<S>(single, 0, 1);
        ASSERT_TRUE(same_bits(all.data() + r * size.dim, alone.data(), size.dim)) << "row " << r;
      }
    }
  }
}

TYPED_TEST(Record, BitsDoNotDependOnPlacementOrRange) {
  using S = TypeParam;
  constexpr int64_t kRows = 4;
  constexpr int64_t kItems = 3;
  for (const int64_t dim : {3, 16, 17, 32, 96, 100, 160, 256, 512, 1000}) {
    for (const bool normalize : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "dim " << dim << (normalize ? ", normalised" : ""));
      Problem<S> problem(kRows, kItems, dim);
      problem.normalize = normalize;
      Buffer<S> whole(kRows * dim);
      run_bind_superpose<S>(problem.params(whole.data()), 0, kRows);

      // The same rows with items and rows exchanged in memory, at odd first elements, in two ranges.
      Buffer<S> a(kRows * kItems * dim + 1);
      Buffer<S> b(kRows * kItems * dim + 3);
      Buffer<S> weights(kRows * kItems + 1);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t k = 0; k < kItems; ++k) {
          const int64_t from = r * kItems + k;
          const int64_t to = k * kRows + r;
          std::copy_n(problem.a.data() + from * dim, dim, a.data() + 1 + to * dim);
          std::copy_n(problem.b.data() + from * dim, dim, b.data() + 3 + to * dim);
          weights.data()[1 + to] = problem.weights.data()[from];
        }
      }
      Buffer<S> out(kRows * dim + 1);
      BindSuperposeParams params = problem.params(out.data() + 1);
      params.a = a.data() + 1;
      params.b = b.data() + 3;
      params.weights = weights.data() + 1;
      params.map = row_map(kRows, {dim, dim, 1});
      params.item_stride_a = kRows * dim;
      params.item_stride_b = kRows * dim;
      params.item_stride_weights = kRows;
      run_bind_superpose<S>(params, 3, kRows);
      EXPECT_TRUE(same_bits(out.data(), Buffer<S>(3 * dim + 1).data(), 3 * dim + 1)) << "rows before the range";
      run_bind_superpose<S>(params, 0, 3);
      EXPECT_TRUE(same_bits(out.data() + 1, whole.data(), kRows * dim));
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
