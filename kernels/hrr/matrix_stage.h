// The pointwise stage on the spectra of matrix_plan.h: every number is a bin, so that products need no other one.
#pragma once

#include "kernels/fft/matrix_plan.h"
#include "kernels/hrr/pair_stage.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// visit(q, weights) for the numbers of a spectrum, W from q on and how many bins each of them stands for.
template <typename T, int W, typename Visit>
KERNEL_HOST_DEVICE void for_numbers(const MatrixPlan<T>& plan, const Visit& visit) {
  for (int64_t q = 0; q < plan.numbers; q += W) {
    visit(q, Simd<T, W>::load(plan.weights + q % kMaxMatrixLanes));
  }
}
template <typename T, int W>
KERNEL_HOST_DEVICE ComplexLanes<T, W> load_numbers(Split<T> z, int64_t q) {
  return {Simd<T, W>::load(z.re + q), Simd<T, W>::load(z.im + q)};
}
template <typename T, int W>
KERNEL_HOST_DEVICE void store_numbers(Split<T> z, int64_t q, ComplexLanes<T, W> value) {
  value.re.store(z.re + q);
  value.im.store(z.im + q);
}

// A_k B_k or A_k conj(B_k)
template <Product kProduct, typename T>
KERNEL_HOST_DEVICE Complex<T> product_of_bins(Complex<T> a, Complex<T> b) {
  if constexpr (kProduct == Product::kConvolution) {
    return multiply(a, b);
  } else {
    return multiply_conjugate(a, b);
  }
}

// The product at a number of a spectrum.
struct BinProduct {
  template <Product kProduct, typename T>
  KERNEL_HOST_DEVICE Complex<T> of(Complex<T> a, Complex<T> b) const {
    return product_of_bins<kProduct>(a, b);
  }
};

// a + s b
template <typename T>
KERNEL_HOST_DEVICE Complex<T> add_scaled(Complex<T> a, T s, Complex<T> b) {
  return {multiply_add(s, b.re, a.re), multiply_add(s, b.im, a.im)};
}

// Re x conj(y), for as many bins as weights says, added to a sum
template <typename V>
KERNEL_HOST_DEVICE V inner_of_bins(Complex<V> x, Complex<V> y, V weights, V sum) {
  return multiply_add(multiply_add(x.re, y.re, x.im * y.im), weights, sum);
}

// dst <- a (*) b, and sum |dst|^2 over all D bins where kNorm. dst may be a or b.
template <Product kProduct, bool kNorm, typename T, int W>
T multiply_spectra(const MatrixPlan<T>& plan, Split<T> a, Split<T> b, Split<T> dst) {
  using V = Simd<T, W>;
  V sum = V::broadcast(0);
  for_numbers<T, W>(plan, [&](int64_t q, V weights) {
    const Complex<V> c = product_of_bins<kProduct>(load_numbers<T, W>(a, q), load_numbers<T, W>(b, q));
    store_numbers<T, W>(dst, q, c);
    if constexpr (kNorm) {
      sum = inner_of_bins(c, c, weights, sum);
    }
  });
  return kNorm ? horizontal_sum(sum) : T{0};
}

// sum <- sum + weight (a (*) b)
template <Product kProduct, typename T, int W>
void accumulate_spectra(const MatrixPlan<T>& plan, Split<T> a, Split<T> b, T weight, Split<T> sum) {
  using V = Simd<T, W>;
  const V factor = V::broadcast(weight);
  for_numbers<T, W>(plan, [&](int64_t q, V) {
    const Complex<V> c = product_of_bins<kProduct>(load_numbers<T, W>(a, q), load_numbers<T, W>(b, q));
    store_numbers<T, W>(sum, q, add_scaled(load_numbers<T, W>(sum, q), factor, c));
  });
}

// sum |z|^2 over all D bins
template <typename T, int W>
T squared_norm(const MatrixPlan<T>& plan, Split<T> z) {
  using V = Simd<T, W>;
  V sum = V::broadcast(0);
  for_numbers<T, W>(plan, [&](int64_t q, V weights) {
    const Complex<V> bin = load_numbers<T, W>(z, q);
    sum = inner_of_bins(bin, bin, weights, sum);
  });
  return horizontal_sum(sum);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
