// What the spectral HRR kernels share around a transform: rows in and out of memory, folding, scaling, bins in pairs.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/cuda/element_run.cuh"
#include "kernels/fft/fft.cuh"
#include "kernels/hrr/circular_convolution.h"

// Rare paths stay out of line: inlined, they would cost the common path half of its registers.
#if defined(__CUDACC__)
#define HRR_COLD __device__ __noinline__
#else
#define HRR_COLD __attribute__((noinline))
#endif

namespace torch_hrr::kernels {

// Threads and rows of a block for the transform of 2^log2 points, as data: whole rows, at least 128 threads.
struct BlockShape {
  int threads;
  int rows;
};
constexpr BlockShape kBlockShapes[] = {{128, 64}, {128, 32}, {128, 16}, {128, 8}, {128, 4},
                                       {128, 2},  {128, 1},  {256, 1},  {512, 1}};

template <int kLog2>
constexpr int kBlockThreads = kBlockShapes[kLog2 - kMinDeviceFftLog2].threads;

template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <typename T>
constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

// The element offset of a row; the usual single leading dimension needs no division.
HRR_DEVICE int64_t placed_row(const RowMap& map, int operand, int64_t row) {
  return map.ndim == 1 ? row * map.strides[operand][0] : row_offset(map, operand, row);
}

template <typename T>
HRR_DEVICE bool is_finite(T x) {
  return x - x == T{0};
}

// Magnitudes beyond 2^+-limit are scaled by 2^limit only, so that one representable factor does it.
template <typename T>
constexpr int kScaleLimit = sizeof(T) == 4 ? 120 : 1000;
template <typename T>
constexpr int kLargestExponent = sizeof(T) == 4 ? 126 : 1022;

// The exponent e with magnitude 2^-e in [1, 2); 0 for a row of zeros or one that is not finite.
template <typename T>
HRR_DEVICE int scale_exponent(T magnitude) {
  if (magnitude == T{0} || !is_finite(magnitude)) {
    return 0;
  }
  const int exponent = ::ilogb(magnitude);
  return exponent > kScaleLimit<T> ? kScaleLimit<T> : exponent < -kScaleLimit<T> ? -kScaleLimit<T> : exponent;
}

template <typename T>
HRR_DEVICE T power_of_two(int exponent) {
  return ::ldexp(T{1}, exponent);
}

// x 2^exponent as two factors, each representable; saturates far outside the range of T.
template <typename T>
struct PowerOfTwo {
  T first = 1;
  T second = 1;

  PowerOfTwo() = default;
  HRR_DEVICE explicit PowerOfTwo(int exponent) {
    constexpr int kLimit = 2 * kLargestExponent<T>;
    exponent = exponent > kLimit ? kLimit : exponent < -kLimit ? -kLimit : exponent;
    first = power_of_two<T>(exponent / 2);
    second = power_of_two<T>(exponent - exponent / 2);
  }
};

// 1 / max(norm2, eps) as factor 2^exponent for a row that stands for row 2^row_exponent.
template <typename T>
struct NormalizingScale {
  T factor;
  int exponent = 0;
  bool above_eps;

  HRR_DEVICE NormalizingScale(T squared, int row_exponent, double eps) {
    const T norm = ::sqrt(squared);
    above_eps =
        row_exponent == 0 ? norm >= static_cast<T>(eps) : static_cast<double>(norm) >= ::ldexp(eps, -row_exponent);
    if (above_eps && norm > T{0}) {
      factor = T{1} / norm;
      return;
    }
    // eps may be outside the range of T; a row of zeros over eps = 0 is 0/0.
    int eps_exponent = 0;
    factor = T{1} / static_cast<T>(::frexp(eps, &eps_exponent));
    exponent = row_exponent - eps_exponent;
  }
};

// v = the row's even and odd elements as points in the time layout, times factor; elements from dim on are 0.
template <typename S, typename T, int kLog2>
HRR_DEVICE_STEP void load_row(const RowFft<T, kLog2>& fft, const S* row, int dim, T factor,
                              Complex<T> (&v)[kPointsPerThread]) {
  constexpr int kRun = RowFft<T, kLog2>::kRun;
  constexpr int kElements = 2 * kRun;
  constexpr int kRuns = kPointsPerThread / kRun;
  if (dim % kElements == 0 && is_run_aligned<S, kElements>(row)) {
    for (int j = 0; j < kRuns; ++j) {
      const int first = 2 * fft.time_point(j);
      ElementRun<S, kElements> run{};
      if (first < dim) {
        run = *reinterpret_cast<const ElementRun<S, kElements>*>(row + first);
      }
      for (int g = 0; g < kRun; ++g) {
        v[g * kRuns + j] = {static_cast<T>(run.elements[2 * g]) * factor,
                            static_cast<T>(run.elements[2 * g + 1]) * factor};
      }
    }
  } else {
    for (int j = 0; j < kRuns; ++j) {
      for (int g = 0; g < kRun; ++g) {
        const int n = 2 * (fft.time_point(j) + g);
        v[g * kRuns + j] = {n < dim ? static_cast<T>(row[n]) * factor : T{0},
                            n + 1 < dim ? static_cast<T>(row[n + 1]) * factor : T{0}};
      }
    }
  }
}

// The inverse of load_row for a row of 2M elements, times a power of two.
template <typename S, typename T, int kLog2>
HRR_DEVICE_STEP void store_row(const RowFft<T, kLog2>& fft, const Complex<T> (&v)[kPointsPerThread],
                               PowerOfTwo<T> power, S* row) {
  constexpr int kRun = RowFft<T, kLog2>::kRun;
  constexpr int kElements = 2 * kRun;
  constexpr int kRuns = kPointsPerThread / kRun;
  const bool aligned = is_run_aligned<S, kElements>(row);
  for (int j = 0; j < kRuns; ++j) {
    ElementRun<S, kElements> run;
    for (int g = 0; g < kRun; ++g) {
      const Complex<T> z = v[g * kRuns + j];
      run.elements[2 * g] = static_cast<S>(z.re * power.first * power.second);
      run.elements[2 * g + 1] = static_cast<S>(z.im * power.first * power.second);
    }
    S* const target = row + 2 * fft.time_point(j);
    if (aligned) {
      *reinterpret_cast<ElementRun<S, kElements>*>(target) = run;
    } else {
      for (int i = 0; i < kElements; ++i) {
        target[i] = run.elements[i];
      }
    }
  }
}

// The folded layout of padded rows: c[i] is element t + i M/8 of the D <= M of the row.
template <typename T, int kLog2>
HRR_DEVICE T& stored_element(const RowFft<T, kLog2>& fft, int n) {
  auto& point = fft.stored(n / 2);
  return n % 2 == 0 ? point.re : point.im;
}

// c[n] = lin[n] + lin[n + D] for a convolution, lin[n] + lin[2M - D + n] (n > 0) for a correlation, of a fresh inverse.
template <typename T, int kLog2>
HRR_DEVICE_STEP void fold_row(const RowFft<T, kLog2>& fft, const Complex<T> (&v)[kPointsPerThread], int dim,
                              Product product, T (&c)[kPointsPerThread]) {
  using Fft = RowFft<T, kLog2>;
  constexpr int kRuns = kPointsPerThread / Fft::kRun;
  // No barrier first: the last stage of an inverse reads exactly the points that its thread writes here.
  for (int j = 0; j < kRuns; ++j) {
    for (int g = 0; g < Fft::kRun; ++g) {
      fft.stored(fft.time_point(j) + g) = {v[g * kRuns + j].re, v[g * kRuns + j].im};
    }
  }
  fft.sync();
  const int shift = product == Product::kConvolution ? dim : 2 * Fft::kPoints - dim;
  for (int i = 0; i < kPointsPerThread; ++i) {
    const int n = fft.thread + i * Fft::kThreads;
    c[i] = T{0};
    if (n < dim) {
      c[i] = stored_element(fft, n);
      if (n > 0 || product == Product::kConvolution) {
        c[i] += stored_element(fft, n + shift);
      }
    }
  }
}

// v = the time layout, zero-padded, of a row in the folded layout.
template <typename T, int kLog2>
HRR_DEVICE_STEP void unfold_row(const RowFft<T, kLog2>& fft, const T (&c)[kPointsPerThread],
                                Complex<T> (&v)[kPointsPerThread]) {
  using Fft = RowFft<T, kLog2>;
  constexpr int kRuns = kPointsPerThread / Fft::kRun;
  fft.sync();
  for (int i = 0; i < kPointsPerThread; ++i) {
    const int n = fft.thread + i * Fft::kThreads;
    stored_element(fft, n) = c[i];
    stored_element(fft, n + Fft::kPoints) = T{0};
  }
  fft.sync();
  for (int j = 0; j < kRuns; ++j) {
    for (int g = 0; g < Fft::kRun; ++g) {
      const auto point = fft.stored(fft.time_point(j) + g);
      v[g * kRuns + j] = {point.re, point.im};
    }
  }
}

template <typename S, typename T, int kLog2>
HRR_DEVICE_STEP void store_folded(const RowFft<T, kLog2>& fft, const T (&c)[kPointsPerThread], int dim, T factor,
                                  PowerOfTwo<T> power, S* row) {
  for (int i = 0; i < kPointsPerThread; ++i) {
    const int n = fft.thread + i * RowFft<T, kLog2>::kThreads;
    if (n < dim) {
      row[n] = static_cast<S>(c[i] * factor * power.first * power.second);
    }
  }
}

template <typename S, typename T, int kLog2>
HRR_DEVICE_STEP void store_nan(const RowFft<T, kLog2>& fft, int dim, S* row) {
  for (int n = fft.thread; n < dim; n += RowFft<T, kLog2>::kThreads) {
    row[n] = static_cast<S>(kNan<T>);
  }
}

// max |x| over a row, infinite if an element is NaN or infinite; every thread of the row gets it.
template <typename S, typename T, int kLog2>
HRR_DEVICE_STEP T row_magnitude(const RowFft<T, kLog2>& fft, const S* row, int dim) {
  T largest = 0;
  for (int n = fft.thread; n < dim; n += RowFft<T, kLog2>::kThreads) {
    const T magnitude = ::fabs(static_cast<T>(row[n]));
    largest = !is_finite(magnitude) ? kInfinity<T> : largest < magnitude ? magnitude : largest;
  }
  return fft.row_max(largest);
}

// Whether all of the values are finite.
template <typename T>
HRR_DEVICE bool all_finite(const Complex<T> (&v)[kPointsPerThread]) {
  T check = 0;
  for (int i = 0; i < kPointsPerThread; ++i) {
    check += v[i].re * T{0} + v[i].im * T{0};
  }
  return check == T{0};
}
template <typename T>
HRR_DEVICE bool all_finite(const T (&c)[kPointsPerThread]) {
  T check = 0;
  for (int i = 0; i < kPointsPerThread; ++i) {
    check += c[i] * T{0};
  }
  return check == T{0};
}

// Re sum x conj(y) over a thread's bins
template <typename T>
HRR_DEVICE_STEP T inner_product(const Complex<T> (&x)[kPointsPerThread], const Complex<T> (&y)[kPointsPerThread]) {
  T sum = 0;
  for (int i = 0; i < kPointsPerThread; ++i) {
    sum = multiply_add(x[i].re, y[i].re, sum);
    sum = multiply_add(x[i].im, y[i].im, sum);
  }
  return sum;
}

template <typename T>
HRR_DEVICE void scale_bins(Complex<T> (&v)[kPointsPerThread], T factor) {
  for (int i = 0; i < kPointsPerThread; ++i) {
    v[i] = {v[i].re * factor, v[i].im * factor};
  }
}

// visit(bin, mirror, u) for the slots of every pair (k, M-k) of this thread, u = (1 + e^{-2 pi i k / M}) / 4. Bins 0
// and M/2 are pairs of one slot. Within a slot array k advances by quarter turns, so one root serves four pairs.
template <typename T, int kLog2, typename Visit>
HRR_DEVICE void for_each_pair(const RowFft<T, kLog2>& fft, Visit& visit) {
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

template <Product kProduct, typename T>
HRR_DEVICE Pair<T> device_product_pair(Pair<T> a, Pair<T> b, Complex<T> u) {
  if constexpr (kProduct == Product::kConvolution) {
    return convolve_pair(a, b, u);
  } else {
    return correlate_pair(a, b, u);
  }
}

// target = a (*) b
template <Product kProduct, typename T>
struct MultiplyPairs {
  const Complex<T> (&a)[kPointsPerThread];
  const Complex<T> (&b)[kPointsPerThread];
  Complex<T> (&target)[kPointsPerThread];

  HRR_DEVICE void operator()(int k, int mirror, Complex<T> u) const {
    const Pair<T> c = device_product_pair<kProduct, T>({a[k], a[mirror]}, {b[k], b[mirror]}, u);
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

  HRR_DEVICE void operator()(int k, int mirror, Complex<T> u) const {
    const Pair<T> c = convolve_pair<T>({a[k], a[mirror]}, {b[k], b[mirror]}, u);
    const Pair<T> total{sum[k], sum[mirror]};
    sum[k] = {multiply_add(weight, c.k.re, total.k.re), multiply_add(weight, c.k.im, total.k.im)};
    sum[mirror] = {multiply_add(weight, c.mirror.re, total.mirror.re),
                   multiply_add(weight, c.mirror.im, total.mirror.im)};
  }
};

// target = a (*) b; target may be a or b.
template <typename T, int kLog2>
HRR_DEVICE_STEP void multiply_bins(const RowFft<T, kLog2>& fft, Product product,
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
