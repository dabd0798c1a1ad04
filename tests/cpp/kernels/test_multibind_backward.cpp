// Gradients of the product of many rows against direct sums in double.
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

// Rows side by side, a matrix, pairs, and Bluestein's sum over whole and half rows.
constexpr int64_t kDims[] = {1, 5, 17, 32, 75, 96, 100, 375, 512, 101, 202};

template <typename S>
struct Problem {
  int64_t rows, items, dim;
  Buffer<S> grad, vectors;

  Problem(int64_t the_rows, int64_t the_items, int64_t the_dim)
      : rows(the_rows),
        items(the_items),
        dim(the_dim),
        grad(random_values<S>(rows * dim, 91)),
        vectors(random_values<S>(rows * items * dim, 92, 1 / std::sqrt(static_cast<double>(dim)))) {}

  S* factor(int64_t r, int64_t k) {
    return vectors.data() + (r * items + k) * dim;
  }
  MultibindBackwardParams params(S* out) const {
    MultibindBackwardParams params;
    params.grad = grad.data();
    params.vectors = vectors.data();
    params.out = out;
    params.rows = rows;
    params.items = items;
    params.dim = dim;
    params.map = row_map(rows, {dim, items * dim});
    params.item_stride = dim;
    return params;
  }
  Buffer<S> gradients() const {
    Buffer<S> out(rows * items * dim);
    run_multibind_backward<S>(params(out.data()), 0, rows);
    return out;
  }
  // g corr the product of the others
  std::vector<double> expected(int64_t r, int64_t k) {
    std::vector<double> result = row_at(grad.data() + r * dim, dim);
    for (int64_t j = 0; j < items; ++j) {
      if (j != k) {
        result = correlate(result, row_at(factor(r, j), dim));
      }
    }
    return result;
  }
  void expect_gradients(double tolerance) {
    const Buffer<S> out = gradients();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < items; ++k) {
        EXPECT_TRUE(is_close(out.data() + (r * items + k) * dim, expected(r, k), tolerance))
            << "dim " << dim << " K " << items << " row " << r << " factor " << k;
      }
    }
  }
};

template <typename S>
class MultibindBackward : public ::testing::Test {};
TYPED_TEST_SUITE(MultibindBackward, StorageTypes);

TYPED_TEST(MultibindBackward, MatchesDirectSums) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    for (const int64_t items : {2, 3, 7}) {
      Problem<S> problem(2, items, dim);
      problem.expect_gradients(static_cast<double>(items) * StorageTraits<S>::kTolerance);
    }
  }
}

// Nothing is divided by: a constant row, whose bins are 0 but for the first, and rows of zeros.
TYPED_TEST(MultibindBackward, BinsAndRowsMayBeZero) {
  using S = TypeParam;
  for (const int64_t dim : {5, 32, 75, 101}) {
    Problem<S> problem(3, 3, dim);
    for (int64_t i = 0; i < dim; ++i) {
      problem.factor(0, 1)[i] = from_double<S>(0.25);
      problem.factor(1, 1)[i] = from_double<S>(0);
      problem.grad.data()[2 * dim + i] = from_double<S>(0);
    }
    // Gradients that are a sum of the row alone may be small by cancellation.
    problem.expect_gradients(30 * StorageTraits<S>::kTolerance);
  }
}

// Products that leave the range on the way, of factors and of the gradient, and come back.
TYPED_TEST(MultibindBackward, SurvivesFactorsThatLeaveTheRange) {
  using S = TypeParam;
  constexpr int64_t kItems = 5;
  const int shift = std::is_same_v<S, double> ? 700 : std::is_same_v<S, Half> ? 4 : 90;
  const int shifts[kItems] = {shift, shift, 0, -shift, -shift};
  for (const int64_t dim : {16, 64, 75, 101, 202}) {
    Problem<S> problem(1, kItems, dim);
    for (int64_t k = 0; k < kItems; ++k) {
      for (int64_t i = 0; i < dim; ++i) {
        // Without the bits that float16 would lose on the way down, so that scaling is exact.
        problem.factor(0, k)[i] = from_double<S>(std::ldexp(std::round(32 * to_double(problem.factor(0, k)[i])), -5));
      }
    }
    std::vector<std::vector<double>> want;
    for (int64_t k = 0; k < kItems; ++k) {
      want.push_back(problem.expected(0, k));
    }
    for (int64_t k = 0; k < kItems; ++k) {
      for (int64_t i = 0; i < dim; ++i) {
        S& element = problem.factor(0, k)[i];
        element = from_double<S>(std::ldexp(to_double(element), shifts[k]));
      }
    }
    // The factors' exponents sum to 0, so that only a factor that was not moved has a gradient of the same size.
    const Buffer<S> out = problem.gradients();
    EXPECT_TRUE(is_close(out.data() + 2 * dim, want[2], 10 * StorageTraits<S>::kTolerance)) << "dim " << dim;
  }
}

TYPED_TEST(MultibindBackward, WhatIsNotFiniteReachesTheGradientsThatReadIt) {
  using S = TypeParam;
  constexpr int64_t kItems = 3;
  for (const int64_t dim : {16, 64, 75, 101, 202}) {
    const int64_t row = kItems * dim;
    Problem<S> problem(3, kItems, dim);
    const Buffer<S> clean = problem.gradients();
    for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
      for (const std::vector<int64_t>& poisoned : {std::vector<int64_t>{0}, {1}, {0, 2}, {kItems}}) {
        Problem<S> other(3, kItems, dim);
        for (const int64_t k : poisoned) {
          (k == kItems ? other.grad.data() + dim : other.factor(1, k))[dim / 3] = from_double<S>(bad);
        }
        const Buffer<S> out = other.gradients();
        EXPECT_TRUE(same_bits(out.data(), clean.data(), row));
        EXPECT_TRUE(same_bits(out.data() + 2 * row, clean.data() + 2 * row, row));
        for (int64_t k = 0; k < kItems; ++k) {
          const S* gradient = out.data() + row + k * dim;
          if (poisoned == std::vector<int64_t>{k}) {
            EXPECT_TRUE(is_close(gradient, problem.expected(1, k), kItems * StorageTraits<S>::kTolerance));
          } else {
            EXPECT_TRUE(all_nan(gradient, dim));
          }
        }
      }
    }
  }
}

TYPED_TEST(MultibindBackward, BitsDoNotDependOnRangesOrPlacement) {
  using S = TypeParam;
  constexpr int64_t kRows = 4;
  constexpr int64_t kItems = 3;
  for (const int64_t dim : kDims) {
    const int64_t row = kItems * dim;
    const Problem<S> problem(kRows, kItems, dim);
    const Buffer<S> whole = problem.gradients();
    // Factors that lie row by row in [K, rows, dim], from odd elements, in two ranges.
    Buffer<S> turned(kRows * row + 1);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t k = 0; k < kItems; ++k) {
        std::copy_n(problem.vectors.data() + (r * kItems + k) * dim, dim, turned.data() + 1 + (k * kRows + r) * dim);
      }
    }
    Buffer<S> parts(kRows * row + 1);
    MultibindBackwardParams params = problem.params(parts.data() + 1);
    params.vectors = turned.data() + 1;
    params.map = row_map(kRows, {dim, dim});
    params.item_stride = kRows * dim;
    run_multibind_backward<S>(params, 3, kRows);
    run_multibind_backward<S>(params, 0, 3);
    EXPECT_TRUE(same_bits(parts.data() + 1, whole.data(), kRows * row)) << "dim " << dim;
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
