// The pointwise stage on the spectra of matrix_plan.h: every number is a bin, so that products need no other one.
#pragma once

#include "kernels/fft/matrix_plan.h"
#include "kernels/hrr/pair_stage.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

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

// Sums of Re x conj(y) over all D bins.
template <typename T, int W>
struct NumberSum {
  Simd<T, W> lanes = Simd<T, W>::broadcast(0);

  KERNEL_HOST_DEVICE T total() const {
    return horizontal_sum(lanes);
  }
};

// The numbers that products take together: W from q on.
template <typename T, int W>
struct NumberBlock : BinProduct {
  using Number = Simd<T, W>;
  int64_t q;
  Number weights;

  KERNEL_HOST_DEVICE Complex<Number> in(Split<T> z) const {
    return load_numbers<T, W>(z, q);
  }
  KERNEL_HOST_DEVICE void put_in(Split<T> z, const Complex<Number>& value) const {
    store_numbers<T, W>(z, q, value);
  }
  KERNEL_HOST_DEVICE void add_inner(NumberSum<T, W>& sum, const Complex<Number>& x, const Complex<Number>& y) const {
    sum.lanes = inner_of_bins(x, y, weights, sum.lanes);
  }
};

// The spectra of matrices, as engine.h asks for.
template <typename T, int W>
struct NumberSpectra {
  using Operand = Split<T>;
  using InnerSum = NumberSum<T, W>;
  using Sum = T;

  const MatrixPlan<T>& plan;

  KERNEL_HOST_DEVICE int64_t points() const {
    return plan.dim;
  }
  KERNEL_HOST_DEVICE int64_t numbers() const {
    return plan.numbers;
  }
  template <typename Visit>
  KERNEL_HOST_DEVICE void for_points(const Visit& visit) const {
    const int64_t numbers = plan.numbers;
    for (int64_t q = 0; q < numbers; q += W) {
      // How many bins a number stands for.
      visit(NumberBlock<T, W>{{}, q, Simd<T, W>::load(plan.weights + q % kMaxMatrixLanes)});
    }
  }
  T squared(Operand z) const {
    InnerSum sum;
    for_points([&](const auto& point) __attribute__((always_inline)) {
      const auto bins = point.in(z);
      point.add_inner(sum, bins, bins);
    });
    return sum.total();
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
