// Rows at the ends of the floating range: exact scaling keeps results that the storage type can hold.
#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/superposition.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

const std::vector<int64_t> kDims = {5, 16, 17, 32, 96, 100, 128, 400, 512, 768, 1000, 1024};

template <typename S>
Buffer<S> bound(const Buffer<S>& a, const Buffer<S>& b, Product product, bool normalize, double eps) {
  Buffer<S> out(a.size());
  BindParams params;
  params.a = a.data();
  params.b = b.data();
  params.out = out.data();
  params.rows = 1;
  params.dim = a.size();
  params.product = product;
  params.normalize = normalize;
  params.eps = eps;
  run_bind<S>(params, 0, 1);
  return out;
}

// The row over its scale: the sums here are then in range whatever the kernel is given.
template <typename S>
std::vector<double> over_scale(const Buffer<S>& row, double scale) {
  std::vector<double> values = row_at(row.data(), row.size());
  for (double& value : values) {
    value /= scale;
  }
  return values;
}

template <typename S>
class Range : public ::testing::Test {};
TYPED_TEST_SUITE(Range, StorageTypes);

struct Scales {
  double a, b;
};

// Ratios of 1e-8 to 1e8 between the operands cost nothing: they are never packed into one transform.
TYPED_TEST(Range, OperandsMayDifferBySixteenOrders) {
  using S = TypeParam;
  const double most = std::is_same_v<S, Half> ? 1e3 : 1e8;
  for (const int64_t dim : kDims) {
    for (const Scales scales : {Scales{most, 1 / most}, Scales{1 / most, most}, Scales{1, 1 / most}, Scales{1, most}}) {
      for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
        SCOPED_TRACE(::testing::Message() << "dim " << dim << ", scales " << scales.a << " and " << scales.b);
        const Buffer<S> a = random_values<S>(dim, 61, scales.a);
        const Buffer<S> b = random_values<S>(dim, 62, scales.b);
        const std::vector<double> c = product_of(product, row_at(a.data(), dim), row_at(b.data(), dim));
        if (norm_of(c) < 6e4 || !std::is_same_v<S, Half>) {
          ASSERT_TRUE(is_close(bound(a, b, product, false, 0).data(), c));
        }
        ASSERT_TRUE(is_close(bound(a, b, product, true, 1e-30).data(), normalized(c, 1e-30)));
      }
    }
  }
}

// A unit vector's direction survives where its product's norm, or its square, is beyond the compute type.
TYPED_TEST(Range, NormalizedFormsReachTheEnds) {
  using S = TypeParam;
  std::vector<Scales> scales = {{1e4, 1e4}, {1e-4, 1e-4}, {1e4, 1e-6}};
  if (std::is_same_v<S, float> || std::is_same_v<S, BFloat16>) {
    scales.insert(scales.end(), {{1e30, 1e30}, {1e-30, 1e-30}, {1e37, 1e37}, {1e-36, 1e-36}, {1e37, 1e-37}});
  } else if (std::is_same_v<S, double>) {
    scales.insert(scales.end(), {{1e300, 1e300}, {1e-300, 1e-300}, {1e300, 1e-300}, {1e160, 1e-8}, {1e-160, 1e-8}});
  }
  for (const int64_t dim : kDims) {
    for (const Scales& scale : scales) {
      for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
        SCOPED_TRACE(::testing::Message() << "dim " << dim << ", scales " << scale.a << " and " << scale.b);
        const Buffer<S> a = random_values<S>(dim, 63, scale.a);
        const Buffer<S> b = random_values<S>(dim, 64, scale.b);
        const std::vector<double> c = product_of(product, over_scale(a, scale.a), over_scale(b, scale.b));
        ASSERT_TRUE(is_close(bound(a, b, product, true, 0).data(), normalized(c, 0)));
      }
    }
  }
}

// Subnormal inputs carry few bits, and all of them count.
TYPED_TEST(Range, NormalizedFormsReachSubnormals) {
  using S = TypeParam;
  const double least = to_double(std::numeric_limits<S>::denorm_min());
  for (const int64_t dim : kDims) {
    const Buffer<S> a = random_values<S>(dim, 65, 300 * least);
    for (const double scale_b : {1.0, 300 * least, 1e3}) {
      SCOPED_TRACE(::testing::Message() << "dim " << dim << ", second scale " << scale_b);
      const Buffer<S> b = random_values<S>(dim, 66, scale_b);
      const std::vector<double> c = convolve(over_scale(a, least), over_scale(b, scale_b));
      EXPECT_TRUE(is_close(bound(a, b, Product::kConvolution, true, 0).data(), normalized(c, 0)));
    }
  }
}

// The spectrum of a full row near the top overflows; times a small delta vector the result is in range.
TYPED_TEST(Range, PlainFormsSurviveOverflowOnTheWay) {
  using S = TypeParam;
  const double top = to_double(std::numeric_limits<S>::max());
  for (const int64_t dim : kDims) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim);
    Buffer<S> a(dim);
    for (int64_t i = 0; i < dim; ++i) {
      a.data()[i] = from_double<S>(top * (0.5 + 0.4 * static_cast<double>(i % 7) / 7));
    }
    Buffer<S> b(dim);
    std::fill_n(b.data(), dim, S(0));
    b.data()[1] = from_double<S>(0x1p-10);
    const std::vector<double> want = convolve(row_at(a.data(), dim), row_at(b.data(), dim));
    EXPECT_TRUE(is_close(bound(a, b, Product::kConvolution, false, 0).data(), want)) << "bind";
    EXPECT_TRUE(is_close(bound(a, b, Product::kCorrelation, false, 0).data(),
                         correlate(row_at(a.data(), dim), row_at(b.data(), dim))))
        << "unbind";

    BindSuperposeParams params;
    Buffer<S> out(dim);
    params.a = a.data();
    params.b = b.data();
    params.out = out.data();
    params.rows = 1;
    params.items = 1;
    params.dim = dim;
    params.eps = 0;
    run_bind_superpose<S>(params, 0, 1);
    EXPECT_TRUE(is_close(out.data(), want)) << "record";
  }
}

// What the storage type cannot hold is infinite, not NaN.
TYPED_TEST(Range, PlainFormsOverflowToInfinity) {
  using S = TypeParam;
  const double top = to_double(std::numeric_limits<S>::max());
  for (const int64_t dim : kDims) {
    Buffer<S> a(dim);
    Buffer<S> b(dim);
    std::fill_n(a.data(), dim, from_double<S>(top / 2));
    std::fill_n(b.data(), dim, from_double<S>(-top / 2));
    const Buffer<S> out = bound(a, b, Product::kConvolution, false, 0);
    for (int64_t i = 0; i < dim; ++i) {
      ASSERT_EQ(to_double(out.data()[i]), -std::numeric_limits<double>::infinity()) << "dim " << dim;
    }
  }
}

TYPED_TEST(Range, SuperpositionsReachTheEnds) {
  using S = TypeParam;
  constexpr int64_t kItems = 12;
  const double top = to_double(std::numeric_limits<S>::max());
  const double least = to_double(std::numeric_limits<S>::denorm_min());
  for (const int64_t dim : kDims) {
    for (const double scale : {top / 8, top / 64, 1.0, 1000 * least}) {
      for (const bool normalize : {false, true}) {
        if (!normalize && scale < 1) {
          continue;  // a plain sum of subnormals is rounded to subnormals
        }
        SCOPED_TRACE(::testing::Message() << "dim " << dim << ", scale " << scale << (normalize ? ", normalised" : ""));
        // Weights of alternating sign: partial sums leave the range of a row near the top, the whole stays inside.
        const Buffer<S> vectors = random_values<S>(dim, 67, scale);
        Buffer<S> weights(kItems);
        for (int64_t k = 0; k < kItems; ++k) {
          weights.data()[k] = from_double<S>(k % 4 < 2 ? 1.5 : -1.5);
        }
        weights.data()[0] = from_double<S>(1.75);
        Buffer<S> out(dim);
        SuperpositionParams params;
        params.vectors = vectors.data();
        params.weights = weights.data();
        params.out = out.data();
        params.rows = 1;
        params.items = kItems;
        params.dim = dim;
        params.item_stride_weights = 1;
        params.normalize = normalize;
        params.eps = 0;
        run_superpose<S>(params, 0, 1);
        std::vector<double> want = over_scale(vectors, scale);
        for (double& value : want) {
          value *= 0.25;
        }
        if (normalize) {
          EXPECT_TRUE(is_close(out.data(), normalized(want, 0), 8 * StorageTraits<S>::kTolerance));
        } else {
          for (double& value : want) {
            value *= scale;
          }
          EXPECT_TRUE(is_close(out.data(), want, 8 * StorageTraits<S>::kTolerance));
        }
      }
    }
  }
}

// Items far apart, each brought back by its weight: no scale fits them all, and every one counts.
TYPED_TEST(Range, RecordsScaleEachItem) {
  using S = TypeParam;
  const bool wide = std::is_same_v<S, double>;
  const bool narrow = std::is_same_v<S, Half>;
  const int big = wide ? 900 : narrow ? 9 : 95;
  const int shift = wide ? 120 : narrow ? 3 : 30;
  // Exponents of a, b and the weight: each product is near 1, but those of the first two items are not on the way.
  const int exponents[3][3] = {{big, shift, -big - shift}, {-big, -shift, big + shift}, {0, 0, 0}};
  constexpr int64_t kItems = 3;
  for (const int64_t dim : kDims) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim);
    Buffer<S> a = random_values<S>(kItems * dim, 68);
    Buffer<S> b = random_values<S>(kItems * dim, 69);
    Buffer<S> weights(kItems);
    std::vector<double> want(static_cast<size_t>(dim), 0.0);
    for (int64_t k = 0; k < kItems; ++k) {
      // Multiplies an item by 2^exponent in place and returns what it then is, over 2^exponent.
      const auto move = [&](Buffer<S>& rows, int exponent) {
        std::vector<double> moved;
        for (int64_t i = k * dim; i < (k + 1) * dim; ++i) {
          rows.data()[i] = from_double<S>(std::ldexp(to_double(rows.data()[i]), exponent));
          moved.push_back(std::ldexp(to_double(rows.data()[i]), -exponent));
        }
        return moved;
      };
      const std::vector<double> item_a = move(a, exponents[k][0]);
      add_to(want, 1, convolve(item_a, move(b, exponents[k][1])));
      weights.data()[k] = from_double<S>(std::ldexp(1.0, exponents[k][2]));
    }
    for (const bool normalize : {false, true}) {
      Buffer<S> out(dim);
      BindSuperposeParams params;
      params.a = a.data();
      params.b = b.data();
      params.weights = weights.data();
      params.out = out.data();
      params.rows = 1;
      params.items = kItems;
      params.dim = dim;
      params.item_stride_a = dim;
      params.item_stride_b = dim;
      params.item_stride_weights = 1;
      params.normalize = normalize;
      params.eps = 0;
      run_bind_superpose<S>(params, 0, 1);
      EXPECT_TRUE(is_close(out.data(), normalize ? normalized(want, 0) : want, 2 * StorageTraits<S>::kTolerance))
          << (normalize ? "normalised" : "plain");
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
