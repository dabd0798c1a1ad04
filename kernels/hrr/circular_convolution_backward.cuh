// The kernel of the gradients of bind, unbind and bind_normalize for rows that the native transforms reach.
//
// y = a conv b:    grad_a = corr(g, b), grad_b = corr(g, a)
// y = corr(a, b):  grad_a = conv(g, b), grad_b = corr(a, g)
// Normalised, c = a conv b, n = norm2(c): g is first replaced by (g - c (c.g) / n^2) / n where n > eps, else g / eps,
// and 0 where n = 0 < eps.
#pragma once

#include "kernels/hrr/pair_products.cuh"
#include "kernels/hrr/row_io.cuh"

namespace torch_hrr::kernels {

template <typename T, int kLog2>
struct GradientRow : ThreadRow<T, kLog2> {
  using Base = ThreadRow<T, kLog2>;
  using Base::dim;
  using Base::exists;
  using Base::fft;
  using Base::r;
  using Base::row_dim;
  using typename Base::Fft;
  using Bins = Complex<T>[kPointsPerThread];

  struct State {
    bool stored_a = false;
    bool stored_b = false;
  };

  // The operands are scaled by 2^-these.
  struct Exponents {
    int grad = 0;
    int a = 0;
    int b = 0;
  };

  StoredInput<T> grad;
  StoredInput<T> a;
  StoredInput<T> b;
  StoredOutput<T> grad_a;  // null where the gradient is not wanted
  StoredOutput<T> grad_b;
  double eps;
  Product product;
  bool normalize;

  KERNEL_DEVICE GradientRow(const TwiddlePoint<T>* twiddles, int rank, const BindBackwardParams& params,
                            Storage storage)
      : Base(twiddles, params.rows, params.dim, rank),
        grad(stored_input<T>(params.grad, storage) + placed_row(params.map, 0, r)),
        a(stored_input<T>(params.a, storage) + placed_row(params.map, 1, r)),
        b(stored_input<T>(params.b, storage) + placed_row(params.map, 2, r)),
        grad_a(stored_output<T>(params.grad_a, storage)),
        grad_b(stored_output<T>(params.grad_b, storage)),
        eps(params.eps),
        product(params.product),
        normalize(params.normalize) {}

  KERNEL_DEVICE bool padded() const {
    return dim != 2 * Fft::kPoints;
  }
  // Each gradient of a plain product reads the other operand alone, so NaN in one operand leaves its own gradient.
  KERNEL_DEVICE bool reads_a() const {
    return normalize || grad_b.exists();
  }
  KERNEL_DEVICE bool reads_b() const {
    return normalize || grad_a.exists();
  }

  KERNEL_DEVICE MeasuredRow measure(StoredInput<T> row) const {
    return measure_row(fft, row, row_dim);
  }

  // Notes whether the row is not zero, where that may matter.
  KERNEL_DEVICE void load_bins(StoredInput<T> row, int exponent, Bins& bins, bool& nonzero) const {
    load_row(fft, row, row_dim, bins);
    scale_down(bins, exponent);
    nonzero = normalize && any_nonzero(bins);
    fft.forward(bins);
  }

  KERNEL_DEVICE static void swap_bins(Bins& x, Bins& y) {
    for (int i = 0; i < kPointsPerThread; ++i) {
      const Complex<T> old = x[i];
      x[i] = y[i];
      y[i] = old;
    }
  }

  // The scale of a normalised gradient for norm2(c)^2 = squared and c.g = dot: bins or elements of g become
  // (g - projection c) factor 2^exponent.
  KERNEL_DEVICE void project(T squared, T dot, const Exponents& of, T& projection, T& factor, int& exponent_a,
                             int& exponent_b) const {
    const NormalizingScale<T> scale(squared, of.a + of.b, eps);
    projection = scale.above_eps ? dot / squared : T{0};
    factor = gradient_factor(scale, squared, eps);
    // scale.exponent is that of 1 / max(n, eps) times c's own; the gradient has g's exponent in c's place.
    exponent_a = of.grad - of.a + scale.exponent;
    exponent_b = of.grad - of.b + scale.exponent;
  }

  // Stores x (*) y times factor 2^exponent. A row that is not usable, or whose result left the range of T, is left out,
  // true in the whole team if there is one.
  KERNEL_DEVICE bool store_product(Product kind, const Bins& x, const Bins& y, T factor, int exponent, bool usable,
                                   bool scaled, bool& stored, StoredOutput<T> target) const {
    Bins v;
    T c[kPointsPerThread];
    multiply_bins(fft, kind, x, y, v);
    scale_points(v, factor / Fft::kPoints);
    fft.inverse(v);
    bool good = true;
    if (padded()) {
      fold_row(fft, v, dim, kind, c);
      good = all_finite(c);
    } else {
      good = all_finite(v);
    }
    good = good && usable;
    const bool repeat = !scaled && fft.team_any(exists() && !good);
    if (repeat) {
      good = !fft.row_any(!good);
    }
    if (exists() && !stored && (good || scaled)) {
      if (padded()) {
        store_folded(fft, c, dim, T{1}, exponent, target + r * dim);
      } else {
        store_row(fft, v, exponent, target + r * dim);
      }
      stored = true;
    }
    return repeat;
  }

  // True in the whole team if a row must go through this again.
  KERNEL_DEVICE bool run(bool scaled, State& state) const {
    const Exponents of = scaled ? prepare(state) : Exponents{};
    Bins bins_a;
    Bins bins_b;
    Bins bins_grad;
    bool nonzero_a = false;
    bool nonzero_b = false;
    bool nonzero_grad = false;
    if (reads_a()) {
      load_bins(a, of.a, bins_a, nonzero_a);
    }
    if (reads_b()) {
      load_bins(b, of.b, bins_b, nonzero_b);
    }
    T factor = 1;
    int exponent_a = of.grad + of.b;
    int exponent_b = of.grad + of.a;
    bool usable = true;
    if (!normalize || !padded()) {
      load_bins(grad, of.grad, bins_grad, nonzero_grad);
    }
    if (normalize) {
      Bins c;
      multiply_bins(fft, Product::kConvolution, bins_a, bins_b, c);
      T squared;
      T projection;
      if (!padded()) {
        // Parseval: c.g = Re sum C_k conj(G_k) / M, so the gradient never leaves the frequency domain.
        constexpr T kInversePoints = T{1} / Fft::kPoints;
        squared = fft.row_sum(inner_product(c, c)) * kInversePoints;
        const T dot = fft.row_sum(inner_product(c, bins_grad)) * kInversePoints;
        project(squared, dot, of, projection, factor, exponent_a, exponent_b);
        for (int i = 0; i < kPointsPerThread; ++i) {
          bins_grad[i] = {multiply_add(-projection, c[i].re, bins_grad[i].re),
                          multiply_add(-projection, c[i].im, bins_grad[i].im)};
        }
      } else {
        // A padded spectrum is not that of the folded row: norm and projection are taken in the time domain.
        T row_c[kPointsPerThread];
        T row_grad[kPointsPerThread];
        scale_points(c, T{1} / Fft::kPoints);
        fft.inverse(c);
        fold_row(fft, c, dim, Product::kConvolution, row_c);
        load_folded(fft, grad, row_dim, row_grad);
        const T factor_of_grad = exact_power<T>(-of.grad);
        T sum_squares = 0;
        T sum_products = 0;
        for (int i = 0; i < kPointsPerThread; ++i) {
          row_grad[i] *= factor_of_grad;
          nonzero_grad = nonzero_grad || row_grad[i] != T{0};
          sum_squares = multiply_add(row_c[i], row_c[i], sum_squares);
          sum_products = multiply_add(row_c[i], row_grad[i], sum_products);
        }
        squared = fft.row_sum(sum_squares);
        const T dot = fft.row_sum(sum_products);
        project(squared, dot, of, projection, factor, exponent_a, exponent_b);
        for (int i = 0; i < kPointsPerThread; ++i) {
          row_grad[i] = multiply_add(-projection, row_c[i], row_grad[i]);
        }
        unfold_row(fft, row_grad, bins_grad);
        fft.forward(bins_grad);
      }
      usable = scaled || safe_squared_norm(squared);
      if (fft.team_any(!usable)) {
        // Rows of zeros leave the safe range, but what they give is zero as it stands.
        const bool zero_grad = !fft.row_any(nonzero_grad);
        const bool zero_a = !fft.row_any(nonzero_a);
        const bool zero_b = !fft.row_any(nonzero_b);
        usable = usable || (squared == T{0} && (zero_grad || (zero_a && zero_b)));
      }
    }
    bool repeat = false;
    if (grad_a.exists()) {
      const Product kind = product == Product::kConvolution ? Product::kCorrelation : Product::kConvolution;
      repeat = store_product(kind, bins_grad, bins_b, factor, exponent_a, usable, scaled, state.stored_a, grad_a);
    }
    if (grad_b.exists()) {
      if (product == Product::kCorrelation) {
        swap_bins(bins_grad, bins_a);
      }
      const bool again = store_product(Product::kCorrelation, bins_grad, bins_a, factor, exponent_b, usable, scaled,
                                       state.stored_b, grad_b);
      repeat = repeat || again;
    }
    return repeat;
  }

  // Measures the operands; a gradient that reads one which is not finite is NaN.
  KERNEL_DEVICE Exponents prepare(State& state) const {
    const MeasuredRow of_grad = measure(grad);
    const MeasuredRow of_a = reads_a() ? measure(a) : MeasuredRow{};
    const MeasuredRow of_b = reads_b() ? measure(b) : MeasuredRow{};
    const bool finite = of_grad.finite && (!normalize || (of_a.finite && of_b.finite));
    if (grad_a.exists()) {
      this->store_nan_unless(finite && of_b.finite, grad_a + r * dim, state.stored_a);
    }
    if (grad_b.exists()) {
      this->store_nan_unless(finite && of_a.finite, grad_b + r * dim, state.stored_b);
    }
    return {of_grad.exponent, of_a.exponent, of_b.exponent};
  }
};

template <typename T, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    product_backward_kernel(BindBackwardParams params, Storage storage, const TwiddlePoint<T>* twiddles) {
  run_row<GradientRow<T, kLog2>>(twiddles, params, storage);
}

}  // namespace torch_hrr::kernels
