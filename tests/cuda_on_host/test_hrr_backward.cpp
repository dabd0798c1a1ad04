// The kernel of the gradients of bind, unbind and bind_normalize against their formulas as direct sums.
#include "tests/cuda_on_host/hrr_testing.h"

#include <tuple>

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

template <typename S>
using SomeLengths = std::conditional_t<std::is_same_v<S, float>, AllLengths, Lengths<8, 9>>;

template <typename S>
struct Gradients {
  int64_t rows;
  int64_t dim;
  Rows<S> grad;
  Rows<S> a;
  Rows<S> b;
  Product product = Product::kConvolution;
  bool normalize = false;
  double eps = 1e-12;
  std::vector<S> grad_a;
  std::vector<S> grad_b;

  Gradients(int64_t rows_, int64_t dim_, unsigned seed)
      : rows(rows_), dim(dim_), grad(rows_, dim_, seed), a(rows_, dim_, seed + 1), b(rows_, dim_, seed + 2) {}

  BindingBackwardParams params() {
    grad_a = poisoned<S>(static_cast<size_t>(rows * dim));
    grad_b = grad_a;
    BindingBackwardParams result;
    result.grad = grad.values.data();
    result.a = a.values.data();
    result.b = b.values.data();
    result.grad_a = grad_a.data();
    result.grad_b = grad_b.data();
    result.rows = rows;
    result.dim = dim;
    result.map = contiguous_rows(rows, dim);
    result.product = product;
    result.normalize = normalize;
    result.eps = eps;
    return result;
  }

  void run(const Schedule& schedule = {}, int threads = 0) {
    run_backward<S, SomeLengths<S>>(params(), schedule, threads);
  }

  // The expected gradients of row r with respect to a and b, and the norm of g before c is projected out of it: at
  // D = 1 nothing is left.
  std::tuple<Exact, Exact, long double> expected(int64_t r) const {
    Exact g = grad.exact(r);
    long double upstream = 0;
    const Exact x = a.exact(r);
    const Exact y = b.exact(r);
    if (normalize) {
      const Exact c = oracle_product(Product::kConvolution, x, y);
      const long double norm = std::sqrt(dot(c, c));
      if (norm >= eps) {
        const long double projection = dot(c, g) / norm / norm;
        upstream = std::sqrt(dot(g, g)) / norm;
        for (size_t i = 0; i < g.size(); ++i) {
          g[i] = (g[i] - projection * c[i]) / norm;
        }
      } else {
        g = scaled(g, 1 / static_cast<long double>(eps));
      }
    }
    if (product == Product::kConvolution) {
      return {oracle_product(Product::kCorrelation, g, y), oracle_product(Product::kCorrelation, g, x), upstream};
    }
    return {oracle_product(Product::kConvolution, g, y), oracle_product(Product::kCorrelation, x, g), upstream};
  }

  void check(int64_t r, double tolerance) const {
    const auto [da, db, upstream] = expected(r);
    const long double scale_a = dim == 1 ? upstream * std::abs(b.exact(r)[0]) : 0;
    const long double scale_b = dim == 1 ? upstream * std::abs(a.exact(r)[0]) : 0;
    EXPECT_TRUE(row_close(grad_a.data() + r * dim, da, tolerance, scale_a)) << dim << " row " << r;
    EXPECT_TRUE(row_close(grad_b.data() + r * dim, db, tolerance, scale_b)) << dim << " row " << r;
  }
};

struct Form {
  Product product;
  bool normalize;
};
constexpr Form kForms[] = {
    {Product::kConvolution, false}, {Product::kCorrelation, false}, {Product::kConvolution, true}};
constexpr int64_t kDims[] = {5, 16, 32, 64, 100, 512, 1000, 1024};

class BackwardDims : public testing::TestWithParam<int> {};

TEST_P(BackwardDims, MatchesTheFormulas) {
  const int64_t rows = GetParam() <= 64 ? 5 : 2;
  for (const Form& form : kForms) {
    Gradients<float> gradients(rows, GetParam(), 1);
    gradients.product = form.product;
    gradients.normalize = form.normalize;
    gradients.run();
    const std::vector<float> first_a = gradients.grad_a;
    const std::vector<float> first_b = gradients.grad_b;
    for (int64_t r = 0; r < rows; ++r) {
      gradients.check(r, 1.5 * kTolerance<float>);
    }
    for (const Schedule& schedule : all_schedules(1)) {
      SCOPED_TRACE(schedule);
      gradients.run(schedule);
      EXPECT_TRUE(same_bits(gradients.grad_a.data(), first_a.data(), rows * GetParam()));
      EXPECT_TRUE(same_bits(gradients.grad_b.data(), first_b.data(), rows * GetParam()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Direct, BackwardDims, testing::Values(1, 2, 3, 8, 15));
INSTANTIATE_TEST_SUITE_P(Native, BackwardDims, testing::Values(32, 64, 128, 256, 512, 1024, 2048, 4096, 8192));
INSTANTIATE_TEST_SUITE_P(Padded, BackwardDims, testing::Values(17, 33, 60, 100, 257, 500, 1000, 1999, 4095));

template <typename S>
class BackwardTypes : public testing::Test {};
using StorageTypes = testing::Types<double, Half, BFloat16>;
TYPED_TEST_SUITE(BackwardTypes, StorageTypes);

TYPED_TEST(BackwardTypes, MatchesTheFormulas) {
  for (const int64_t dim : {7, 300, 512, 1024}) {
    for (const Form& form : kForms) {
      Gradients<TypeParam> gradients(2, dim, 4);
      gradients.product = form.product;
      gradients.normalize = form.normalize;
      gradients.run();
      gradients.check(0, kTolerance<TypeParam>);
      gradients.check(1, kTolerance<TypeParam>);
    }
  }
}

TEST(Backward, OneGradientAloneHasTheSameBits) {
  for (const int64_t dim : kDims) {
    for (const Form& form : kForms) {
      Gradients<float> both(3, dim, 7);
      both.product = form.product;
      both.normalize = form.normalize;
      both.run();
      for (const bool keep_a : {false, true}) {
        Gradients<float> one = both;
        BindingBackwardParams params = one.params();
        (keep_a ? params.grad_b : params.grad_a) = nullptr;
        run_backward<float>(params);
        const std::vector<float>& expected = keep_a ? both.grad_a : both.grad_b;
        EXPECT_TRUE(same_bits((keep_a ? one.grad_a : one.grad_b).data(), expected.data(), 3 * dim)) << dim;
        // The other buffer stays as it was.
        EXPECT_TRUE(all_nan((keep_a ? one.grad_b : one.grad_a).data(), 3 * dim)) << dim;
      }
      BindingBackwardParams none = both.params();
      none.grad_a = nullptr;
      none.grad_b = nullptr;
      EXPECT_NO_THROW(run_backward<float>(none));
    }
  }
}

// Rows at odd addresses, a repeated operand, one row at a time, other blocks.
TEST(Backward, LayoutsAndBlocksGiveTheSameBits) {
  for (const int64_t dim : kDims) {
    const int64_t rows = 5;
    Gradients<float> source(rows, dim, 10);
    source.normalize = true;
    for (int64_t r = 1; r < rows; ++r) {
      std::copy_n(source.b.row(0), dim, source.b.row(r));
    }
    source.run();
    for (const int threads : {64, 128}) {
      const int64_t stride = dim + 1;
      std::vector<float> memory(static_cast<size_t>(2 * rows * stride + 1), 1e9f);
      for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(source.grad.row(r), dim, memory.data() + 1 + 2 * r * stride);
        std::copy_n(source.a.row(r), dim, memory.data() + 1 + (2 * r + 1) * stride);
      }
      Gradients<float> strided = source;
      BindingBackwardParams params = strided.params();
      params.grad = memory.data() + 1;
      params.a = memory.data() + 1 + stride;
      params.map.strides[0][0] = 2 * stride;
      params.map.strides[1][0] = 2 * stride;
      params.map.strides[2][0] = 0;
      run_backward<float>(params, {}, dim >= 1000 ? 128 : threads);
      EXPECT_TRUE(same_bits(strided.grad_a.data(), source.grad_a.data(), rows * dim)) << dim;
      EXPECT_TRUE(same_bits(strided.grad_b.data(), source.grad_b.data(), rows * dim)) << dim;
    }
    auto alone_a = poisoned<float>(static_cast<size_t>(dim));
    auto alone_b = poisoned<float>(static_cast<size_t>(dim));
    Gradients<float> batch = source;
    BindingBackwardParams params = batch.params();
    params.rows = 1;
    params.map = RowMap{};
    params.grad = source.grad.row(3);
    params.a = source.a.row(3);
    params.b = source.b.row(3);
    params.grad_a = alone_a.data();
    params.grad_b = alone_b.data();
    run_backward<float>(params);
    EXPECT_TRUE(same_bits(alone_a.data(), source.grad_a.data() + 3 * dim, dim)) << dim;
    EXPECT_TRUE(same_bits(alone_b.data(), source.grad_b.data() + 3 * dim, dim)) << dim;
  }
}

// A plain gradient is NaN where one of the two rows it reads holds NaN; a normalised one where any of the three does.
TEST(Backward, NonFiniteRowsReachTheGradientsThatReadThem) {
  for (const int64_t dim : kDims) {
    for (const Form& form : kForms) {
      for (const float bad : {NAN, INFINITY}) {
        Gradients<float> clean(7, dim, 13);
        clean.product = form.product;
        clean.normalize = form.normalize;
        clean.run();
        Gradients<float> gradients = clean;
        gradients.grad.row(1)[dim / 2] = bad;
        gradients.a.row(3)[dim - 1] = bad;
        gradients.b.row(5)[0] = bad;
        gradients.run();
        for (int64_t r = 0; r < 7; ++r) {
          const bool nan_a = r == 1 || r == 5 || (r == 3 && form.normalize);
          const bool nan_b = r == 1 || r == 3 || (r == 5 && form.normalize);
          EXPECT_TRUE(nan_a ? all_nan(gradients.grad_a.data() + r * dim, dim)
                            : same_bits(gradients.grad_a.data() + r * dim, clean.grad_a.data() + r * dim, dim))
              << dim << " row " << r;
          EXPECT_TRUE(nan_b ? all_nan(gradients.grad_b.data() + r * dim, dim)
                            : same_bits(gradients.grad_b.data() + r * dim, clean.grad_b.data() + r * dim, dim))
              << dim << " row " << r;
        }
      }
    }
  }
}

TEST(Backward, SurvivesScaling) {
  struct Case {
    double grad, a, b;
  };
  for (const int64_t dim : kDims) {
    for (const Form& form : kForms) {
      for (const Case& scale : {Case{1e38, 1e-5, 1e-4}, Case{1, 1e20, 1e15}, Case{1, 1e-15, 1e-15},
                                Case{1, 1e-12, 1e-20}, Case{1e-15, 1e25, 1e-3}, Case{1e30, 1e30, 1e-30}}) {
        Gradients<float> gradients(3, dim, 16);
        gradients.product = form.product;
        gradients.normalize = form.normalize;
        gradients.eps = 0;
        gradients.run();
        const std::vector<float> plain = gradients.grad_a;
        std::copy_n(Rows<float>(1, dim, 17, scale.grad).row(0), dim, gradients.grad.row(1));
        std::copy_n(Rows<float>(1, dim, 18, scale.a).row(0), dim, gradients.a.row(1));
        std::copy_n(Rows<float>(1, dim, 19, scale.b).row(0), dim, gradients.b.row(1));
        gradients.run();
        const auto [da, db, upstream] = gradients.expected(1);
        const auto representable = [](const Exact& row) {
          return std::all_of(row.begin(), row.end(), [](long double x) { return std::abs(x) < 3e38L; });
        };
        if (representable(da)) {
          EXPECT_TRUE(row_close(gradients.grad_a.data() + dim, da, 1.5 * kTolerance<float>))
              << dim << " " << scale.grad;
        }
        if (representable(db)) {
          EXPECT_TRUE(row_close(gradients.grad_b.data() + dim, db, 1.5 * kTolerance<float>))
              << dim << " " << scale.grad;
        }
        EXPECT_TRUE(same_bits(gradients.grad_a.data(), plain.data(), dim));
        EXPECT_TRUE(same_bits(gradients.grad_a.data() + 2 * dim, plain.data() + 2 * dim, dim));
      }
    }
  }
}

// Below eps the norm is a constant.
TEST(Backward, ShortNormsHaveTheGradientOfADivisionByEps) {
  for (const int64_t dim : kDims) {
    Gradients<float> gradients(3, dim, 20);
    gradients.normalize = true;
    gradients.eps = 1e6;
    std::fill_n(gradients.a.row(1), dim, 0.0f);
    for (int64_t i = 0; i < dim; ++i) {
      gradients.a.row(2)[i] *= 1e-25f;
    }
    gradients.run();
    for (int64_t r = 0; r < 3; ++r) {
      gradients.check(r, 1.5 * kTolerance<float>);
    }
    gradients.eps = 1e-12;
    gradients.run();
    gradients.check(1, 1.5 * kTolerance<float>);
    gradients.check(2, 1.5 * kTolerance<float>);
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
