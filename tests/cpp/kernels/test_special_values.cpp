// NaN, infinity, zero, subnormal and huge rows: what they give, and that their neighbours do not notice.
#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/superposition.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

// One length of each algorithm and vector width.
const std::vector<int64_t> kDims = {1, 5, 16, 17, 32, 96, 100, 128, 400, 512, 768, 1000, 1024};

template <typename S>
BindParams binding(const Buffer<S>& a, const Buffer<S>& b, Buffer<S>& out, int64_t dim, Product product, bool normalize,
                   double eps = 1e-12) {
  BindParams params;
  params.a = a.data();
  params.b = b.data();
  params.out = out.data();
  params.rows = a.size() / dim;
  params.dim = dim;
  params.map = row_map(params.rows, {dim, dim});
  params.product = product;
  params.normalize = normalize;
  params.eps = eps;
  return params;
}

template <typename S>
Buffer<S> bound(const Buffer<S>& a, const Buffer<S>& b, int64_t dim, Product product, bool normalize,
                double eps = 1e-12) {
  Buffer<S> out(a.size());
  run_bind<S>(binding(a, b, out, dim, product, normalize, eps), 0, a.size() / dim);
  return out;
}

// All items of all rows in one buffer: row r holds items r * items and on.
template <typename S>
Buffer<S> superposed(const Buffer<S>& vectors, const Buffer<S>* weights, int64_t items, int64_t dim, bool normalize,
                     double eps = 1e-12) {
  Buffer<S> out(vectors.size() / items);
  SuperpositionParams params;
  params.vectors = vectors.data();
  params.weights = weights == nullptr ? nullptr : weights->data();
  params.out = out.data();
  params.rows = vectors.size() / (items * dim);
  params.items = items;
  params.dim = dim;
  params.map = row_map(params.rows, {items * dim, items});
  params.item_stride_vectors = dim;
  params.item_stride_weights = 1;
  params.normalize = normalize;
  params.eps = eps;
  run_superpose<S>(params, 0, params.rows);
  return out;
}

template <typename S>
Buffer<S> recorded(const Buffer<S>& a, const Buffer<S>& b, const Buffer<S>* weights, int64_t items, int64_t dim,
                   bool normalize) {
  Buffer<S> out(a.size() / items);
  BindSuperposeParams params;
  params.a = a.data();
  params.b = b.data();
  params.weights = weights == nullptr ? nullptr : weights->data();
  params.out = out.data();
  params.rows = a.size() / (items * dim);
  params.items = items;
  params.dim = dim;
  params.map = row_map(params.rows, {items * dim, items * dim, items});
  params.item_stride_a = dim;
  params.item_stride_b = dim;
  params.item_stride_weights = 1;
  params.normalize = normalize;
  params.eps = 1e-12;
  run_bind_superpose<S>(params, 0, params.rows);
  return out;
}

// Row 1 of 3 is NaN throughout; rows 0 and 2 have the bits they had without it.
template <typename S>
::testing::AssertionResult only_middle_is_nan(const Buffer<S>& got, const Buffer<S>& clean) {
  const int64_t dim = got.size() / 3;
  if (auto result = all_nan(got.data() + dim, dim); !result) {
    return result << " in the poisoned row";
  }
  if (auto result = same_bits(got.data(), clean.data(), dim); !result) {
    return result << " in the row before";
  }
  return same_bits(got.data() + 2 * dim, clean.data() + 2 * dim, dim);
}

template <typename S>
class SpecialValues : public ::testing::Test {
 protected:
  template <typename Check>
  static void for_each_poison(int64_t dim, const Check& check) {
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double poison : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
      for (const int64_t at : {int64_t{0}, dim / 2, dim - 1}) {
        SCOPED_TRACE(::testing::Message() << "dim " << dim << ", " << poison << " at " << at);
        check(from_double<S>(poison), at);
        if (::testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
};
TYPED_TEST_SUITE(SpecialValues, StorageTypes);

TYPED_TEST(SpecialValues, PoisonStaysInItsRowOfBind) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    const Buffer<S> a = random_values<S>(3 * dim, 41);
    const Buffer<S> b = random_values<S>(3 * dim, 42);
    for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
      for (const bool normalize : {false, true}) {
        const Buffer<S> clean = bound(a, b, dim, product, normalize);
        this->for_each_poison(dim, [&](S poison, int64_t at) {
          Buffer<S> bad_a = a;
          Buffer<S> bad_b = b;
          bad_a.data()[dim + at] = poison;
          bad_b.data()[dim + at] = poison;
          EXPECT_TRUE(only_middle_is_nan(bound(bad_a, b, dim, product, normalize), clean)) << "first operand";
          EXPECT_TRUE(only_middle_is_nan(bound(a, bad_b, dim, product, normalize), clean)) << "second operand";
        });
      }
    }
  }
}

TYPED_TEST(SpecialValues, PoisonStaysInItsRowOfSums) {
  using S = TypeParam;
  constexpr int64_t kItems = 2;
  for (const int64_t dim : kDims) {
    const Buffer<S> a = random_values<S>(3 * kItems * dim, 43);
    const Buffer<S> b = random_values<S>(3 * kItems * dim, 44);
    const Buffer<S> weights = random_values<S>(3 * kItems, 45);
    for (const bool normalize : {false, true}) {
      const Buffer<S> sum = superposed(a, &weights, kItems, dim, normalize);
      const Buffer<S> record = recorded(a, b, &weights, kItems, dim, normalize);
      this->for_each_poison(dim, [&](S poison, int64_t at) {
        Buffer<S> bad_a = a;
        Buffer<S> bad_b = b;
        Buffer<S> bad_weights = weights;
        bad_a.data()[(kItems + 1) * dim + at] = poison;
        bad_b.data()[(kItems + 1) * dim + at] = poison;
        bad_weights.data()[kItems + 1] = poison;
        EXPECT_TRUE(only_middle_is_nan(superposed(bad_a, &weights, kItems, dim, normalize), sum)) << "vectors";
        EXPECT_TRUE(only_middle_is_nan(superposed(a, &bad_weights, kItems, dim, normalize), sum)) << "weights";
        EXPECT_TRUE(only_middle_is_nan(recorded(bad_a, b, &weights, kItems, dim, normalize), record)) << "a";
        EXPECT_TRUE(only_middle_is_nan(recorded(a, bad_b, &weights, kItems, dim, normalize), record)) << "b";
        EXPECT_TRUE(only_middle_is_nan(recorded(a, b, &bad_weights, kItems, dim, normalize), record)) << "weights";
      });
    }
  }
}

TYPED_TEST(SpecialValues, PoisonStaysInItsRowOfGradients) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    const Buffer<S> inputs[3] = {random_values<S>(3 * dim, 46), random_values<S>(3 * dim, 47),
                                 random_values<S>(3 * dim, 48)};
    for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
      for (const bool normalize : {false, true}) {
        if (normalize && product == Product::kCorrelation) {
          continue;
        }
        const auto gradients = [&](const Buffer<S>& grad, const Buffer<S>& a, const Buffer<S>& b) {
          std::vector<Buffer<S>> both(2, Buffer<S>(3 * dim));
          BindBackwardParams params;
          params.grad = grad.data();
          params.a = a.data();
          params.b = b.data();
          params.grad_a = both[0].data();
          params.grad_b = both[1].data();
          params.rows = 3;
          params.dim = dim;
          params.map = row_map(3, {dim, dim, dim});
          params.product = product;
          params.normalize = normalize;
          params.eps = 1e-12;
          run_bind_backward<S>(params, 0, 3);
          return both;
        };
        const std::vector<Buffer<S>> clean = gradients(inputs[0], inputs[1], inputs[2]);
        this->for_each_poison(dim, [&](S poison, int64_t at) {
          for (int which = 0; which < 3; ++which) {
            std::vector<Buffer<S>> bad(std::begin(inputs), std::end(inputs));
            bad[static_cast<size_t>(which)].data()[dim + at] = poison;
            const std::vector<Buffer<S>> got = gradients(bad[0], bad[1], bad[2]);
            // Of a plain product dL/da reads g and b, dL/db g and a.
            const auto expect = [&](const Buffer<S>& gradient, const Buffer<S>& untouched, bool reached) {
              EXPECT_TRUE(reached ? only_middle_is_nan(gradient, untouched)
                                  : same_bits(gradient.data(), untouched.data(), 3 * dim))
                  << "input " << which << " dim " << dim;
            };
            expect(got[0], clean[0], normalize || which != 1);
            expect(got[1], clean[1], normalize || which != 2);
          }
        });
      }
    }
  }
}

TYPED_TEST(SpecialValues, ZeroRowsGiveZeroRows) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    Buffer<S> a = random_values<S>(3 * dim, 49);
    const Buffer<S> b = random_values<S>(3 * dim, 50);
    std::fill_n(a.data() + dim, dim, S(0));
    for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
      for (const bool normalize : {false, true}) {
        const Buffer<S> out = bound(a, b, dim, product, normalize);
        for (int64_t i = 0; i < dim; ++i) {
          ASSERT_EQ(to_double(out.data()[dim + i]), 0) << "dim " << dim;
        }
      }
      // 0 / max(0, 0)
      EXPECT_TRUE(all_nan(bound(a, b, dim, product, true, 0.0).data() + dim, dim));
    }
    const Buffer<S> sum = superposed(a, static_cast<const Buffer<S>*>(nullptr), 1, dim, true);
    for (int64_t i = 0; i < dim; ++i) {
      ASSERT_EQ(to_double(sum.data()[dim + i]), 0) << "dim " << dim;
    }
  }
}

// Below eps the divisor is eps; just above, the norm.
TYPED_TEST(SpecialValues, EpsIsTheLeastDivisor) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    const Buffer<S> a = random_values<S>(dim, 51);
    const Buffer<S> b = random_values<S>(dim, 52);
    const std::vector<double> c = convolve(row_at(a.data(), dim), row_at(b.data(), dim));
    for (const double factor : {1e-6, 0.5, 0.999, 1.001, 2.0, 1000.0}) {
      const double eps = factor * norm_of(c);
      EXPECT_TRUE(is_close(bound(a, b, dim, Product::kConvolution, true, eps).data(), normalized(c, eps)))
          << "dim " << dim << ", eps " << factor << " times the norm";
      const std::vector<double> x = row_at(a.data(), dim);
      const double other = factor * norm_of(x);
      EXPECT_TRUE(is_close(superposed(a, static_cast<const Buffer<S>*>(nullptr), 1, dim, true, other).data(),
                           normalized(x, other)))
          << "superpose, dim " << dim << ", eps " << factor << " times the norm";
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
