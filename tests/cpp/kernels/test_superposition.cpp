// Weighted sums of rows against float64 sums.
#include "kernels/hrr/superposition.h"

#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

const std::vector<int64_t> kDims = {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 512, 1000, 4096};
// Below, at and above the eight items that are summed together.
const std::vector<int64_t> kItems = {1, 2, 7, 8, 9, 16, 33};

template <typename S>
struct Problem {
  int64_t rows, items, dim;
  bool weighted;
  bool normalize;
  double eps = 1e-12;
  bool repeat_vectors = false, repeat_weights = false;
  Buffer<S> vectors, weights;

  Problem(int64_t the_rows, int64_t the_items, int64_t the_dim, bool is_weighted, bool is_normalized)
      : rows(the_rows),
        items(the_items),
        dim(the_dim),
        weighted(is_weighted),
        normalize(is_normalized),
        vectors(random_values<S>(rows * items * dim, 21)),
        weights(random_values<S>(rows * items, 22)) {}

  SuperpositionParams params(S* out) const {
    SuperpositionParams params;
    params.vectors = vectors.data();
    params.weights = weighted ? weights.data() : nullptr;
    params.out = out;
    params.rows = rows;
    params.items = items;
    params.dim = dim;
    params.map = row_map(rows, {items * dim, items});
    params.item_stride_vectors = repeat_vectors ? 0 : dim;
    params.item_stride_weights = repeat_weights ? 0 : 1;
    params.normalize = normalize;
    params.eps = eps;
    return params;
  }

  std::vector<double> expected(int64_t row) const {
    std::vector<double> sum(static_cast<size_t>(dim), 0.0);
    for (int64_t k = 0; k < items; ++k) {
      const double weight = weighted ? to_double(weights.data()[row * items + (repeat_weights ? 0 : k)]) : 1;
      add_to(sum, weight, row_at(vectors.data() + (row * items + (repeat_vectors ? 0 : k)) * dim, dim));
    }
    return normalize ? normalized(sum, eps) : sum;
  }
};

template <typename S>
class Superposition : public ::testing::Test {
 protected:
  static void expect_sum(const Problem<S>& problem) {
    Buffer<S> out(problem.rows * problem.dim);
    run_superpose<S>(problem.params(out.data()), 0, problem.rows);
    for (int64_t r = 0; r < problem.rows; ++r) {
      const std::vector<double> want = problem.expected(r);
      if (problem.dim < 4) {
        // A sum of few elements may cancel, so the error is measured by the terms.
        for (int64_t i = 0; i < problem.dim; ++i) {
          const double bound = (StorageTraits<S>::kRounding + StorageTraits<S>::kTolerance) * (std::abs(want[i]) + 10);
          ASSERT_NEAR(to_double(out.data()[r * problem.dim + i]), want[i], bound);
        }
      } else {
        ASSERT_TRUE(is_close(out.data() + r * problem.dim, want)) << "row " << r;
      }
    }
  }
};
TYPED_TEST_SUITE(Superposition, StorageTypes);

TYPED_TEST(Superposition, EqualsTheSum) {
  for (const int64_t dim : kDims) {
    for (const int64_t items : kItems) {
      for (const bool weighted : {false, true}) {
        for (const bool normalize : {false, true}) {
          SCOPED_TRACE(::testing::Message() << "dim " << dim << ", K " << items << (weighted ? ", weighted" : "")
                                            << (normalize ? ", normalised" : ""));
          this->expect_sum(Problem<TypeParam>(2, items, dim, weighted, normalize));
        }
      }
    }
  }
}

TYPED_TEST(Superposition, OfNothingIsZero) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    for (const bool normalize : {false, true}) {
      const Problem<S> problem(2, 0, dim, true, normalize);
      Buffer<S> out(2 * dim);
      run_superpose<S>(problem.params(out.data()), 0, 2);
      for (int64_t i = 0; i < 2 * dim; ++i) {
        EXPECT_EQ(to_double(out.data()[i]), 0) << "dim " << dim;
      }
    }
  }
}

TYPED_TEST(Superposition, ItemsMayRepeat) {
  for (const int64_t dim : {5, 64, 100}) {
    for (int which = 0; which < 4; ++which) {
      SCOPED_TRACE(::testing::Message() << "dim " << dim << ", repeats " << which);
      Problem<TypeParam> problem(2, 11, dim, true, false);
      problem.repeat_vectors = (which & 1) != 0;
      problem.repeat_weights = (which & 2) != 0;
      this->expect_sum(problem);
    }
  }
}

TYPED_TEST(Superposition, BitsDoNotDependOnPlacementOrRange) {
  using S = TypeParam;
  constexpr int64_t kRows = 4;
  for (const int64_t dim : {1, 15, 16, 33, 100, 512}) {
    for (const int64_t items : {3, 8, 11}) {
      for (const bool normalize : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "dim " << dim << ", K " << items << (normalize ? ", normalised" : ""));
        const Problem<S> problem(kRows, items, dim, true, normalize);
        Buffer<S> whole(kRows * dim);
        run_superpose<S>(problem.params(whole.data()), 0, kRows);

        // The same rows with items and rows exchanged in memory, at odd first elements, in two ranges.
        Buffer<S> vectors(kRows * items * dim + 3);
        Buffer<S> weights(kRows * items + 1);
        for (int64_t r = 0; r < kRows; ++r) {
          for (int64_t k = 0; k < items; ++k) {
            const int64_t from = r * items + k;
            const int64_t to = k * kRows + r;
            std::copy_n(problem.vectors.data() + from * dim, dim, vectors.data() + 3 + to * dim);
            weights.data()[1 + to] = problem.weights.data()[from];
          }
        }
        Buffer<S> out(kRows * dim + 1);
        SuperpositionParams params = problem.params(out.data() + 1);
        params.vectors = vectors.data() + 3;
        params.weights = weights.data() + 1;
        params.map = row_map(kRows, {dim, 1});
        params.item_stride_vectors = kRows * dim;
        params.item_stride_weights = kRows;
        run_superpose<S>(params, 1, kRows);
        EXPECT_TRUE(same_bits(out.data(), Buffer<S>(dim + 1).data(), dim + 1)) << "rows before the range";
        run_superpose<S>(params, 0, 1);
        EXPECT_TRUE(same_bits(out.data() + 1, whole.data(), kRows * dim));
      }
    }
  }
}

// Long sums: the partial sums of eight keep the error of 10,000 terms near one rounding.
TEST(SuperpositionRounding, StaysLowInLongSums) {
  constexpr int64_t kLong = 10000;
  constexpr int64_t kDim = 64;
  Problem<float> problem(1, kLong, kDim, false, false);
  for (int64_t i = 0; i < kLong * kDim; ++i) {
    problem.vectors.data()[i] = 1 + 0.1f * problem.vectors.data()[i];
  }
  Buffer<float> out(kDim);
  run_superpose<float>(problem.params(out.data()), 0, 1);
  EXPECT_TRUE(is_close(out.data(), problem.expected(0), 1e-5));
}

}  // namespace
}  // namespace torch_hrr::kernels
