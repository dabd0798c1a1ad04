// Products and inner products of half-length spectra that a row's threads hold, pair by pair.
#pragma once

#include "kernels/fft/fft.cuh"
#include "kernels/hrr/circular_convolution.h"

namespace torch_hrr::kernels {

// Re sum x conj(y) over a thread's bins
template <typename T>
KERNEL_DEVICE_STEP T inner_product(const Complex<T> (&x)[kPointsPerThread], const Complex<T> (&y)[kPointsPerThread]) {
  T sum = 0;
  for (int i = 0; i < kPointsPerThread; ++i) {
    sum = multiply_add(x[i].re, y[i].re, sum);
    sum = multiply_add(x[i].im, y[i].im, sum);
  }
  return sum;
}

// visit(bin, mirror, u) for the slots of every pair (k, M-k) of this thread, u = (1 + e^{-2 pi i k / M}) / 4. Bins 0
// and M/2 are pairs of one slot. Within a slot array k advances by quarter turns, so one root serves four pairs.
template <typename T, int kLog2, typename Visit>
KERNEL_DEVICE void for_each_pair(const RowFft<T, kLog2>& fft, Visit& visit) {
  constexpr T kQuarter = static_cast<T>(0.25);
  const Complex<T> w = fft.root(fft.thread);
  const T re = kQuarter * w.re;
  const T im = kQuarter * w.im;
  if (fft.thread != 0) {
    visit(0, 7, Complex<T>{kQuarter + re, im});
    visit(1, 6, Complex<T>{kQuarter + im, -re});
    visit(2, 5, Complex<T>{kQuarter - re, -im});
    visit(3, 4, Complex<T>{kQuarter - im, re});
  } else {
    const Complex<T> eighth = fft.root(RowFft<T, kLog2>::kPoints / 8);
    visit(0, 0, Complex<T>{kQuarter + re, im});
    visit(1, 3, Complex<T>{kQuarter + im, -re});
    visit(2, 2, Complex<T>{kQuarter - re, -im});
    visit(4, 7, Complex<T>{kQuarter + kQuarter * eighth.re, kQuarter * eighth.im});
    visit(5, 6, Complex<T>{kQuarter + kQuarter * eighth.im, -(kQuarter * eighth.re)});
  }
}

// target = a (*) b
template <Product kProduct, typename T>
struct MultiplyPairs {
  const Complex<T> (&a)[kPointsPerThread];
  const Complex<T> (&b)[kPointsPerThread];
  Complex<T> (&target)[kPointsPerThread];

  KERNEL_DEVICE void operator()(int k, int mirror, Complex<T> u) const {
    const Pair<T> c = product_pair<kProduct, T>({a[k], a[mirror]}, {b[k], b[mirror]}, u);
    target[k] = c.k;
    target[mirror] = c.mirror;
  }
};

// sum += weight (a conv b)
template <typename T>
struct AccumulatePairs {
  const Complex<T> (&a)[kPointsPerThread];
  const Complex<T> (&b)[kPointsPerThread];
  Complex<T> (&sum)[kPointsPerThread];
  T weight;

  KERNEL_DEVICE void operator()(int k, int mirror, Complex<T> u) const {
    const Pair<T> c = convolve_pair<T>({a[k], a[mirror]}, {b[k], b[mirror]}, u);
    const Pair<T> total{sum[k], sum[mirror]};
    sum[k] = {multiply_add(weight, c.k.re, total.k.re), multiply_add(weight, c.k.im, total.k.im)};
    sum[mirror] = {multiply_add(weight, c.mirror.re, total.mirror.re),
                   multiply_add(weight, c.mirror.im, total.mirror.im)};
  }
};

// target = a (*) b; target may be a or b.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void multiply_pairs(const RowFft<T, kLog2>& fft, Product product,
                                       const Complex<T> (&a)[kPointsPerThread], const Complex<T> (&b)[kPointsPerThread],
                                       Complex<T> (&target)[kPointsPerThread]) {
  if (product == Product::kConvolution) {
    MultiplyPairs<Product::kConvolution, T> visit{a, b, target};
    for_each_pair(fft, visit);
  } else {
    MultiplyPairs<Product::kCorrelation, T> visit{a, b, target};
    for_each_pair(fft, visit);
  }
}

}  // namespace torch_hrr::kernels
