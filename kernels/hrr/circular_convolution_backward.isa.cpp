// Gradients of binding on the CPU, kept in the frequency domain; compiled once per instruction set.
#include "kernels/hrr/row_groups.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// One row of y = a (*) b, or of y = c / max(n, eps) with c = a conv b and n = norm2(c):
//   dL/dc = (g - y (y . g)) / n where n > eps, else g / eps, and 0 where n = 0 < eps.
// Convolution: dL/da = dL/dc corr b, dL/db = dL/dc corr a. Correlation: dL/da = g conv b, dL/db = a corr g.
template <typename S>
struct BackwardRow {
  const S* grad;
  const S* a;
  const S* b;
  S* grad_a;
  S* grad_b;
};

// dL/dc = (grad_factor g + c_factor c) 2^exponent, for c that stands for c 2^-scale
struct NormalizeFactors {
  double grad;
  double c;
  int exponent = 0;
};
KERNEL_HOST_DEVICE NormalizeFactors normalize_factors(double norm, double c_dot_grad, double eps, int scale) {
  if (norm_divides(norm, scale_by_power(eps, scale))) {
    return {1 / norm, -c_dot_grad / norm / norm / norm};
  }
  if (norm == 0 && eps > 0) {
    return {0, 0};
  }
  // eps 2^scale may be beyond the type that its quotient still fits.
  const int exponent = unit_exponent(eps);
  return {1 / scale_by_power(eps, exponent), 0, exponent - scale};
}

// The same for c as it stands, with 2^exponent in grad.
KERNEL_HOST_DEVICE NormalizeFactors plain_factors(double norm, double c_dot_grad, double eps) {
  const NormalizeFactors factors = normalize_factors(norm, c_dot_grad, eps, 0);
  return {scale_by_power(factors.grad, factors.exponent), factors.c};
}

// A gradient of this norm, or below, may lose bits to underflow on its way through 1 / norm; so may one whose square
// underflows, unless it is 0.
constexpr double kSmallestPlainNorm = 0x1p-70;
template <typename S, typename Engine>
bool is_plain(const Engine& engine, const S* grad, double norm, NormalizeFactors factors) {
  return (norm > kSmallestPlainNorm && norm * factors.grad > kSmallestPlainNorm) ||
         (norm == 0 && largest_in(engine, grad) == 0);
}

// What makes the gradients of a product from a point of each spectrum. Sum holds a factor for each row.
template <typename Sum>
struct GradientFormula {
  Product product;
  bool normalize;
  Sum grad_factor;
  Sum c_factor;

  // g and x become the gradients with respect to x and y.
  template <typename Point, typename Numbers>
  void apply(const Point& point, Numbers& g, Numbers& x, const Numbers& y) const {
    constexpr Product kConvolution = Product::kConvolution;
    constexpr Product kCorrelation = Product::kCorrelation;
    if (product == kCorrelation) {
      const Numbers of_y = point.template of<kCorrelation>(x, g);
      g = point.template of<kConvolution>(g, y);
      x = of_y;
      return;
    }
    if (normalize) {
      using Number = typename Point::Number;
      const Numbers c = point.template of<kConvolution>(x, y);
      g = add_scaled(scaled(in_lanes<Number>(grad_factor), g), in_lanes<Number>(c_factor), c);
    }
    const Numbers of_x = point.template of<kCorrelation>(g, y);
    x = point.template of<kCorrelation>(g, x);
    g = of_x;
  }
};

// sum |c|^2, Re sum c conj(g) and sum |g|^2 over spectra, c = a conv b.
template <typename Sum>
struct Moments {
  Sum c;
  Sum c_dot_grad;
  Sum grad;
};
template <typename Spectra, typename Operand>
Moments<typename Spectra::Sum> moments_of(const Spectra& spectra, Operand grad, Operand a, Operand b) {
  typename Spectra::InnerSum of_c, of_both, of_grad;
  spectra.for_points([&](const auto& point) __attribute__((always_inline)) {
    const auto c = point.template of<Product::kConvolution>(point.in(a), point.in(b));
    const auto g = point.in(grad);
    point.add_inner(of_c, c, c);
    point.add_inner(of_both, c, g);
    point.add_inner(of_grad, g, g);
  });
  return {of_c.total(), of_both.total(), of_grad.total()};
}

// Replaces the spectra of g and a by those of both gradients.
template <typename Spectra, typename Formula, typename Operand>
void gradient_spectra(const Spectra& spectra, const Formula& formula, Operand grad, Operand a, Operand b) {
  spectra.for_points([&](const auto& point) __attribute__((always_inline)) {
    auto g = point.in(grad);
    auto x = point.in(a);
    formula.apply(point, g, x, point.in(b));
    point.put_in(grad, g);
    point.put_in(a, x);
  });
}

// Each gradient is decided by itself: what it does not read must not change its bits. A mask of rows that left the
// range for each of them.
struct Beyond {
  uint32_t a = 0;
  uint32_t b = 0;
};

// Gradients in the time domain, from a row times powers of two.
struct BackwardExponents {
  int grad = 0;
  int a = 0;
  int b = 0;
};
template <typename S, typename Engine>
struct TimeDomain {
  using T = compute_t<S>;
  using Operand = typename Engine::Operand;
  static constexpr int W = Engine::kWidth;

  const Engine& engine;
  const BindBackwardParams& params;
  Operand grad, a, b, sum;
  T* c;
  T* upstream;

  T* product(Product kind, Operand x, Operand y) const {
    clear_spectra(engine.spectra(), sum);
    accumulate_spectra(engine.spectra(), kind, x, y, T{1}, sum);
    return engine.row_of(kind, sum);
  }

  // With last_resort whatever comes out is stored.
  Beyond run(const BackwardRow<S>& row, BackwardExponents exponents, bool last_resort) const {
    engine.load(row.a, exponents.a, a);
    engine.load(row.b, exponents.b, b);
    int restored = 0;
    if (params.normalize) {
      __builtin_memcpy(c, product(Product::kConvolution, a, b), static_cast<size_t>(engine.dim) * sizeof(T));
      widen_row<S>(row.grad, engine.dim, upstream);
      scale_row(upstream, engine.dim, exponents.grad);
      const T squared = dot<W>(c, c, engine.dim);
      if (!last_resort && !safe_squared_norm(squared)) {
        return {1, 1};
      }
      const double c_dot_grad = static_cast<double>(dot<W>(c, upstream, engine.dim));
      const double c_norm = square_root(static_cast<double>(squared));
      const NormalizeFactors factors =
          last_resort ? normalize_factors(c_norm, c_dot_grad, params.eps, exponents.a + exponents.b)
                      : plain_factors(c_norm, c_dot_grad, params.eps);
      if (!last_resort) {
        const double norm = square_root(static_cast<double>(dot<W>(upstream, upstream, engine.dim)));
        if (!is_plain(engine, row.grad, norm, factors)) {
          return {1, 1};
        }
      }
      restored = factors.exponent;
      for (int64_t i = 0; i < engine.dim; ++i) {
        upstream[i] =
            static_cast<T>(factors.grad * static_cast<double>(upstream[i]) + factors.c * static_cast<double>(c[i]));
      }
      engine.load_reals(upstream, grad);
    } else {
      engine.load(row.grad, exponents.grad, grad);
    }
    const auto store = [&](T* result, int exponent, S* target) -> uint32_t {
      rescale_row(result, engine.dim, exponent);
      if (!last_resort && !all_finite(result, engine.dim)) {
        return 1;
      }
      narrow_row<S>(result, engine.dim, T{1}, target);
      return 0;
    };
    // y does not change when a is scaled, so the gradient with respect to a scales back with a.
    const bool correlation = params.product == Product::kCorrelation;
    Beyond beyond;
    if (row.grad_a != nullptr) {
      const int restore = params.normalize ? exponents.a - exponents.grad + restored : -exponents.grad - exponents.b;
      beyond.a =
          store(product(correlation ? Product::kConvolution : Product::kCorrelation, grad, b), restore, row.grad_a);
    }
    if (row.grad_b != nullptr) {
      const int restore = params.normalize ? exponents.b - exponents.grad + restored : -exponents.grad - exponents.a;
      beyond.b =
          store(product(Product::kCorrelation, correlation ? a : grad, correlation ? grad : a), restore, row.grad_b);
    }
    return beyond;
  }

  // Rows that are not finite reach the gradients that read them: of a product, dL/da reads g and b, dL/db reads g and
  // a.
  void run_scaled(BackwardRow<S> row) const {
    const double of_grad = largest_in(engine, row.grad);
    const double of_a = largest_in(engine, row.a);
    const double of_b = largest_in(engine, row.b);
    const auto poison = [&](S*& target) {
      if (target != nullptr) {
        fill_nan(target, engine.dim);
        target = nullptr;
      }
    };
    const bool together = params.normalize || !is_finite(of_grad);
    const bool poisoned = !(is_finite(of_grad) && is_finite(of_a) && is_finite(of_b));
    if (!is_finite(of_b) || (together && poisoned)) {
      poison(row.grad_a);
    }
    if (!is_finite(of_a) || (together && poisoned)) {
      poison(row.grad_b);
    }
    if (row.grad_a != nullptr || row.grad_b != nullptr) {
      run(row, {unit_exponent(of_grad), unit_exponent(of_a), unit_exponent(of_b)}, true);
    }
  }
};

template <typename S, typename Engine>
struct BackwardRows {
  using T = compute_t<S>;
  using Operand = typename Engine::Operand;
  using Sum = typename Engine::Sum;
  static constexpr int kRows = Engine::kRows;

  const Engine& engine;
  const BindBackwardParams& params;
  Operand grad, a, b;
  // Of single rows, for the time domain.
  Operand sum{};
  T* c = nullptr;
  T* upstream = nullptr;
  Beyond beyond;

  BackwardRows(const Engine& the_engine, const BindBackwardParams& the_params, void* scratch, int64_t& used)
      : engine(the_engine), params(the_params) {
    grad = engine.operand(scratch, used);
    a = engine.operand(scratch, used);
    b = engine.operand(scratch, used);
    if constexpr (kRows == 1) {
      sum = engine.operand(scratch, used);
      c = aligned<T>(scratch, used, engine.dim);
      upstream = aligned<T>(scratch, used, engine.dim);
    }
  }
  TimeDomain<S, Engine> time_domain() const {
    return {engine, params, grad, a, b, sum, c, upstream};
  }
  S* output(void* base, int64_t r) const {
    return base == nullptr ? nullptr : result_row<S>(base, r, params.dim);
  }
  // The row, of which only gradients that left the range are wanted.
  BackwardRow<S> row_of(int64_t r, Beyond wanted) const {
    const auto input = [&](int operand, const void* base) { return operand_row<S>(base, params.map, operand, r); };
    return {input(0, params.grad), input(1, params.a), input(2, params.b),
            output(wanted.a != 0 ? params.grad_a : nullptr, r), output(wanted.b != 0 ? params.grad_b : nullptr, r)};
  }

  // The factors of normalised rows; those of rows that need scaling first, whose mask it returns, are unspecified.
  uint32_t set_factors(const S* const (&upstreams)[kRows], GradientFormula<Sum>& formula) const {
    const Moments<Sum> moments = moments_of(engine.spectra(), grad, a, b);
    uint32_t unsafe = unsafe_rows(moments.c);
    T grad_factor[kRows];
    T c_factor[kRows];
    for (int row = 0; row < kRows; ++row) {
      const auto mean = [&](const Sum& total) {
        return static_cast<double>(of_row(total, row)) / static_cast<double>(engine.points());
      };
      const NormalizeFactors factors =
          plain_factors(square_root(mean(moments.c)), mean(moments.c_dot_grad), params.eps);
      grad_factor[row] = static_cast<T>(factors.grad);
      c_factor[row] = static_cast<T>(factors.c);
      unsafe |= is_plain(engine, upstreams[row], square_root(mean(moments.grad)), factors) ? 0u : 1u << row;
    }
    formula.grad_factor = sum_of_rows<Sum>(grad_factor);
    formula.c_factor = sum_of_rows<Sum>(c_factor);
    return unsafe;
  }

  // Three forward and two inverse transforms.
  Beyond spectral(int64_t r, int64_t count) const {
    const S* rows[kRows];
    rows_of(params.map, 1, params.a, r, count, rows);
    engine.load(rows, a);
    rows_of(params.map, 2, params.b, r, count, rows);
    engine.load(rows, b);
    rows_of(params.map, 0, params.grad, r, count, rows);
    engine.load(rows, grad);
    GradientFormula<Sum> formula{params.product, params.normalize, {}, {}};
    const uint32_t unsafe = params.normalize ? set_factors(rows, formula) : 0;
    if (kRows == 1 && unsafe != 0) {
      return {unsafe, unsafe};
    }
    gradient_spectra(engine.spectra(), formula, grad, a, b);
    const auto store = [&](Operand gradient, void* base) {
      return base == nullptr ? 0u : unsafe | finish_exactly(engine, gradient, output(base, r), count, engine.dim);
    };
    const uint32_t beyond_a = store(grad, params.grad_a);
    return {beyond_a, store(a, params.grad_b)};
  }

  uint32_t group(int64_t r, int64_t count) {
    if constexpr (kFolds<Engine>) {
      beyond = time_domain().run(row_of(r, {1, 1}), {}, false);
    } else {
      beyond = spectral(r, count);
    }
    return beyond.a | beyond.b;
  }
  void scaled(int64_t r) const {
    time_domain().run_scaled(row_of(r, beyond));
  }
  BindBackwardParams left(int64_t lane) const {
    BindBackwardParams result = params;
    result.grad_a = (beyond.a >> lane & 1) != 0 ? params.grad_a : nullptr;
    result.grad_b = (beyond.b >> lane & 1) != 0 ? params.grad_b : nullptr;
    return result;
  }
};

template <typename S>
int64_t backward_scratch(const BindBackwardParams& params) {
  return lane_bytes<S>(params.plan.group, params.dim, 3) + product_scratch_bytes<S>(params.plan, params.dim, 4, 2);
}

template <typename S>
constexpr RowKernel<BindBackwardParams> kBindBackward = {
    [](const BindBackwardParams& params) { return 2 * params.dim; }, backward_scratch<S>,
    rows_by_plan<BackwardRows, Engines::kProducts, false, S, BindBackwardParams>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<BindBackwardParams>, kBindBackward)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
