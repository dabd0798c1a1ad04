// The binding kernels in double and the half types: accuracy, rounding of the result, range, edge rows.
#include "tests/cuda_on_host/hrr_problems.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

constexpr int64_t kDims[] = {1, 6, 16, 300, 512, 511, 1024};

template <typename S>
class BindingTypes : public testing::Test {};
using StorageTypes = cuda_on_host::TestedTypes<double, Half, BFloat16>;
TYPED_TEST_SUITE(BindingTypes, StorageTypes);

TYPED_TEST(BindingTypes, MatchesTheDirectSum) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    const Rows<S> a(3, dim, 1);
    const Rows<S> b(3, dim, 2);
    for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
      std::vector<Exact> expected;
      for (int64_t r = 0; r < 3; ++r) {
        expected.push_back(oracle_product(product, a.exact(r), b.exact(r)));
      }
      for (const bool normalize : {false, true}) {
        for (const Schedule& schedule : all_schedules(1)) {
          const std::vector<S> out = bound(a, b, product, normalize, 1e-12, schedule);
          for (int64_t r = 0; r < 3; ++r) {
            const Exact& c = expected[static_cast<size_t>(r)];
            EXPECT_TRUE(row_close(out.data() + r * dim, normalize ? oracle_normalized(c, 0) : c, kTolerance<S>)) << dim;
          }
        }
      }
    }
  }
}

TYPED_TEST(BindingTypes, ANonFiniteRowIsNanAndLeavesItsNeighbours) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    Rows<S> a(3, dim, 3);
    const Rows<S> b(3, dim, 4);
    for (const bool normalize : {false, true}) {
      for (const double bad : {std::nan(""), HUGE_VAL}) {
        a.row(1)[0] = static_cast<S>(1);
        const std::vector<S> clean = bound(a, b, Product::kCorrelation, normalize);
        a.row(1)[0] = static_cast<S>(bad);
        const std::vector<S> out = bound(a, b, Product::kCorrelation, normalize);
        EXPECT_TRUE(all_nan(out.data() + dim, dim)) << dim;
        EXPECT_TRUE(same_bits(out.data(), clean.data(), dim)) << dim;
        EXPECT_TRUE(same_bits(out.data() + 2 * dim, clean.data() + 2 * dim, dim)) << dim;
      }
    }
  }
}

// The extremes of each type, as far as its elements can hold them.
TYPED_TEST(BindingTypes, NormalizedRowsSurviveScaling) {
  using S = TypeParam;
  const double largest = static_cast<double>(std::numeric_limits<S>::max());
  const double smallest = static_cast<double>(std::numeric_limits<S>::min());
  for (const int64_t dim : kDims) {
    for (const double scale_a : {largest / 8, smallest * 1e3}) {
      for (const double scale_b : {largest / 8, smallest * 1e3}) {
        const double root = std::sqrt(static_cast<double>(dim));
        const Rows<S> a(2, dim, 5, scale_a == smallest * 1e3 ? scale_a * root : scale_a);
        const Rows<S> b(2, dim, 6, scale_b == smallest * 1e3 ? scale_b * root : scale_b);
        const std::vector<S> out = bound(a, b, Product::kConvolution, true, 0);
        for (int64_t r = 0; r < 2; ++r) {
          const Exact c = oracle_product(Product::kConvolution, a.exact(r), b.exact(r));
          EXPECT_TRUE(row_close(out.data() + r * dim, oracle_normalized(c, 0), kTolerance<S>))
              << dim << " scales " << scale_a << " " << scale_b;
        }
      }
    }
  }
}

TEST(BindingDouble, KeepsItsAccuracyFarOutsideTheRangeOfFloat) {
  for (const int64_t dim : {16, 300, 512, 1024}) {
    const Rows<double> a(1, dim, 7, 1e200);
    const Rows<double> b(1, dim, 8, 1e-150);
    const Exact expected = oracle_product(Product::kConvolution, a.exact(0), b.exact(0));
    EXPECT_TRUE(row_close(bound(a, b, Product::kConvolution, false).data(), expected, kTolerance<double>)) << dim;
    const Rows<double> c(1, dim, 9, 1e-200);
    const Rows<double> d(1, dim, 10, 1e-150);
    const Exact tiny = oracle_normalized(oracle_product(Product::kConvolution, c.exact(0), d.exact(0)), 0);
    EXPECT_TRUE(row_close(bound(c, d, Product::kConvolution, true, 0).data(), tiny, kTolerance<double>)) << dim;
  }
}

// float16 rounds to infinity beyond 65504, and no sooner: the arithmetic is in float.
TEST(BindingHalf, OverflowsOnlyWhereTheResultDoes) {
  for (const int64_t dim : {8, 512}) {
    Rows<Half> a(1, dim, 11, 0);
    Rows<Half> b(1, dim, 12, 0);
    a.row(0)[0] = static_cast<Half>(60000.0f);
    a.row(0)[1] = static_cast<Half>(-60000.0f);
    a.row(0)[2] = static_cast<Half>(100.0f);
    b.row(0)[0] = static_cast<Half>(2.0f);
    const std::vector<Half> out = bound(a, b, Product::kConvolution, false);
    EXPECT_EQ(static_cast<float>(out[0]), INFINITY);
    EXPECT_EQ(static_cast<float>(out[1]), -INFINITY);
    EXPECT_NEAR(static_cast<float>(out[2]), 200.0f, 0.125f);
    EXPECT_NEAR(static_cast<float>(out[3]), 0.0f, 0.125f);
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
