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

// Sums of Re x conj(y) over the M points of spectra.
template <typename T, int W>
struct PairSum {
  Simd<T, W> lanes = Simd<T, W>::broadcast(0);
  T single = 0;
  Pair<T> middle{{0, 0}, {0, 0}};

  KERNEL_HOST_DEVICE T total() const {
    return inner_of_half(middle.k, middle.mirror, horizontal_sum(lanes) + single);
  }
};

// The points of half-length spectra that products take together: W pairs from k on, one pair, or the bin k = M/2, which
// is its own mirror, with u = 0. Wrapped points must be set in what is read.
template <typename T, int W>
struct PairBlock : PairProduct<Simd<T, W>> {
  using Number = Simd<T, W>;
  int64_t points;
  int64_t k;

  KERNEL_HOST_DEVICE PairLanes<T, W> in(Split<T> z) const {
    return load_pairs<T, W>(z, points, k);
  }
  KERNEL_HOST_DEVICE void put_in(Split<T> z, const PairLanes<T, W>& value) const {
    store_pairs<T, W>(z, points, k, value);
  }
  KERNEL_HOST_DEVICE void add_inner(PairSum<T, W>& sum, const PairLanes<T, W>& x, const PairLanes<T, W>& y) const {
    sum.lanes = inner(x, y, sum.lanes);
  }
};
// Those at k = 0, where the pair (0, M) counts once.
template <typename T, int W>
struct FirstPairBlock : PairBlock<T, W> {
  KERNEL_HOST_DEVICE void add_inner(PairSum<T, W>& sum, const PairLanes<T, W>& x, const PairLanes<T, W>& y) const {
    using V = Simd<T, W>;
    sum.lanes = inner_of_half(x.k, y.k, sum.lanes);
    sum.lanes = multiply_add(inner_of_half(x.mirror, y.mirror, V::broadcast(0)), without_first<T, W>(), sum.lanes);
  }
};
template <typename T>
struct SinglePair : PairProduct<T> {
  using Number = T;
  int64_t points;
  int64_t k;

  KERNEL_HOST_DEVICE Pair<T> in(Split<T> z) const {
    return load_pair(z, points, k);
  }
  KERNEL_HOST_DEVICE void put_in(Split<T> z, const Pair<T>& value) const {
    store_pair(z, points, k, value);
  }
  template <int W>
  KERNEL_HOST_DEVICE void add_inner(PairSum<T, W>& sum, const Pair<T>& x, const Pair<T>& y) const {
    sum.single = inner(x, y, sum.single);
  }
};
template <typename T>
struct MiddlePair : PairProduct<T> {
  using Number = T;
  int64_t middle;

  KERNEL_HOST_DEVICE Pair<T> in(Split<T> z) const {
    const Complex<T> number{z.re[middle], z.im[middle]};
    return {number, number};
  }
  KERNEL_HOST_DEVICE void put_in(Split<T> z, const Pair<T>& value) const {
    z.re[middle] = value.k.re;
    z.im[middle] = value.k.im;
  }
  template <int W>
  KERNEL_HOST_DEVICE void add_inner(PairSum<T, W>& sum, const Pair<T>& x, const Pair<T>& y) const {
    sum.middle = {x.k, y.k};
  }
};

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

// The spectra of half-length transforms, as engine.h asks for.
template <typename T, int W>
struct PairSpectra {
  using Operand = Split<T>;
  using InnerSum = PairSum<T, W>;
  using Sum = T;

  const FftPlan<T>& plan;

  KERNEL_HOST_DEVICE int64_t points() const {
    return plan.size;
  }
  KERNEL_HOST_DEVICE int64_t numbers() const {
    return plan.size + 1;
  }
  template <typename Visit>
  KERNEL_HOST_DEVICE void for_points(const Visit& visit) const {
    // Copies, which no store can change: they stay in registers.
    const int64_t points = plan.size;
    const T* const re = plan.coupling_re;
    const T* const im = plan.coupling_im;
    using V = Simd<T, W>;
    for (int64_t k = whole_blocks<W>(points) - W; k > 0; k -= W) {
      visit(PairBlock<T, W>{{{V::load(re + k), V::load(im + k)}}, points, k});
    }
    visit(FirstPairBlock<T, W>{{{{V::load(re), V::load(im)}}, points, 0}});
    visit(MiddlePair<T>{{{T{0}, T{0}}}, points / 2});
    for (int64_t k = whole_blocks<W>(points); k < points / 2; ++k) {
      visit(SinglePair<T>{{{re[k], im[k]}}, points, k});
    }
  }
  T squared(Operand z) const {
    return squared_norm<T, W>(plan, z);
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
