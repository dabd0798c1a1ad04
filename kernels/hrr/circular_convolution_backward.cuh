// Kernels of the gradients of bind, unbind and bind_normalize.
//
// y = a conv b:    grad_a = corr(g, b), grad_b = corr(g, a)
// y = corr(a, b):  grad_a = conv(g, b), grad_b = corr(a, g)
// Normalised, c = a conv b, n = norm2(c): g is first replaced by (g - c (c.g) / n^2) / n where n > eps, else g / eps,
// and 0 where n = 0 < eps.
//
// Each gradient of a plain product reads the other operand alone, so NaN in one operand leaves its own gradient. Rows
// in registers keep the spectra of all three operands; in shared memory two rows have room, so that operands are
// transformed again for their gradients.
#pragma once

#include "kernels/hrr/fft_row.cuh"
#include "kernels/hrr/mixed_row.cuh"

namespace torch_hrr::kernels {

// The product that is the gradient of an operand: of g and the other operand, or of that and g.
struct GradientProduct {
  Product kind;
  bool swapped;

  KERNEL_DEVICE GradientProduct(Product product, bool of_b)
      : kind(of_b || product == Product::kConvolution ? Product::kCorrelation : Product::kConvolution),
        swapped(of_b && product == Product::kCorrelation) {}
};

// What normalisation makes of a gradient: (g - projection c) factor 2^exponent, for norm2(c)^2 = squared and c.g = dot,
// where c stands for c 2^exponent_c.
template <typename T>
struct NormalizedGradient {
  T projection = 0;
  T factor = 1;
  int exponent = 0;

  NormalizedGradient() = default;
  KERNEL_DEVICE NormalizedGradient(T squared, T dot, int exponent_c, double eps) {
    const NormalizingScale<T> scale(squared, exponent_c, eps);
    projection = scale.above_eps ? dot / squared : T{0};
    factor = gradient_factor(scale, squared, eps);
    // scale.exponent is that of 1 / max(n, eps) times c's own.
    exponent = scale.exponent - exponent_c;
  }
};

template <typename T, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    product_backward_kernel(BindBackwardParams params, Storage storage, const TwiddlePoint<T>* twiddles) {
  using Row = FftRow<T, kLog2>;
  const Row row(twiddles, params.rows, params.dim);
  const auto operand_of = [&](const void* rows, int operand) {
    return stored_input<T>(rows, storage) + placed_row(params.map, operand, row.r);
  };
  typename Row::Spectrum of_a{};
  typename Row::Spectrum of_b{};
  typename Row::Spectrum of_grad{};
  MeasuredRow measured_a;
  MeasuredRow measured_b;
  MeasuredRow measured_grad;
  if (params.normalize || params.grad_b != nullptr) {
    measured_a = row.load(operand_of(params.a, 1), of_a);
  }
  if (params.normalize || params.grad_a != nullptr) {
    measured_b = row.load(operand_of(params.b, 2), of_b);
  }
  const bool in_time = params.normalize && row.padded();
  if (!in_time) {
    measured_grad = row.load(operand_of(params.grad, 0), of_grad);
  }
  NormalizedGradient<T> of_norm;
  if (params.normalize) {
    typename Row::Spectrum c{};
    row.multiply(Product::kConvolution, of_a, of_b, c);
    const int exponent_c = measured_a.exponent + measured_b.exponent;
    if (!in_time) {
      // Parseval: the gradient never leaves the frequency domain.
      const T dot = row.fft.row_sum(inner_product(c.v, of_grad.v)) * static_cast<T>(row.share());
      of_norm = NormalizedGradient<T>(row.squared_norm(c), dot, exponent_c, params.eps);
      for (int i = 0; i < kPointsPerThread; ++i) {
        of_grad.v[i] = {multiply_add(-of_norm.projection, c.v[i].re, of_grad.v[i].re),
                        multiply_add(-of_norm.projection, c.v[i].im, of_grad.v[i].im)};
      }
    } else {
      // A padded spectrum is not that of the folded row: norm and projection are taken in the time domain.
      T row_c[kPointsPerThread];
      T row_grad[kPointsPerThread];
      scale_points(c.v, static_cast<T>(row.share()));
      row.fft.inverse(c.v);
      fold_row(row.fft, c.v, row.dim, Product::kConvolution, row_c);
      load_folded(row.fft, operand_of(params.grad, 0), row.row_dim, row_grad);
      measured_grad = scale_to_range(row.fft, row_grad);
      T sum_squares = 0;
      T sum_products = 0;
      for (int i = 0; i < kPointsPerThread; ++i) {
        sum_squares = multiply_add(row_c[i], row_c[i], sum_squares);
        sum_products = multiply_add(row_c[i], row_grad[i], sum_products);
      }
      const T squared = row.fft.row_sum(sum_squares);
      of_norm = NormalizedGradient<T>(squared, row.fft.row_sum(sum_products), exponent_c, params.eps);
      for (int i = 0; i < kPointsPerThread; ++i) {
        row_grad[i] = multiply_add(-of_norm.projection, row_c[i], row_grad[i]);
      }
      unfold_row(row.fft, row_grad, of_grad.v);
      row.fft.forward(of_grad.v);
    }
    measured_grad.finite = measured_grad.finite && measured_a.finite && measured_b.finite;
  }
  measured_grad.exponent += of_norm.exponent;
  const auto store = [&](bool is_b, const MeasuredRow& other, typename Row::Spectrum& of_other, void* target) {
    if (target == nullptr) {
      return;
    }
    const GradientProduct product(params.product, is_b);
    if (product.swapped) {
      for (int i = 0; i < kPointsPerThread; ++i) {
        const Complex<T> old = of_other.v[i];
        of_other.v[i] = of_grad.v[i];
        of_grad.v[i] = old;
      }
    }
    // a's gradient is stored first and leaves g; b's is the last.
    row.multiply(product.kind, of_grad, of_other, of_other);
    row.store_product(of_other, product.kind, of_norm.factor, measured_grad.exponent + other.exponent,
                      measured_grad.finite && other.finite, false, 0,
                      stored_output<T>(target, storage) + row.r * row.dim);
  };
  store(false, measured_b, of_b, params.grad_a);
  store(true, measured_a, of_a, params.grad_b);
}

template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_backward_kernel(BindBackwardParams params, Storage storage, const MixedPlan* plan) {
  const MixedRow<T> row(plan, 2);
  auto of_grad = row.spectrum(0);
  auto of_other = row.spectrum(1);
  // Placed where they are loaded: kept through the transforms, the addresses would cost registers.
  const auto operand_of = [&](const void* rows, int operand) {
    return stored_input<T>(rows, storage) + placed_row(params.map, operand, row.r);
  };
  NormalizedGradient<T> of_norm;
  MeasuredRow measured_grad;
  if (params.normalize) {
    const MeasuredRow measured_a = row.load(operand_of(params.a, 1), of_grad);
    const MeasuredRow measured_b = row.load(operand_of(params.b, 2), of_other);
    row.multiply(Product::kConvolution, of_grad, of_other, of_grad);
    const T squared = row.squared_norm(of_grad);
    measured_grad = row.load(operand_of(params.grad, 0), of_other);
    of_norm = {squared, row.inner_product_of(of_grad, of_other), measured_a.exponent + measured_b.exponent, params.eps};
    row.for_each_point([&](int n) {
      const Complex<T> c = row.point(of_grad, n);
      const Complex<T> g = row.point(of_other, n);
      row.set(of_grad, n,
              {multiply_add(-of_norm.projection, c.re, g.re), multiply_add(-of_norm.projection, c.im, g.im)});
    });
    measured_grad.finite = measured_grad.finite && measured_a.finite && measured_b.finite;
    measured_grad.exponent += of_norm.exponent;
  } else {
    measured_grad = row.load(operand_of(params.grad, 0), of_grad);
  }
#pragma unroll 1
  for (int operand = 0; operand < 2; ++operand) {
    const bool is_b = operand == 1;
    void* const target = is_b ? params.grad_b : params.grad_a;
    if (target == nullptr) {
      continue;
    }
    const MeasuredRow other = row.load(is_b ? operand_of(params.a, 1) : operand_of(params.b, 2), of_other);
    const GradientProduct product(params.product, is_b);
    row.multiply(product.kind, product.swapped ? of_other : of_grad, product.swapped ? of_grad : of_other, of_other);
    row.store_product(of_other, product.kind, of_norm.factor, measured_grad.exponent + other.exponent,
                      measured_grad.finite && other.finite, false, 0,
                      stored_output<T>(target, storage) + row.r * row.dim);
  }
}

}  // namespace torch_hrr::kernels
