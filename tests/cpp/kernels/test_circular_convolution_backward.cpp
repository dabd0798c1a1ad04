// Gradients of bind, unbind and bind_normalize against their closed form in direct float64 sums.
#include <array>
#include <cmath>

#include "kernels/hrr/circular_convolution.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

struct Form {
  const char* name;
  Product product;
  bool normalize;
  double eps;
};
// An eps above every norm takes the other branch of max(norm2, eps).
constexpr Form kForms[] = {{"bind", Product::kConvolution, false, 0},
                           {"unbind", Product::kCorrelation, false, 0},
                           {"bind_normalize", Product::kConvolution, true, 1e-12},
                           {"bind_normalize with a large eps", Product::kConvolution, true, 1e6}};

const std::vector<int64_t> kDims = {1,   2,   3,    5,    8,    15,   16,   17,   24,   31,   32,  33,
                                    63,  64,  65,   96,   100,  127,  128,  129,  160,  256,  257, 480,
                                    512, 768, 1000, 1024, 2047, 2048, 4000, 4095, 4096, 8192, 243, 1001};
const std::vector<int64_t> kSomeDims = {1, 3, 16, 17, 32, 96, 100, 128, 160, 256, 512, 768, 1000, 1024, 2048};

struct Expected {
  std::vector<double> a, b;
};

// y = a conv b: grad_a = g corr b, grad_b = g corr a. y = a corr b: grad_a = g conv b, grad_b = a corr g.
// y = c / max(n, eps), c = a conv b, n = norm2(c): the same from (g - y (y . g)) / n where n > eps, else from g / eps.
Expected expected_gradients(const Form& form, std::vector<double> g, const std::vector<double>& a,
                            const std::vector<double>& b) {
  if (form.product == Product::kCorrelation) {
    return {convolve(g, b), correlate(a, g)};
  }
  if (form.normalize) {
    const std::vector<double> c = convolve(a, b);
    const double norm = norm_of(c);
    if (norm > form.eps) {
      add_to(g, -dot_of(c, g) / norm / norm, c);
    }
    for (double& value : g) {
      value /= std::max(norm, form.eps);
    }
  }
  return {correlate(g, b), correlate(g, a)};
}

template <typename S>
struct Operands {
  Buffer<S> grad, a, b;
  int64_t rows, dim;
  RowMap map;

  Operands(int64_t the_rows, int64_t the_dim)
      : grad(random_values<S>(the_rows * the_dim, 1)),
        a(random_values<S>(the_rows * the_dim, 2)),
        b(random_values<S>(the_rows * the_dim, 3)),
        rows(the_rows),
        dim(the_dim),
        map(row_map(the_rows, {the_dim, the_dim, the_dim})) {}

  BindBackwardParams params(const Form& form, S* grad_a, S* grad_b) const {
    BindBackwardParams params;
    params.grad = grad.data();
    params.a = a.data();
    params.b = b.data();
    params.grad_a = grad_a;
    params.grad_b = grad_b;
    params.rows = rows;
    params.dim = dim;
    params.map = map;
    params.product = form.product;
    params.normalize = form.normalize;
    params.eps = form.eps;
    return params;
  }
};

template <typename S>
class CircularConvolutionBackward : public ::testing::Test {
 protected:
  template <typename Check>
  static void for_each_form(const std::vector<int64_t>& dims, const Check& check) {
    for (const int64_t dim : dims) {
      for (const Form& form : kForms) {
        SCOPED_TRACE(::testing::Message() << form.name << ", dim " << dim);
        check(form, dim);
        if (::testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
};
TYPED_TEST_SUITE(CircularConvolutionBackward, StorageTypes);

TYPED_TEST(CircularConvolutionBackward, EqualsTheClosedForm) {
  using S = TypeParam;
  // Two products follow one another here, and the projection subtracts.
  constexpr double kTolerance = 3 * StorageTraits<S>::kTolerance;
  this->for_each_form(kDims, [&](const Form& form, int64_t dim) {
    const int64_t rows = dim <= 300 ? 3 : 1;
    const Operands<S> operands(rows, dim);
    Buffer<S> grad_a(rows * dim);
    Buffer<S> grad_b(rows * dim);
    run_bind_backward<S>(operands.params(form, grad_a.data(), grad_b.data()), 0, rows);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = r * dim;
      const std::vector<double> g = row_at(operands.grad.data() + at, dim);
      const Expected want =
          expected_gradients(form, g, row_at(operands.a.data() + at, dim), row_at(operands.b.data() + at, dim));
      if (dim == 1 && form.normalize && form.eps < 1) {
        // y is the sign of c: the gradient is the rounding of g - g.
        EXPECT_NEAR(to_double(grad_a.data()[at]), 0, 1e-6 * std::abs(g[0]) + 1e-6);
        continue;
      }
      ASSERT_TRUE(is_close(grad_a.data() + at, want.a, kTolerance)) << "grad_a, row " << r;
      ASSERT_TRUE(is_close(grad_b.data() + at, want.b, kTolerance)) << "grad_b, row " << r;
    }
  });
}

// Rows 3, 4, 0, ... times a power of two: no transform of two's powers rounds them, so their norm is eps itself.
TYPED_TEST(CircularConvolutionBackward, AtANormOfEpsItIsEpsThatDivides) {
  using S = TypeParam;
  for (const int64_t dim : {2, 3, 8, 16, 17, 32, 128, 256, 1003, 1024}) {
    // In range as they stand, and not: of float, of double.
    for (const int exponent : {-4, -50, -600}) {
      const double unit = std::ldexp(1, exponent);
      if (to_double(from_double<S>(unit)) == 0) {
        continue;
      }
      SCOPED_TRACE(::testing::Message() << "dim " << dim << ", eps 5 2^" << exponent);
      const Form form{"bind_normalize", Product::kConvolution, true, 5 * unit};
      Operands<S> operands(1, dim);
      for (int64_t i = 0; i < dim; ++i) {
        operands.a.data()[i] = from_double<S>(i == 0 ? 3 * unit : i == 1 ? 4 * unit : 0);
        operands.b.data()[i] = from_double<S>(i == 0 ? 1 : 0);
      }
      Buffer<S> grad_a(dim);
      Buffer<S> grad_b(dim);
      run_bind_backward<S>(operands.params(form, grad_a.data(), grad_b.data()), 0, 1);
      const Expected want = expected_gradients(form, row_at(operands.grad.data(), dim), row_at(operands.a.data(), dim),
                                               row_at(operands.b.data(), dim));
      constexpr double kTolerance = 3 * StorageTraits<S>::kTolerance;
      ASSERT_TRUE(is_close(grad_a.data(), want.a, kTolerance)) << "grad_a";
      ASSERT_TRUE(is_close(grad_b.data(), want.b, kTolerance)) << "grad_b";
    }
  }
}

TYPED_TEST(CircularConvolutionBackward, EitherGradientMayBeLeftOut) {
  using S = TypeParam;
  constexpr int64_t kRows = 2;
  this->for_each_form(kSomeDims, [&](const Form& form, int64_t dim) {
    const Operands<S> operands(kRows, dim);
    std::vector<Buffer<S>> both(2, Buffer<S>(kRows * dim));
    std::vector<Buffer<S>> single(2, Buffer<S>(kRows * dim));
    run_bind_backward<S>(operands.params(form, both[0].data(), both[1].data()), 0, kRows);
    run_bind_backward<S>(operands.params(form, single[0].data(), nullptr), 0, kRows);
    run_bind_backward<S>(operands.params(form, nullptr, single[1].data()), 0, kRows);
    run_bind_backward<S>(operands.params(form, nullptr, nullptr), 0, kRows);
    EXPECT_TRUE(same_bits(single[0].data(), both[0].data(), kRows * dim)) << "grad_a alone";
    EXPECT_TRUE(same_bits(single[1].data(), both[1].data(), kRows * dim)) << "grad_b alone";
  });
}

// The gradient with respect to a is computed again from scaled rows: beyond the range of float as they stand.
TEST(CircularConvolutionBackwardRange, AGradientOutOfRangeLeavesTheOtherItsBits) {
  for (const int64_t dim : {16, 100, 318, 331, 512, 1000}) {
    for (const Form& form : {kForms[0], kForms[1]}) {
      SCOPED_TRACE(::testing::Message() << form.name << ", dim " << dim);
      Operands<float> operands(1, dim);
      for (int64_t i = 0; i < dim; ++i) {
        operands.grad.data()[i] = std::ldexp(operands.grad.data()[i], 100);
        operands.a.data()[i] = std::ldexp(operands.a.data()[i], -140);
        operands.b.data()[i] = std::ldexp(operands.b.data()[i], 60);
      }
      Buffer<float> grad_a(dim);
      Buffer<float> both(dim);
      Buffer<float> single(dim);
      run_bind_backward<float>(operands.params(form, grad_a.data(), both.data()), 0, 1);
      run_bind_backward<float>(operands.params(form, nullptr, single.data()), 0, 1);
      EXPECT_TRUE(same_bits(single.data(), both.data(), dim));
    }
  }
}

TYPED_TEST(CircularConvolutionBackward, RangesOfRowsMakeTheWhole) {
  using S = TypeParam;
  constexpr int64_t kRows = 5;
  this->for_each_form(kSomeDims, [&](const Form& form, int64_t dim) {
    const Operands<S> operands(kRows, dim);
    std::vector<Buffer<S>> whole(2, Buffer<S>(kRows * dim));
    std::vector<Buffer<S>> parts(2, Buffer<S>(kRows * dim));
    const Buffer<S> untouched(kRows * dim);
    run_bind_backward<S>(operands.params(form, whole[0].data(), whole[1].data()), 0, kRows);
    const BindBackwardParams params = operands.params(form, parts[0].data(), parts[1].data());
    run_bind_backward<S>(params, 3, kRows);
    for (const Buffer<S>& part : parts) {
      EXPECT_TRUE(same_bits(part.data(), untouched.data(), 3 * dim)) << "rows before the range were written";
    }
    run_bind_backward<S>(params, 0, 3);
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_TRUE(same_bits(parts[i].data(), whole[i].data(), kRows * dim));
    }
  });
}

TYPED_TEST(CircularConvolutionBackward, BitsDoNotDependOnPlacement) {
  using S = TypeParam;
  constexpr int64_t kRows = 6;
  this->for_each_form(kSomeDims, [&](const Form& form, int64_t dim) {
    // Rows [2, 3] with one repeated upstream row, a repeated along the first dimension, b transposed; odd first
    // elements.
    Operands<S> operands(kRows + 1, dim);
    std::vector<Buffer<S>> placed(2, Buffer<S>(kRows * dim + 1));
    BindBackwardParams params = operands.params(form, placed[0].data() + 1, placed[1].data() + 1);
    params.grad = operands.grad.data() + 1;
    params.a = operands.a.data() + 1;
    params.b = operands.b.data() + 1;
    params.rows = kRows;
    params.map = RowMap{2, {2, 3}, {{0, 0}, {0, dim}, {dim, 2 * dim}}};
    run_bind_backward<S>(params, 0, kRows);
    for (int64_t r = 0; r < kRows; ++r) {
      Operands<S> alone(1, dim);
      std::copy_n(operands.grad.data() + 1, dim, alone.grad.data());
      std::copy_n(operands.a.data() + 1 + r % 3 * dim, dim, alone.a.data());
      std::copy_n(operands.b.data() + 1 + (r / 3 + 2 * (r % 3)) * dim, dim, alone.b.data());
      std::vector<Buffer<S>> want(2, Buffer<S>(dim));
      run_bind_backward<S>(alone.params(form, want[0].data(), want[1].data()), 0, 1);
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(same_bits(placed[i].data() + 1 + r * dim, want[i].data(), dim))
            << "row " << r << ", gradient " << i;
      }
    }
  });
}

// The gradient is the derivative of the forward kernel itself, by central differences in float64.
TEST(CircularConvolutionDerivative, AgreesWithDifferences) {
  constexpr double kStep = 1e-6;
  for (const int64_t dim : {5, 24, 64}) {
    for (const Form& form : kForms) {
      SCOPED_TRACE(::testing::Message() << form.name << ", dim " << dim);
      Operands<double> operands(1, dim);
      std::vector<Buffer<double>> gradients(2, Buffer<double>(dim));
      run_bind_backward<double>(operands.params(form, gradients[0].data(), gradients[1].data()), 0, 1);
      const auto loss = [&] {
        Buffer<double> out(dim);
        BindParams params;
        params.a = operands.a.data();
        params.b = operands.b.data();
        params.out = out.data();
        params.rows = 1;
        params.dim = dim;
        params.product = form.product;
        params.normalize = form.normalize;
        params.eps = form.eps;
        run_bind<double>(params, 0, 1);
        return dot_of(row_at(out.data(), dim), row_at(operands.grad.data(), dim));
      };
      const std::array<double*, 2> inputs = {operands.a.data(), operands.b.data()};
      for (size_t which = 0; which < inputs.size(); ++which) {
        for (int64_t i = 0; i < dim; ++i) {
          const double value = inputs[which][i];
          inputs[which][i] = value + kStep;
          const double above = loss();
          inputs[which][i] = value - kStep;
          const double below = loss();
          inputs[which][i] = value;
          EXPECT_NEAR(gradients[which].data()[i], (above - below) / (2 * kStep), 1e-6) << "input " << which << "[" << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
