// The pointwise stage on (k, M-k) pairs of a half-length spectrum, in whole vectors.
#pragma once

#include "kernels/fft/fft.h"
#include "kernels/hrr/circular_convolution.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

template <typename T, int W>
using PairLanes = Pair<Simd<T, W>>;

// Arrays hold M + 1 points: the last repeats the first, so that the mirror of block 0 is a block too.
template <typename T>
KERNEL_HOST_DEVICE void wrap(Split<T> z, int64_t points) {
  z.re[points] = z.re[0];
  z.im[points] = z.im[0];
}

template <typename T, int W>
KERNEL_HOST_DEVICE PairLanes<T, W> load_pairs(Split<T> z, int64_t points, int64_t k) {
  using V = Simd<T, W>;
  const V re = V::load(z.re + points - k - W + 1);
  const V im = V::load(z.im + points - k - W + 1);
  return {{V::load(z.re + k), V::load(z.im + k)}, {shuffle<Reversed>(re, re), shuffle<Reversed>(im, im)}};
}

template <typename T, int W>
KERNEL_HOST_DEVICE void store_pairs(Split<T> z, int64_t points, int64_t k, PairLanes<T, W> pair) {
  shuffle<Reversed>(pair.mirror.re, pair.mirror.re).store(z.re + points - k - W + 1);
  shuffle<Reversed>(pair.mirror.im, pair.mirror.im).store(z.im + points - k - W + 1);
  pair.k.re.store(z.re + k);
  pair.k.im.store(z.im + k);
}

// The pairs below this index go in whole vectors, the few others up to M/2 one by one.
template <int W>
constexpr int64_t whole_blocks(int64_t points) {
  return points / 2 / W * W;
}
template <typename T>
KERNEL_HOST_DEVICE Pair<T> load_pair(Split<T> z, int64_t points, int64_t k) {
  return {{z.re[k], z.im[k]}, {z.re[points - k], z.im[points - k]}};
}
template <typename T>
KERNEL_HOST_DEVICE void store_pair(Split<T> z, int64_t points, int64_t k, Pair<T> pair) {
  z.re[k] = pair.k.re;
  z.im[k] = pair.k.im;
  z.re[points - k] = pair.mirror.re;
  z.im[points - k] = pair.mirror.im;
}
template <typename T>
KERNEL_HOST_DEVICE Complex<T> coupling(const FftPlan<T>& plan, int64_t k) {
  return {plan.coupling_re[k], plan.coupling_im[k]};
}

// The bin k = M/2 is its own mirror, with u = 0.
template <typename T>
KERNEL_HOST_DEVICE Pair<T> load_middle(Split<T> z, int64_t points) {
  const Complex<T> middle{z.re[points / 2], z.im[points / 2]};
  return {middle, middle};
}
template <typename T>
KERNEL_HOST_DEVICE void store_middle(Split<T> z, int64_t points, Pair<T> pair) {
  z.re[points / 2] = pair.k.re;
  z.im[points / 2] = pair.k.im;
}

// Re sum x conj(y) over both halves of a pair
template <typename T>
KERNEL_HOST_DEVICE T inner(Pair<T> x, Pair<T> y, T sum) {
  sum = multiply_add(x.k.re, y.k.re, sum);
  sum = multiply_add(x.k.im, y.k.im, sum);
  sum = multiply_add(x.mirror.re, y.mirror.re, sum);
  return multiply_add(x.mirror.im, y.mirror.im, sum);
}
template <typename T>
KERNEL_HOST_DEVICE T inner_of_half(Complex<T> x, Complex<T> y, T sum) {
  return multiply_add(x.im, y.im, multiply_add(x.re, y.re, sum));
}

// a + s b
template <typename T>
KERNEL_HOST_DEVICE Pair<T> add_scaled(Pair<T> a, T s, Pair<T> b) {
  return {{multiply_add(s, b.k.re, a.k.re), multiply_add(s, b.k.im, a.k.im)},
          {multiply_add(s, b.mirror.re, a.mirror.re), multiply_add(s, b.mirror.im, a.mirror.im)}};
}
template <typename T>
KERNEL_HOST_DEVICE Pair<T> scaled(T s, Pair<T> b) {
  return {{s * b.k.re, s * b.k.im}, {s * b.mirror.re, s * b.mirror.im}};
}

// The product at a pair.
template <typename T>
struct PairProduct {
  Complex<T> u;

  template <Product kProduct>
  KERNEL_HOST_DEVICE Pair<T> of(Pair<T> a, Pair<T> b) const {
    return product_pair<kProduct>(a, b, u);
  }
};

// Multiplier that counts the pair (0, M) once: 0 in the first lane of the mirror of block 0.
template <typename T, int W>
KERNEL_HOST_DEVICE Simd<T, W> without_first() {
  T lanes[W];
  for (int j = 0; j < W; ++j) {
    lanes[j] = j == 0 ? T{0} : T{1};
  }
  return Simd<T, W>::load(lanes);
}

// dst <- a (*) b, and sum |dst|^2 over all M points where kNorm. dst may be a or b, whose wrapped points must be set.
template <Product kProduct, bool kNorm, typename T, int W>
T multiply_spectra(const FftPlan<T>& plan, Split<T> a, Split<T> b, Split<T> dst) {
  using V = Simd<T, W>;
  const int64_t points = plan.size;
  V sum = V::broadcast(0);
  const auto block = [&](int64_t k) {
    const Complex<V> u{V::load(plan.coupling_re + k), V::load(plan.coupling_im + k)};
    const PairLanes<T, W> c = product_pair<kProduct>(load_pairs<T, W>(a, points, k), load_pairs<T, W>(b, points, k), u);
    store_pairs<T, W>(dst, points, k, c);
    return c;
  };
  for (int64_t k = whole_blocks<W>(points) - W; k > 0; k -= W) {
    const PairLanes<T, W> c = block(k);
    if constexpr (kNorm) {
      sum = inner(c, c, sum);
    }
  }
  const PairLanes<T, W> first = block(0);
  const Pair<T> middle = product_pair<kProduct>(load_middle(a, points), load_middle(b, points), Complex<T>{T{0}, T{0}});
  store_middle(dst, points, middle);
  T single = 0;
  for (int64_t k = whole_blocks<W>(points); k < points / 2; ++k) {
    const Pair<T> c = product_pair<kProduct>(load_pair(a, points, k), load_pair(b, points, k), coupling(plan, k));
    store_pair(dst, points, k, c);
    single = inner(c, c, single);
  }
  if constexpr (!kNorm) {
    return T{0};
  }
  sum = inner_of_half(first.k, first.k, sum);
  sum = multiply_add(inner_of_half(first.mirror, first.mirror, V::broadcast(0)), without_first<T, W>(), sum);
  return inner_of_half(middle.k, middle.k, horizontal_sum(sum) + single);
}

// sum <- sum + weight (a conv b)
template <Product kProduct, typename T, int W>
void accumulate_spectra(const FftPlan<T>& plan, Split<T> a, Split<T> b, T weight, Split<T> sum) {
  using V = Simd<T, W>;
  const int64_t points = plan.size;
  const V factor = V::broadcast(weight);
  for (int64_t k = whole_blocks<W>(points); k < points / 2; ++k) {
    const Pair<T> c = product_pair<kProduct>(load_pair(a, points, k), load_pair(b, points, k), coupling(plan, k));
    store_pair(sum, points, k, add_scaled(load_pair(sum, points, k), weight, c));
  }
  for (int64_t k = whole_blocks<W>(points) - W; k >= 0; k -= W) {
    const Complex<V> u{V::load(plan.coupling_re + k), V::load(plan.coupling_im + k)};
    const PairLanes<T, W> c = product_pair<kProduct>(load_pairs<T, W>(a, points, k), load_pairs<T, W>(b, points, k), u);
    PairLanes<T, W> total = load_pairs<T, W>(sum, points, k);
    store_pairs<T, W>(sum, points, k, add_scaled(total, factor, c));
  }
  const Pair<T> middle = product_pair<kProduct>(load_middle(a, points), load_middle(b, points), Complex<T>{T{0}, T{0}});
  store_middle(sum, points, add_scaled(load_middle(sum, points), weight, middle));
}

// sum |z|^2 over the M points of a wrapped array
template <typename T, int W>
T squared_norm(const HalfRow<T>& row, Split<T> z) {
  using V = Simd<T, W>;
  V sum = V::broadcast(0);
  int64_t k = 0;
  for (; k + W <= row.size; k += W) {
    const Complex<V> value{V::load(z.re + k), V::load(z.im + k)};
    sum = inner_of_half(value, value, sum);
  }
  T total = horizontal_sum(sum);
  for (; k < row.size; ++k) {
    const Complex<T> value{z.re[k], z.im[k]};
    total = inner_of_half(value, value, total);
  }
  return total;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
