// The kernel of the gradients of bind, unbind and bind_normalize for rows that the native transforms reach.
//
// y = a conv b:    grad_a = corr(g, b), grad_b = corr(g, a)
// y = corr(a, b):  grad_a = conv(g, b), grad_b = corr(a, g)
// Normalised, c = a conv b, n = norm2(c): g is first replaced by (g - c (c.g) / n^2) / n where n >= eps, else g / eps.
#pragma once

#include "kernels/hrr/row_io.cuh"

namespace torch_hrr::kernels {

template <typename S, int kLog2>
struct GradientRow {
  using T = compute_t<S>;
  using Fft = RowFft<T, kLog2>;
  using Bins = Complex<T>[kPointsPerThread];

  // An operand, the power of two it is divided by, and whether its elements are finite.
  struct Operand {
    const S* row;
    int exponent;
    bool finite;
  };

  Fft fft;
  Operand grad;
  Operand a;
  Operand b;
  S* grad_a;  // null where the gradient is not wanted
  S* grad_b;
  double eps;
  int dim;
  int row_dim;  // dim, or 0 for a row beyond the last: its threads meet every barrier, read and store nothing
  Product product;
  bool normalize;
  bool pending_a;  // still to be stored
  bool pending_b;

  HRR_DEVICE bool padded() const {
    return dim != 2 * Fft::kPoints;
  }
  // Each gradient of a plain product reads the other operand alone, so NaN in one operand leaves its own gradient.
  HRR_DEVICE bool reads_a() const {
    return normalize || grad_b != nullptr;
  }
  HRR_DEVICE bool reads_b() const {
    return normalize || grad_a != nullptr;
  }

  HRR_DEVICE void measure(Operand& operand) const {
    const T largest = row_magnitude(fft, operand.row, row_dim);
    operand.finite = is_finite(largest);
    operand.exponent = scale_exponent(largest);
  }

  template <bool kScaled>
  HRR_DEVICE T factor_of(const Operand& operand) const {
    if constexpr (kScaled) {
      return power_of_two<T>(-operand.exponent);
    } else {
      return T{1};
    }
  }

  template <bool kScaled>
  HRR_DEVICE void load_bins(const Operand& operand, Bins& bins) const {
    load_row(fft, operand.row, row_dim, factor_of<kScaled>(operand), bins);
    fft.forward(bins);
  }

  HRR_DEVICE static void swap_bins(Bins& x, Bins& y) {
    for (int i = 0; i < kPointsPerThread; ++i) {
      const Complex<T> old = x[i];
      x[i] = y[i];
      y[i] = old;
    }
  }

  // The scale of a normalised gradient for norm2(c)^2 = squared and c.g = dot: bins or elements of g become
  // (g - projection c) factor 2^exponent.
  HRR_DEVICE void project(T squared, T dot, T& projection, T& factor, int& exponent_a, int& exponent_b) const {
    const NormalizingScale<T> scale(squared, a.exponent + b.exponent, eps);
    projection = scale.above_eps ? dot / squared : T{0};
    factor = scale.factor;
    // scale.exponent is that of 1 / max(n, eps) times c's own; the gradient has g's exponent in c's place.
    exponent_a = grad.exponent - a.exponent + scale.exponent;
    exponent_b = grad.exponent - b.exponent + scale.exponent;
  }

  // Stores x (*) y times factor 2^exponent. Without kScaled, a row that is not usable, or whose result left the range
  // of T, stays pending; true in the whole team if there is one. With kScaled, a row that is not usable becomes NaN.
  template <bool kScaled>
  HRR_DEVICE bool store_product(Product kind, const Bins& x, const Bins& y, T factor, int exponent, bool usable,
                                bool& pending, S* target) const {
    Bins v;
    T c[kPointsPerThread];
    multiply_bins(fft, kind, x, y, v);
    scale_bins(v, factor / Fft::kPoints);
    fft.inverse(v);
    bool good = true;
    if (padded()) {
      fold_row(fft, v, dim, kind, c);
      good = all_finite(c);
    } else {
      good = all_finite(v);
    }
    bool repeat = false;
    if constexpr (!kScaled) {
      good = good && usable;
      repeat = fft.team_any(pending && !good);
      if (repeat) {
        good = !fft.row_any(!good);
      }
    }
    if (pending && (good || kScaled)) {
      const PowerOfTwo<T> power = exponent == 0 ? PowerOfTwo<T>() : PowerOfTwo<T>(exponent);
      if (!usable) {
        store_nan(fft, dim, target);
      } else if (padded()) {
        store_folded(fft, c, dim, T{1}, power, target);
      } else {
        store_row(fft, v, power, target);
      }
      pending = false;
    }
    return repeat;
  }

  template <bool kScaled>
  HRR_DEVICE bool run() {
    if constexpr (kScaled) {
      measure(grad);
      if (reads_a()) {
        measure(a);
      }
      if (reads_b()) {
        measure(b);
      }
    }
    Bins bins_a;
    Bins bins_b;
    Bins bins_grad;
    if (reads_a()) {
      load_bins<kScaled>(a, bins_a);
    }
    if (reads_b()) {
      load_bins<kScaled>(b, bins_b);
    }
    T factor = 1;
    int exponent_a = grad.exponent + b.exponent;
    int exponent_b = grad.exponent + a.exponent;
    bool good = true;
    if (!normalize || !padded()) {
      load_bins<kScaled>(grad, bins_grad);
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
        project(squared, dot, projection, factor, exponent_a, exponent_b);
        for (int i = 0; i < kPointsPerThread; ++i) {
          bins_grad[i] = {multiply_add(-projection, c[i].re, bins_grad[i].re),
                          multiply_add(-projection, c[i].im, bins_grad[i].im)};
        }
      } else {
        // A padded spectrum is not that of the folded row: norm and projection are taken in the time domain.
        T row_c[kPointsPerThread];
        T row_grad[kPointsPerThread];
        scale_bins(c, T{1} / Fft::kPoints);
        fft.inverse(c);
        fold_row(fft, c, dim, Product::kConvolution, row_c);
        T sum_squares = 0;
        T sum_products = 0;
        for (int i = 0; i < kPointsPerThread; ++i) {
          const int n = fft.thread + i * Fft::kThreads;
          row_grad[i] = n < row_dim ? static_cast<T>(grad.row[n]) * factor_of<kScaled>(grad) : T{0};
          sum_squares = multiply_add(row_c[i], row_c[i], sum_squares);
          sum_products = multiply_add(row_c[i], row_grad[i], sum_products);
        }
        squared = fft.row_sum(sum_squares);
        const T dot = fft.row_sum(sum_products);
        project(squared, dot, projection, factor, exponent_a, exponent_b);
        for (int i = 0; i < kPointsPerThread; ++i) {
          row_grad[i] = multiply_add(-projection, row_c[i], row_grad[i]);
        }
        unfold_row(fft, row_grad, bins_grad);
        fft.forward(bins_grad);
      }
      good = safe_squared_norm(squared);
    }
    const bool usable = grad.finite && (!normalize || (a.finite && b.finite)) && (kScaled || good);
    bool repeat = false;
    if (grad_a != nullptr) {
      const Product kind = product == Product::kConvolution ? Product::kCorrelation : Product::kConvolution;
      repeat =
          store_product<kScaled>(kind, bins_grad, bins_b, factor, exponent_a, usable && b.finite, pending_a, grad_a);
    }
    if (grad_b != nullptr) {
      if (product == Product::kCorrelation) {
        swap_bins(bins_grad, bins_a);
      }
      const bool again = store_product<kScaled>(Product::kCorrelation, bins_grad, bins_a, factor, exponent_b,
                                                usable && a.finite, pending_b, grad_b);
      repeat = repeat || again;
    }
    return repeat;
  }
};

template <typename S, int kLog2>
HRR_COLD void run_scaled(GradientRow<S, kLog2> row) {
  row.template run<true>();
}

template <typename S, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    product_backward_kernel(BindingBackwardParams params, const TwiddlePoint<compute_t<S>>* twiddles) {
  using Row = GradientRow<S, kLog2>;
  const typename Row::Fft fft(twiddles);
  const int64_t index = static_cast<int64_t>(blockIdx.x) * Row::Fft::rows_per_block() + fft.row;
  const bool exists = index < params.rows;
  const int64_t r = exists ? index : 0;
  const int dim = static_cast<int>(params.dim);
  const auto operand = [&](const void* rows, int i) {
    return typename Row::Operand{static_cast<const S*>(rows) + placed_row(params.map, i, r), 0, true};
  };
  const auto target = [&](void* rows) { return rows == nullptr ? nullptr : static_cast<S*>(rows) + r * params.dim; };
  Row row{fft,
          operand(params.grad, 0),
          operand(params.a, 1),
          operand(params.b, 2),
          target(params.grad_a),
          target(params.grad_b),
          params.eps,
          dim,
          exists ? dim : 0,
          params.product,
          params.normalize,
          exists,
          exists};
  if (row.template run<false>()) {
    run_scaled(row);
  }
}

}  // namespace torch_hrr::kernels
