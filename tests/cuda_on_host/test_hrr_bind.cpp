// The kernels of bind, unbind and bind_normalize in float against the direct sum: every length, edge rows, layouts.
#include "tests/cuda_on_host/hrr_problems.h"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

constexpr Product kProducts[] = {Product::kConvolution, Product::kCorrelation};

class BindingDims : public testing::TestWithParam<int> {};

TEST_P(BindingDims, MatchesTheDirectSum) {
  const int64_t dim = GetParam();
  const int64_t rows = dim <= 64 ? 5 : 2;
  const Rows<float> a(rows, dim, 1);
  const Rows<float> b(rows, dim, 2);
  for (const Product product : kProducts) {
    std::vector<Exact> expected;
    const int64_t checked = first_checked_row(dim, rows);
    for (int64_t r = checked; r < rows; ++r) {
      expected.push_back(oracle_product(product, a.exact(r), b.exact(r)));
    }
    for (const bool normalize : {false, true}) {
      std::vector<float> first;
      for (const Schedule& schedule : all_schedules(1)) {
        SCOPED_TRACE(schedule);
        auto out = poisoned<float>(a.values.size());
        run_binding<float>(binding_params(a, b, out, rows, product, normalize), schedule);
        for (int64_t r = checked; r < rows; ++r) {
          const Exact& c = expected[static_cast<size_t>(r - checked)];
          EXPECT_TRUE(row_close(out.data() + r * dim, normalize ? oracle_normalized(c, kEps) : c, kTolerance<float>))
              << "row " << r << " product " << static_cast<int>(product) << " normalize " << normalize;
        }
        first = first.empty() ? out : first;
        EXPECT_TRUE(same_bits(out.data(), first.data(), rows * dim));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Direct, BindingDims, testing::Values(1, 2, 3, 4, 7, 8, 13, 16));
INSTANTIATE_TEST_SUITE_P(Native, BindingDims, testing::Values(32, 64, 128, 256, 512, 1024, 2048, 4096, 8192));
INSTANTIATE_TEST_SUITE_P(Padded, BindingDims,
                         testing::Values(17, 31, 33, 60, 100, 129, 257, 500, 768, 1000, 1999, 4095));

TEST(Binding, BlockShapesGiveTheSameBits) {
  struct Case {
    int64_t dim;
    std::vector<int> threads;
  };
  for (const Case& shapes : std::vector<Case>{{5, {32, 64, 96}},
                                              {16, {32, 128}},
                                              {32, {32, 64, 96}},
                                              {100, {32, 64, 96}},
                                              {512, {32, 64, 96}},
                                              {1024, {64, 128}},
                                              {700, {128}}}) {
    const int64_t rows = 9;
    const Rows<float> a(rows, shapes.dim, 1);
    const Rows<float> b(rows, shapes.dim, 2);
    for (const bool normalize : {false, true}) {
      const std::vector<float> expected = bound(a, b, Product::kConvolution, normalize);
      for (const int threads : shapes.threads) {
        SCOPED_TRACE(threads);
        auto out = poisoned<float>(a.values.size());
        run_binding<float>(binding_params(a, b, out, rows, Product::kConvolution, normalize), {}, threads);
        EXPECT_TRUE(same_bits(out.data(), expected.data(), rows * shapes.dim)) << shapes.dim;
      }
    }
  }
}

TEST(Binding, ARowAloneHasTheBitsItHasInABatch) {
  for (const int64_t dim : {3, 16, 32, 64, 100, 256, 1000, 1024}) {
    const int64_t rows = 11;
    const Rows<float> a(rows, dim, 3);
    const Rows<float> b(rows, dim, 4);
    for (const bool normalize : {false, true}) {
      const std::vector<float> batch = bound(a, b, Product::kCorrelation, normalize);
      for (const int64_t r : {int64_t{0}, int64_t{6}, rows - 1}) {
        auto alone = poisoned<float>(static_cast<size_t>(dim));
        BindParams params = binding_params(a, b, alone, 1, Product::kCorrelation, normalize);
        params.a = a.row(r);
        params.b = b.row(r);
        params.map = RowMap{};
        run_binding<float>(params);
        EXPECT_TRUE(same_bits(alone.data(), batch.data() + r * dim, dim)) << dim << " row " << r;
      }
    }
  }
}

// Rows at odd offsets and odd strides, a repeated operand, several leading dimensions.
TEST(Binding, LayoutsGiveTheSameBits) {
  for (const int64_t dim : {8, 32, 64, 90, 512, 1024}) {
    const Rows<float> a(2, dim, 5);
    const Rows<float> b(3, dim, 6);
    // out[i, j, k] = a[k] (*) b[j] for i < 2, j < 3, k < 2
    Rows<float> a_rows(12, dim, 0);
    Rows<float> b_rows(12, dim, 0);
    for (int64_t r = 0; r < 12; ++r) {
      std::copy_n(a.row(r % 2), dim, a_rows.row(r));
      std::copy_n(b.row(r / 2 % 3), dim, b_rows.row(r));
    }
    const std::vector<float> expected = bound(a_rows, b_rows);
    for (const int64_t shift : {0, 1, 2, 3}) {
      const int64_t stride = dim + shift;
      std::vector<float> a_memory(static_cast<size_t>(2 * stride + shift), 1e9f);
      std::vector<float> b_memory(static_cast<size_t>(3 * stride + shift), 1e9f);
      for (int64_t r = 0; r < 3; ++r) {
        if (r < 2) {
          std::copy_n(a.row(r), dim, a_memory.data() + shift + r * stride);
        }
        std::copy_n(b.row(r), dim, b_memory.data() + shift + r * stride);
      }
      auto out = poisoned<float>(static_cast<size_t>(12 * dim + shift));
      BindParams params = binding_params(a, b, out, 12);
      params.a = a_memory.data() + shift;
      params.b = b_memory.data() + shift;
      params.out = out.data() + shift;
      params.map = RowMap{};
      params.map.ndim = 3;
      const int64_t sizes[] = {2, 3, 2};
      std::copy_n(sizes, 3, params.map.sizes);
      params.map.strides[0][2] = stride;
      params.map.strides[1][1] = stride;
      run_binding<float>(params);
      EXPECT_TRUE(same_bits(out.data() + shift, expected.data(), 12 * dim)) << dim << " shift " << shift;
    }
  }
}

TEST(Binding, ANonFiniteRowIsNanAndLeavesItsNeighbours) {
  for (const int64_t dim : {5, 32, 64, 100, 512, 1024, 1500}) {
    const int64_t rows = 5;
    for (const bool normalize : {false, true}) {
      for (const float bad : {NAN, INFINITY, -INFINITY}) {
        Rows<float> a(rows, dim, 7);
        Rows<float> b(rows, dim, 8);
        const std::vector<float> clean = bound(a, b, Product::kConvolution, normalize);
        a.row(1)[dim - 1] = bad;
        b.row(3)[dim / 2] = bad;
        const std::vector<float> out = bound(a, b, Product::kConvolution, normalize);
        for (int64_t r = 0; r < rows; ++r) {
          if (r % 2 == 1) {
            EXPECT_TRUE(all_nan(out.data() + r * dim, dim)) << dim << " row " << r;
          } else {
            EXPECT_TRUE(same_bits(out.data() + r * dim, clean.data() + r * dim, dim)) << dim << " row " << r;
          }
        }
      }
    }
  }
}

// Magnitudes whose spectra or norms leave the range of float; the true result does not.
TEST(Binding, NormalizedRowsSurviveScaling) {
  struct Case {
    double a, b;
  };
  for (const int64_t dim : {7, 32, 64, 90, 512, 1000, 1024}) {
    for (const Case& scale : {Case{1e-30, 1e30}, Case{1e30, 1e30}, Case{1e-30, 1e-30}, Case{1e-8, 1e8}, Case{3e-38, 1},
                              Case{1e-20, 1e-4}}) {
      for (const Product product : kProducts) {
        Rows<float> a(3, dim, 9);
        Rows<float> b(3, dim, 10);
        const std::vector<float> plain = bound(a, b, product, true, 0);
        const Rows<float> a_scaled(1, dim, 11, scale.a);
        const Rows<float> b_scaled(1, dim, 12, scale.b);
        std::copy_n(a_scaled.row(0), dim, a.row(1));
        std::copy_n(b_scaled.row(0), dim, b.row(1));
        const std::vector<float> out = bound(a, b, product, true, 0);
        const Exact expected = oracle_normalized(oracle_product(product, a.exact(1), b.exact(1)), 0);
        EXPECT_TRUE(row_close(out.data() + dim, expected, kTolerance<float>))
            << dim << " scales " << scale.a << " " << scale.b;
        EXPECT_TRUE(same_bits(out.data(), plain.data(), dim));
        EXPECT_TRUE(same_bits(out.data() + 2 * dim, plain.data() + 2 * dim, dim));
      }
    }
  }
}

// A power of two changes no bit but the exponents, whether a row is near enough to 1 to go as it stands or not.
TEST(Binding, PowersOfTwoAreExact) {
  for (const int64_t dim : {9, 64, 100, 1000, 1024}) {
    const Rows<float> a(1, dim, 21);
    const Rows<float> b(1, dim, 22);
    for (const Product product : kProducts) {
      const std::vector<float> plain = bound(a, b, product);
      for (const int shift : {7, 8, 9, 90, -8, -9, -10, -90}) {
        Rows<float> shifted = a;
        for (float& x : shifted.values) {
          x = std::ldexp(x, shift);
        }
        std::vector<float> expected = plain;
        for (float& x : expected) {
          x = std::ldexp(x, shift);
        }
        EXPECT_TRUE(same_bits(bound(shifted, b, product).data(), expected.data(), dim)) << dim << " shift " << shift;
      }
    }
  }
}

TEST(Binding, IntermediateOverflowDoesNotSpoilTheResult) {
  for (const int64_t dim : {12, 32, 90, 512, 1024}) {
    Rows<float> a(2, dim, 13);
    Rows<float> b(2, dim, 14);
    const Rows<float> large(1, dim, 15, 1e38);
    const Rows<float> small(1, dim, 16, 1e-4);
    std::copy_n(large.row(0), dim, a.row(1));
    std::copy_n(small.row(0), dim, b.row(1));
    a.row(1)[0] = 3e38f;
    for (const Product product : kProducts) {
      const std::vector<float> out = bound(a, b, product);
      const Exact expected = oracle_product(product, a.exact(1), b.exact(1));
      EXPECT_TRUE(row_close(out.data() + dim, expected, kTolerance<float>)) << dim;
    }
  }
}

TEST(Binding, OnlyElementsThatOverflowAreInfinite) {
  for (const int64_t dim : {6, 64, 100, 1024}) {
    Rows<float> a(1, dim, 17);
    Rows<float> b(1, dim, 18, 0);
    for (int64_t i = 0; i < dim; ++i) {
      a.row(0)[i] = i == 1 ? 2e26f : i == 2 ? -2e26f : 1e20f;
    }
    b.row(0)[0] = 1e15f;
    const std::vector<float> out = bound(a, b);
    for (int64_t i = 0; i < dim; ++i) {
      if (i == 1 || i == 2) {
        EXPECT_EQ(out[static_cast<size_t>(i)], i == 1 ? INFINITY : -INFINITY) << dim;
      } else {
        EXPECT_TRUE(std::isfinite(out[static_cast<size_t>(i)])) << dim << " element " << i;
      }
    }
  }
}

TEST(Binding, KeepsRelativeErrorForUnequalMagnitudes) {
  for (const int64_t dim : {64, 100, 1024}) {
    const Rows<float> a(1, dim, 19, 1e-8);
    const Rows<float> b(1, dim, 20, 1e8);
    for (const Product product : kProducts) {
      EXPECT_TRUE(row_close(bound(a, b, product).data(), oracle_product(product, a.exact(0), b.exact(0)), 1e-6)) << dim;
      EXPECT_TRUE(row_close(bound(b, a, product).data(), oracle_product(product, b.exact(0), a.exact(0)), 1e-6)) << dim;
    }
  }
}

TEST(Binding, ShortNormsAreDividedByEps) {
  for (const int64_t dim : {9, 64, 100, 1024}) {
    const Rows<float> a(1, dim, 21, 1e-4);
    const Rows<float> b(1, dim, 22, 1e-4);
    for (const double eps : {1e-3, 1e3}) {
      const Exact expected = oracle_normalized(oracle_product(Product::kConvolution, a.exact(0), b.exact(0)), eps);
      EXPECT_TRUE(row_close(bound(a, b, Product::kConvolution, true, eps).data(), expected, kTolerance<float>)) << dim;
    }
    // Far below the range of a squared norm.
    const Rows<float> c(1, dim, 23, 1e-16);
    const Exact tiny = oracle_normalized(oracle_product(Product::kConvolution, c.exact(0), a.exact(0)), kEps);
    EXPECT_TRUE(row_close(bound(c, a, Product::kConvolution, true).data(), tiny, kTolerance<float>)) << dim;
  }
}

TEST(Binding, ZeroRowsStayZeroUnlessEpsIsZero) {
  for (const int64_t dim : {4, 64, 100, 1024}) {
    const Rows<float> a(2, dim, 24, 0);
    const Rows<float> b(2, dim, 25);
    for (const float value : bound(a, b, Product::kConvolution, true)) {
      EXPECT_EQ(value, 0) << dim;
    }
    EXPECT_TRUE(all_nan(bound(a, b, Product::kConvolution, true, 0).data(), dim)) << dim;
  }
}

TEST(Binding, NoRowsLaunchNothingAndLongRowsAreRefused) {
  BindParams params;
  params.dim = 64;
  EXPECT_NO_THROW(run_binding<float>(params));
  params.rows = 1;
  params.dim = 0;
  EXPECT_NO_THROW(run_binding<float>(params));
  for (const int64_t dim : {4097, 8191, 16384}) {
    params.dim = dim;
    EXPECT_THROW(run_binding<float>(params), std::runtime_error) << dim;
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
