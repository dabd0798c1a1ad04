// Gradients of binding on the CPU, kept in the frequency domain; compiled once per instruction set.
#include "kernels/hrr/bind_superpose_row.h"
#include "kernels/hrr/lane_rows.h"
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
  Product product;
  bool normalize;
  double eps;
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
KERNEL_HOST_DEVICE bool keeps_bits(double norm, NormalizeFactors factors) {
  return norm > kSmallestPlainNorm && norm * factors.grad > kSmallestPlainNorm;
}

template <typename S, typename Engine>
struct BackwardBuffers {
  typename Engine::Operand grad, a, b, sum;
  compute_t<S>* c;
  compute_t<S>* upstream;

  BackwardBuffers(const Engine& engine, void* scratch, int64_t used) {
    grad = engine.operand(scratch, used);
    a = engine.operand(scratch, used);
    b = engine.operand(scratch, used);
    sum = engine.operand(scratch, used);
    c = aligned<compute_t<S>>(scratch, used, engine.dim);
    upstream = aligned<compute_t<S>>(scratch, used, engine.dim);
  }
};

// What makes the gradients of a product from a number or a pair of each spectrum, the numbers of type V.
template <typename V>
struct GradientFormula {
  Product product;
  bool normalize;
  V grad_factor;
  V c_factor;

  // g and x become the gradients with respect to x and y.
  template <typename At, typename Numbers>
  void apply(const At& at, Numbers& g, Numbers& x, const Numbers& y) const {
    constexpr Product kConvolution = Product::kConvolution;
    constexpr Product kCorrelation = Product::kCorrelation;
    if (product == kCorrelation) {
      const Numbers of_y = at.template of<kCorrelation>(x, g);
      g = at.template of<kConvolution>(g, y);
      x = of_y;
      return;
    }
    if (normalize) {
      g = add_scaled(scaled(grad_factor, g), c_factor, at.template of<kConvolution>(x, y));
    }
    const Numbers of_x = at.template of<kCorrelation>(g, y);
    x = at.template of<kCorrelation>(g, x);
    g = of_x;
  }
};
template <typename V>
GradientFormula<V> gradient_formula(Product product, NormalizeFactors factors, bool normalize) {
  using T = number_t<V>;
  return {product, normalize, lanes_of<V>(static_cast<T>(factors.grad)), lanes_of<V>(static_cast<T>(factors.c))};
}

// Replaces the spectra of g and a by those of both gradients.
template <typename T, int W>
void gradient_spectra(const FftPlan<T>& plan, Product product, NormalizeFactors factors, bool normalize, Split<T> grad,
                      Split<T> a, Split<T> b) {
  using V = Simd<T, W>;
  const int64_t points = plan.size;
  const auto single = gradient_formula<T>(product, factors, normalize);
  const auto lanes = gradient_formula<V>(product, factors, normalize);
  for (int64_t k = whole_blocks<W>(points); k < points / 2; ++k) {
    Pair<T> g = load_pair(grad, points, k);
    Pair<T> x = load_pair(a, points, k);
    single.apply(PairProduct<T>{coupling(plan, k)}, g, x, load_pair(b, points, k));
    store_pair(grad, points, k, g);
    store_pair(a, points, k, x);
  }
  for (int64_t k = whole_blocks<W>(points) - W; k >= 0; k -= W) {
    const PairProduct<V> at{{V::load(plan.coupling_re + k), V::load(plan.coupling_im + k)}};
    PairLanes<T, W> g = load_pairs<T, W>(grad, points, k);
    PairLanes<T, W> x = load_pairs<T, W>(a, points, k);
    lanes.apply(at, g, x, load_pairs<T, W>(b, points, k));
    store_pairs<T, W>(grad, points, k, g);
    store_pairs<T, W>(a, points, k, x);
  }
  Pair<T> g = load_middle(grad, points);
  Pair<T> x = load_middle(a, points);
  single.apply(PairProduct<T>{{T{0}, T{0}}}, g, x, load_middle(b, points));
  store_middle(grad, points, g);
  store_middle(a, points, x);
}

template <typename T, int W>
void gradient_spectra(const MatrixPlan<T>& plan, Product product, NormalizeFactors factors, bool normalize,
                      Split<T> grad, Split<T> a, Split<T> b) {
  using V = Simd<T, W>;
  const auto formula = gradient_formula<V>(product, factors, normalize);
  for_numbers<T, W>(plan, [&](int64_t q, V) {
    Complex<V> g = load_numbers<T, W>(grad, q);
    Complex<V> x = load_numbers<T, W>(a, q);
    formula.apply(BinProduct{}, g, x, load_numbers<T, W>(b, q));
    store_numbers<T, W>(grad, q, g);
    store_numbers<T, W>(a, q, x);
  });
}

// sum |c|^2, Re sum c conj(g) and sum |g|^2 over a spectrum, c = a conv b.
template <typename T>
struct Moments {
  T squared;
  T c_dot_grad;
  T grad_squared;
};
template <typename T, int W>
Moments<T> spectral_moments(const FftPlan<T>& plan, Split<T> grad, Split<T> a, Split<T> b) {
  using V = Simd<T, W>;
  const int64_t points = plan.size;
  V squared = V::broadcast(0);
  V dotted = V::broadcast(0);
  V grad_squared = V::broadcast(0);
  Moments<T> singles{0, 0, 0};
  for (int64_t k = whole_blocks<W>(points); k < points / 2; ++k) {
    const Pair<T> c = convolve_pair(load_pair(a, points, k), load_pair(b, points, k), coupling(plan, k));
    const Pair<T> g = load_pair(grad, points, k);
    singles = {inner(c, c, singles.squared), inner(c, g, singles.c_dot_grad), inner(g, g, singles.grad_squared)};
  }
  for (int64_t k = whole_blocks<W>(points) - W; k >= 0; k -= W) {
    const Complex<V> u{V::load(plan.coupling_re + k), V::load(plan.coupling_im + k)};
    PairLanes<T, W> c = convolve_pair(load_pairs<T, W>(a, points, k), load_pairs<T, W>(b, points, k), u);
    if (k == 0) {
      const V once = without_first<T, W>();
      c.mirror = {c.mirror.re * once, c.mirror.im * once};
    }
    const PairLanes<T, W> g = load_pairs<T, W>(grad, points, k);
    squared = inner(c, c, squared);
    dotted = inner(c, g, dotted);
    grad_squared = inner(g, g, grad_squared);
  }
  const Pair<T> middle = convolve_pair(load_middle(a, points), load_middle(b, points), Complex<T>{T{0}, T{0}});
  return {inner_of_half(middle.k, middle.k, horizontal_sum(squared) + singles.squared),
          inner_of_half(middle.k, load_middle(grad, points).k, horizontal_sum(dotted) + singles.c_dot_grad),
          horizontal_sum(grad_squared) + singles.grad_squared};
}

template <typename T, int W>
Moments<T> spectral_moments(const MatrixPlan<T>& plan, Split<T> grad, Split<T> a, Split<T> b) {
  using V = Simd<T, W>;
  Moments<V> sums{V::broadcast(0), V::broadcast(0), V::broadcast(0)};
  for_numbers<T, W>(plan, [&](int64_t q, V weights) {
    const Complex<V> c = multiply(load_numbers<T, W>(a, q), load_numbers<T, W>(b, q));
    const Complex<V> g = load_numbers<T, W>(grad, q);
    sums = {inner_of_bins(c, c, weights, sums.squared), inner_of_bins(c, g, weights, sums.c_dot_grad),
            inner_of_bins(g, g, weights, sums.grad_squared)};
  });
  return {horizontal_sum(sums.squared), horizontal_sum(sums.c_dot_grad), horizontal_sum(sums.grad_squared)};
}

// Whether g / max(norm2(c), eps) is representable without loss.
template <typename S, typename Engine>
bool is_plain_gradient(const Engine& engine, const BackwardRow<S>& row, double norm, NormalizeFactors factors) {
  return keeps_bits(norm, factors) || largest_in(engine, row.grad, 0) == 0;
}

// Three forward and two inverse transforms; false if a gradient leaves the range.
template <typename S, typename Engine>
bool try_spectral_backward(const Engine& engine, const BackwardRow<S>& row, const BackwardBuffers<S, Engine>& buffers) {
  using T = compute_t<S>;
  constexpr int W = Engine::kWidth;
  engine.load(row.grad, 0, buffers.grad);
  engine.load(row.a, 0, buffers.a);
  engine.load(row.b, 0, buffers.b);
  NormalizeFactors factors{1, 0};
  if (row.normalize) {
    const Moments<T> moments = spectral_moments<T, W>(engine.plan, buffers.grad, buffers.a, buffers.b);
    if (!safe_squared_norm(moments.squared)) {
      return false;
    }
    const double points = static_cast<double>(engine.points);
    factors = plain_factors(square_root(static_cast<double>(moments.squared) / points),
                            static_cast<double>(moments.c_dot_grad) / points, row.eps);
    if (!is_plain_gradient(engine, row, square_root(static_cast<double>(moments.grad_squared) / points), factors)) {
      return false;
    }
  }
  gradient_spectra<T, W>(engine.plan, row.product, factors, row.normalize, buffers.grad, buffers.a, buffers.b);
  const T zero{0};
  return (row.grad_a == nullptr || try_finish_spectrum(engine, buffers.grad, zero, false, 0, row.grad_a)) &&
         (row.grad_b == nullptr || try_finish_spectrum(engine, buffers.a, zero, false, 0, row.grad_b));
}

struct BackwardExponents {
  int grad = 0;
  int a = 0;
  int b = 0;
};

// The same in the time domain, on inputs scaled by powers of two.
template <typename S, typename Engine>
bool try_backward(const Engine& engine, const BackwardRow<S>& row, const BackwardBuffers<S, Engine>& buffers,
                  BackwardExponents exponents, bool last_resort) {
  using T = compute_t<S>;
  constexpr int W = Engine::kWidth;
  const auto product = [&](Product kind, typename Engine::Operand x, typename Engine::Operand y) {
    engine.clear(buffers.sum);
    engine.accumulate(kind, x, y, T{1}, buffers.sum);
    return engine.finish(kind, buffers.sum);
  };
  engine.load(row.a, exponents.a, buffers.a);
  engine.load(row.b, exponents.b, buffers.b);
  int restored = 0;
  if (row.normalize) {
    const T* c = product(Product::kConvolution, buffers.a, buffers.b);
    __builtin_memcpy(buffers.c, c, static_cast<size_t>(engine.dim) * sizeof(T));
    widen_row<S>(row.grad, engine.dim, buffers.upstream);
    scale_row(buffers.upstream, engine.dim, exponents.grad);
    const T squared = dot<W>(buffers.c, buffers.c, engine.dim);
    if (!last_resort && !safe_squared_norm(squared)) {
      return false;
    }
    const double c_dot_grad = static_cast<double>(dot<W>(buffers.c, buffers.upstream, engine.dim));
    const double c_norm = square_root(static_cast<double>(squared));
    const NormalizeFactors factors = last_resort
                                         ? normalize_factors(c_norm, c_dot_grad, row.eps, exponents.a + exponents.b)
                                         : plain_factors(c_norm, c_dot_grad, row.eps);
    if (!last_resort) {
      const double norm = square_root(static_cast<double>(dot<W>(buffers.upstream, buffers.upstream, engine.dim)));
      if (!is_plain_gradient(engine, row, norm, factors)) {
        return false;
      }
    }
    restored = factors.exponent;
    for (int64_t i = 0; i < engine.dim; ++i) {
      buffers.upstream[i] = static_cast<T>(factors.grad * static_cast<double>(buffers.upstream[i]) +
                                           factors.c * static_cast<double>(buffers.c[i]));
    }
    engine.load_reals(buffers.upstream, buffers.grad);
  } else {
    engine.load(row.grad, exponents.grad, buffers.grad);
  }
  const bool correlation = row.product == Product::kCorrelation;
  const auto store = [&](T* result, int exponent, S* target) {
    rescale_row(result, engine.dim, exponent);
    if (!last_resort && !all_finite(result, engine.dim)) {
      return false;
    }
    narrow_row<S>(result, engine.dim, T{1}, target);
    return true;
  };
  // y does not change when a is scaled, so the gradient with respect to a scales back with a.
  const int restore_a = row.normalize ? exponents.a - exponents.grad + restored : -exponents.grad - exponents.b;
  const int restore_b = row.normalize ? exponents.b - exponents.grad + restored : -exponents.grad - exponents.a;
  const Product kind_a = correlation ? Product::kConvolution : Product::kCorrelation;
  if (row.grad_a != nullptr && !store(product(kind_a, buffers.grad, buffers.b), restore_a, row.grad_a)) {
    return false;
  }
  if (row.grad_b == nullptr) {
    return true;
  }
  T* grad_b = correlation ? product(Product::kCorrelation, buffers.a, buffers.grad)
                          : product(Product::kCorrelation, buffers.grad, buffers.a);
  return store(grad_b, restore_b, row.grad_b);
}

template <typename S, typename Engine>
bool try_row(const Engine& engine, const BackwardRow<S>& row, const BackwardBuffers<S, Engine>& buffers) {
  if constexpr (kNativeSpectrum<Engine>) {
    return try_spectral_backward(engine, row, buffers);
  } else {
    return try_backward(engine, row, buffers, {}, false);
  }
}

// Rows that are not finite reach the gradients that read them: of a product, dL/da reads g and b, dL/db reads g and a.
template <typename S, typename Engine>
void scaled_backward(const Engine& engine, BackwardRow<S> row, const BackwardBuffers<S, Engine>& buffers) {
  const double grad = largest_in(engine, row.grad, 0);
  const double a = largest_in(engine, row.a, 0);
  const double b = largest_in(engine, row.b, 0);
  const auto poison = [&](S*& target) {
    if (target != nullptr) {
      fill_nan(target, engine.dim);
      target = nullptr;
    }
  };
  const bool together = row.normalize || !is_finite(grad);
  const bool poisoned = !(is_finite(grad) && is_finite(a) && is_finite(b));
  if (!is_finite(b) || (together && poisoned)) {
    poison(row.grad_a);
  }
  if (!is_finite(a) || (together && poisoned)) {
    poison(row.grad_b);
  }
  if (row.grad_a == nullptr && row.grad_b == nullptr) {
    return;
  }
  // What is left may be in range by itself, as if it alone were asked for.
  if (!poisoned || !try_row(engine, row, buffers)) {
    try_backward(engine, row, buffers, {unit_exponent(grad), unit_exponent(a), unit_exponent(b)}, true);
  }
}

template <typename S>
void single_backward_rows(const BindBackwardParams& params, int64_t begin, int64_t end, void* scratch) {
  with_engine<S>(params.plan, params.dim, scratch, [&](const auto& engine, int64_t used) {
    using Engine = std::remove_cvref_t<decltype(engine)>;
    const BackwardBuffers<S, Engine> buffers(engine, scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const auto output = [&](void* base) {
        return base == nullptr ? nullptr : static_cast<S*>(base) + r * params.dim;
      };
      const BackwardRow<S> row{static_cast<const S*>(params.grad) + row_offset(params.map, 0, r),
                               static_cast<const S*>(params.a) + row_offset(params.map, 1, r),
                               static_cast<const S*>(params.b) + row_offset(params.map, 2, r),
                               output(params.grad_a),
                               output(params.grad_b),
                               params.product,
                               params.normalize,
                               params.eps};
      if (!try_row(engine, row, buffers)) {
        scaled_backward(engine, row, buffers);
      }
    }
  });
}

// The factors of rows side by side; those of a lane that must be scaled mean nothing.
template <typename S>
struct LaneFactors {
  using Lanes = LaneRows<S>;
  using T = compute_t<S>;
  using V = typename Lanes::V;

  T grad[Lanes::W];
  T c[Lanes::W];

  // From sums over all points; returns the lanes that need scaling first.
  uint32_t set(const Lanes& lanes, double eps, V squared, V c_dot_grad, V grad_squared,
               const S* const (&upstream)[Lanes::W]) {
    const double share = 1 / static_cast<double>(lanes.plan.points);
    uint32_t beyond = unsafe_lanes(squared);
    for (int lane = 0; lane < Lanes::W; ++lane) {
      const auto mean = [&](V sum) { return static_cast<double>(sum.lanes[lane]) * share; };
      const NormalizeFactors factors = plain_factors(square_root(mean(squared)), mean(c_dot_grad), eps);
      grad[lane] = static_cast<T>(factors.grad);
      c[lane] = static_cast<T>(factors.c);
      const double norm = square_root(mean(grad_squared));
      const bool plain = keeps_bits(norm, factors) || (norm == 0 && lanes.is_zero(upstream[lane]));
      beyond |= plain ? 0u : 1u << lane;
    }
    return beyond;
  }
};

template <typename S>
void backward_lanes(const BindBackwardParams& params, int64_t begin, int64_t end, void* scratch) {
  using Lanes = LaneRows<S>;
  using V = typename Lanes::V;
  constexpr int W = Lanes::W;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  const auto grad = lanes.vectors(scratch, used);
  const auto a = lanes.vectors(scratch, used);
  const auto b = lanes.vectors(scratch, used);
  // Each gradient is decided by itself: what it does not read must not change its bits.
  uint32_t beyond_a = 0;
  uint32_t beyond_b = 0;
  const auto group = [&](int64_t r, int64_t count) {
    const S* upstream[W];
    const S* rows[W];
    lanes.load(params.map, 0, params.grad, r, count, upstream, grad);
    lanes.load(params.map, 1, params.a, r, count, rows, a);
    lanes.load(params.map, 2, params.b, r, count, rows, b);
    uint32_t unsafe = 0;
    GradientFormula<V> formula{params.product, params.normalize, V::broadcast(1), V::broadcast(0)};
    if (params.normalize) {
      typename Lanes::InnerSum squared, dotted, grad_squared;
      lanes.for_points([&](const auto& point) {
        const auto c = point.template of<Product::kConvolution>(point.in(a), point.in(b));
        const auto g = point.in(grad);
        point.add_inner(squared, c, c);
        point.add_inner(dotted, c, g);
        point.add_inner(grad_squared, g, g);
      });
      LaneFactors<S> factors;
      unsafe = factors.set(lanes, params.eps, squared.total(), dotted.total(), grad_squared.total(), upstream);
      formula.grad_factor = V::load(factors.grad);
      formula.c_factor = V::load(factors.c);
    }
    lanes.for_points([&](const auto& point) {
      auto g = point.in(grad);
      auto x = point.in(a);
      formula.apply(point, g, x, point.in(b));
      point.put_in(grad, g);
      point.put_in(a, x);
    });
    const auto store = [&](typename Lanes::Vectors gradient, void* base) {
      return base == nullptr ? 0u : unsafe | lanes.finish(gradient, static_cast<S*>(base) + r * params.dim, count);
    };
    beyond_a = store(grad, params.grad_a);
    beyond_b = store(a, params.grad_b);
    return beyond_a | beyond_b;
  };
  for_groups<W>(begin, end, group, [&](int64_t r, int64_t lane) {
    const auto alone = [&](void* grad_a, void* grad_b) {
      BindBackwardParams left = params;
      left.grad_a = grad_a;
      left.grad_b = grad_b;
      single_backward_rows<S>(left, r, r + 1, scratch_behind<Lanes>(params.dim, 3, scratch));
    };
    if ((beyond_a >> lane & 1) != 0) {
      alone(params.grad_a, nullptr);
    }
    if ((beyond_b >> lane & 1) != 0) {
      alone(nullptr, params.grad_b);
    }
  });
}

template <typename S>
void backward_rows(const BindBackwardParams& params, int64_t begin, int64_t end, void* scratch) {
  const auto rows = params.plan.group == RowGroup::kLanes ? backward_lanes<S> : single_backward_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S>
int64_t backward_scratch(const BindBackwardParams& params) {
  return lane_bytes<S>(params.plan.group, params.dim, 3) + scratch_bytes<S>(params.plan, params.dim, 4, 2);
}

template <typename S>
constexpr RowKernel<BindBackwardParams> kBindBackward = {
    [](const BindBackwardParams& params) { return 2 * params.dim; }, backward_scratch<S>, backward_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<BindBackwardParams>, kBindBackward)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
