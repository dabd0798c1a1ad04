// The kernel of the gradients of bind, unbind and bind_normalize against their formulas as direct sums.
#include "tests/cuda_on_host/hrr_problems.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

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
    for (int64_t r = first_checked_row(GetParam(), rows); r < rows; ++r) {
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
using StorageTypes = cuda_on_host::TestedTypes<double, Half, BFloat16>;
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
        BindBackwardParams params = one.params();
        (keep_a ? params.grad_b : params.grad_a) = nullptr;
        run_backward<float>(params);
        const std::vector<float>& expected = keep_a ? both.grad_a : both.grad_b;
        EXPECT_TRUE(same_bits((keep_a ? one.grad_a : one.grad_b).data(), expected.data(), 3 * dim)) << dim;
        // The other buffer stays as it was.
        EXPECT_TRUE(all_nan((keep_a ? one.grad_b : one.grad_a).data(), 3 * dim)) << dim;
      }
      BindBackwardParams none = both.params();
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
      BindBackwardParams params = strided.params();
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
    BindBackwardParams params = batch.params();
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
      for (const Case& scale :
           {Case{1e38, 1e-5, 1e-4}, Case{1, 1e20, 1e15}, Case{1, 1e-15, 1e-15}, Case{1, 1e-12, 1e-20},
            Case{1e-15, 1e25, 1e-3}, Case{1e30, 1e30, 1e-30}, Case{1e-34, 3e37, 1e-34}}) {
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

// Below eps the norm is a constant, but for a row of zeros, whose gradient is 0. The gradient is representable where g
// / eps times a power of two may not be.
TEST(Backward, ShortNormsHaveTheGradientOfADivisionByEps) {
  constexpr int64_t kRows = 5;
  for (const int64_t dim : kDims) {
    Gradients<float> gradients(kRows, dim, 20);
    gradients.normalize = true;
    std::fill_n(gradients.a.row(1), dim, 0.0f);
    std::copy_n(Rows<float>(1, dim, 21, 1e-25).row(0), dim, gradients.a.row(2));
    for (int64_t r = 3; r < kRows; ++r) {
      const double magnitude = r == 3 ? 1e-18 : 1e-34;
      std::copy_n(Rows<float>(1, dim, 22, magnitude).row(0), dim, gradients.a.row(r));
      std::copy_n(Rows<float>(1, dim, 23, magnitude).row(0), dim, gradients.b.row(r));
    }
    for (const double eps : {1e6, 1e2, 1e-12}) {
      gradients.eps = eps;
      gradients.run();
      for (int64_t r = 0; r < kRows; ++r) {
        SCOPED_TRACE(eps);
        gradients.check(r, 1.5 * kTolerance<float>);
      }
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
