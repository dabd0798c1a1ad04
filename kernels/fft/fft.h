// Half-length real transforms: a Stockham complex FFT in split layout, vectorised inside one row.
//
// One pass of radix R over n = R m points at stride s:  y[q + s(R p + k)] = w_n^{pk} sum_j w_R^{jk} x[q + s(p + m j)],
// q < s, p < m, w_n = e^{-2 pi i/n}. The inverse (unscaled) swaps real and imaginary parts on the way in and out.
#pragma once

#include <type_traits>

#include "kernels/fft/fft_plan.h"
#include "kernels/fft/odd_transforms.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Lanes of the widest vectors, at least 4.
template <typename T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T)) < 4 ? 4 : kVectorBytes / static_cast<int>(sizeof(T));

template <typename T>
struct Split {
  T* re;
  T* im;
};

// body(std::integral_constant) for the width of vectors, of those that T has and that kMost allows
template <typename T, int kMost, typename Body>
void with_width(int width, const Body& body) {
  constexpr int kWidest = kVectorBytes / static_cast<int>(sizeof(T));
  if constexpr (kWidest >= 16 && kMost > 8) {
    if (width == 16) {
      return body(std::integral_constant<int, 16>());
    }
  }
  if constexpr (kWidest >= 8 && kMost > 4) {
    if (width == 8) {
      return body(std::integral_constant<int, 8>());
    }
  }
  body(std::integral_constant<int, 4>());
}

// Where a pass reads and writes: complex numbers in split arrays, or a real row of even and odd samples. The inverse
// reads with the parts exchanged (a Split of swapped pointers) and stores through SwappedRow.
template <typename T, int W>
struct FromSplit {
  Split<const T> data;
  KERNEL_HOST_DEVICE ComplexLanes<T, W> operator()(int64_t index) const {
    return {Simd<T, W>::load(data.re + index), Simd<T, W>::load(data.im + index)};
  }
};
template <typename T, int W>
struct FromRow {
  const T* row;
  KERNEL_HOST_DEVICE ComplexLanes<T, W> operator()(int64_t index) const {
    const Simd<T, W> low = Simd<T, W>::load(row + 2 * index);
    const Simd<T, W> high = Simd<T, W>::load(row + 2 * index + W);
    return {shuffle<EvenLanes>(low, high), shuffle<OddLanes>(low, high)};
  }
  KERNEL_HOST_DEVICE void prefetch(int64_t index) const {
    __builtin_prefetch(row + 2 * index, 0, 3);
    __builtin_prefetch(row + 2 * index + W, 0, 3);
  }
};
template <typename T, int W>
struct ToSplit {
  Split<T> data;
  KERNEL_HOST_DEVICE void operator()(int64_t index, ComplexLanes<T, W> value) const {
    value.re.store(data.re + index);
    value.im.store(data.im + index);
  }
};
template <typename T, int W>
struct ToSwappedRow {
  T* row;
  Simd<T, W> scale;
  KERNEL_HOST_DEVICE void operator()(int64_t index, ComplexLanes<T, W> value) const {
    const Simd<T, W> even = value.im * scale;
    const Simd<T, W> odd = value.re * scale;
    shuffle<InterleaveLow>(even, odd).store(row + 2 * index);
    shuffle<InterleaveHigh>(even, odd).store(row + 2 * index + W);
  }
};

// One block of W columns of the first pass: butterflies, twiddles, and the transposition that puts each column's W
// outputs side by side. Outputs leave the second half of a radix-16 butterfly in groups k, k+4, k+8, k+12, which are
// the partners of the two widest exchanges: shuffled at once, they run beside the arithmetic of the next group.
template <typename T, int W, typename Load>
KERNEL_HOST_DEVICE void first_pass_block(const Load& load, const T* twiddles, Simd<T, W> (&re)[W],
                                         Simd<T, W> (&im)[W]) {
  using V = Simd<T, W>;
  ComplexLanes<T, W> x[W];
  const auto turned = [&](int k, ComplexLanes<T, W> value) {
    const T* factor = twiddles + 2 * W * (k - 1);
    return k == 0 ? value : multiply(value, ComplexLanes<T, W>{V::load(factor), V::load(factor + W)});
  };
  if constexpr (W == 16) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
      for (int m = 0; m < 4; ++m) {
        x[j + 4 * m] = load(j + 4 * m);
      }
      butterfly4(x[j], x[j + 4], x[j + 8], x[j + 12]);
    }
    turn_inside_butterfly16<T, W>(x);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      butterfly4(x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3]);
#pragma GCC unroll 4
      for (int m = 0; m < 4; ++m) {
        const ComplexLanes<T, W> value = turned(k + 4 * m, x[4 * k + m]);
        re[k + 4 * m] = value.re;
        im[k + 4 * m] = value.im;
      }
      exchange_blocks<8>(re[k], re[k + 8]);
      exchange_blocks<8>(re[k + 4], re[k + 12]);
      exchange_blocks<4>(re[k], re[k + 4]);
      exchange_blocks<4>(re[k + 8], re[k + 12]);
      exchange_blocks<8>(im[k], im[k + 8]);
      exchange_blocks<8>(im[k + 4], im[k + 12]);
      exchange_blocks<4>(im[k], im[k + 4]);
      exchange_blocks<4>(im[k + 8], im[k + 12]);
    }
    transpose_blocks<2>(re);
    transpose_blocks<1>(re);
    transpose_blocks<2>(im);
    transpose_blocks<1>(im);
  } else {
#pragma GCC unroll 16
    for (int j = 0; j < W; ++j) {
      x[j] = load(j);
    }
    butterfly<W, T, W>(x);
#pragma GCC unroll 16
    for (int k = 0; k < W; ++k) {
      const ComplexLanes<T, W> value = turned(k, x[k]);
      re[k] = value.re;
      im[k] = value.im;
    }
    transpose<T, W>(re);
    transpose<T, W>(im);
  }
}

#if defined(__AVX512F__)
// Lane n of the result is lane n + shift.
KERNEL_HOST_DEVICE Simd<float, 16> moved_down(Simd<float, 16> a, int64_t shift) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i from = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(shift)));
  return {(Simd<float, 16>::Lanes)_mm512_maskz_permutexvar_ps(0xffff, from, (__m512)a.lanes)};
}
#endif

template <typename T, int W, typename Source>
void first_pass(const FftPlan<T>& plan, const Source& source, Split<T> target) {
  const int64_t columns = plan.size / W;
  const T* twiddles = plan.twiddles[0];
  for (int64_t start = 0; start < columns; start += W) {
    // The last block may repeat columns of the one before: the same numbers at the same places.
    const int64_t p = start + W <= columns ? start : columns < W ? 0 : columns - W;
    Simd<T, W> re[W];
    Simd<T, W> im[W];
    // The next block's columns, or those of the first block of the row behind this one: otherwise the butterfly waits
    // for its operands.
    const int64_t ahead = start + W < columns ? W : plan.size - p;
    const auto load = [&](int64_t j) {
      if constexpr (std::is_same_v<Source, FromRow<T, W>>) {
        source.prefetch(p + columns * j + ahead);
      }
      if constexpr (W == 16) {
        // Nothing is read behind the row.
        if (j == W - 1 && columns < W) {
          const ComplexLanes<T, W> end = source(plan.size - W);
          return ComplexLanes<T, W>{moved_down(end.re, W - columns), moved_down(end.im, W - columns)};
        }
      }
      return source(p + columns * j);
    };
    first_pass_block<T, W>(load, twiddles, re, im);
    twiddles += 2 * W * (W - 1);
#pragma GCC unroll 16
    for (int j = 0; j < W; ++j) {
      if (W < 16 || j < columns) {
        re[j].store(target.re + (p + j) * W);
        im[j].store(target.im + (p + j) * W);
      }
    }
  }
}

template <int R, bool kLast, typename T, int W, typename Target>
void later_pass(const T* twiddles, int64_t size, int64_t stride, Split<const T> source, const Target& target) {
  using V = Simd<T, W>;
  const int64_t columns = kLast ? 1 : size / (stride * R);
  const int64_t step = size / R;
  const FromSplit<T, W> load{source};
  // A copy, which no store can change: it stays in registers.
  const Target store = target;
  for (int64_t p = 0; p < columns; ++p) {
    for (int64_t q = 0; q < stride; q += W) {
      ComplexLanes<T, W> x[R];
#pragma GCC unroll 16
      for (int j = 0; j < R; ++j) {
        x[j] = load(q + stride * p + step * j);
      }
      butterfly<R, T, W>(x);
      store(q + stride * R * p, x[0]);
#pragma GCC unroll 16
      for (int k = 1; k < R; ++k) {
        if constexpr (kLast) {
          store(q + stride * k, x[k]);
        } else {
          const ComplexLanes<T, W> twiddle{V::broadcast(twiddles[2 * k - 2]), V::broadcast(twiddles[2 * k - 1])};
          store(q + stride * (R * p + k), multiply(x[k], twiddle));
        }
      }
    }
    if constexpr (!kLast) {
      twiddles += 2 * (R - 1);
    }
  }
}

template <bool kLast, typename T, int W, typename Plan, typename Target>
void dispatch_pass(const Plan& plan, int pass, int64_t stride, Split<const T> source, const Target& target) {
  const T* twiddles = plan.twiddles[pass];
  switch (plan.radix[pass]) {
    case 2:
      return later_pass<2, kLast, T, W>(twiddles, plan.size, stride, source, target);
    case 3:
      return later_pass<3, kLast, T, W>(twiddles, plan.size, stride, source, target);
    case 5:
      return later_pass<5, kLast, T, W>(twiddles, plan.size, stride, source, target);
    case 7:
      return later_pass<7, kLast, T, W>(twiddles, plan.size, stride, source, target);
    case 11:
      return later_pass<11, kLast, T, W>(twiddles, plan.size, stride, source, target);
    case 13:
      return later_pass<13, kLast, T, W>(twiddles, plan.size, stride, source, target);
    case 4:
      return later_pass<4, kLast, T, W>(twiddles, plan.size, stride, source, target);
    case 8:
      return later_pass<8, kLast, T, W>(twiddles, plan.size, stride, source, target);
    case 16:
      return later_pass<16, kLast, T, W>(twiddles, plan.size, stride, source, target);
    default:
      __builtin_trap();
  }
}

// Transforms source through the work arrays into target; target may be written over work[0] or work[1] only if it is
// not the array that the last pass reads: with an even number of passes that is work[0], with an odd one work[1].
template <typename T, int W, typename Source, typename Target>
void transform(const FftPlan<T>& plan, const Source& source, const Split<T> (&work)[2], const Target& target) {
  first_pass<T, W>(plan, source, work[0]);
  int64_t stride = W;
  int from = 0;
  for (int pass = 1; pass + 1 < plan.passes; ++pass) {
    dispatch_pass<false, T, W>(plan, pass, stride, Split<const T>{work[from].re, work[from].im},
                               ToSplit<T, W>{work[1 - from]});
    stride *= plan.radix[pass];
    from = 1 - from;
  }
  dispatch_pass<true, T, W>(plan, plan.passes - 1, stride, Split<const T>{work[from].re, work[from].im}, target);
}

// butterfly_prime for a radix R that is known at run time: with w_R^m = c_m - i s_m,
//   y_k, y_{R-k} = x_0 + sum_{0<j<R/2} c_{jk} (x_j + x_{R-j}) -/+ i sum_{0<j<R/2} s_{jk} (x_j - x_{R-j}).
// The roots stand before the twiddles.
template <bool kLast, typename T, int W>
void prime_pass(const T* roots, int radix, int64_t size, int64_t stride, Split<const T> source, Split<T> result) {
  using V = Simd<T, W>;
  using C = ComplexLanes<T, W>;
  constexpr int kMaxHalf = (kMaxPrimeRadix - 1) / 2;
  const int half = (radix - 1) / 2;
  const int64_t columns = kLast ? 1 : size / (stride * radix);
  const int64_t step = size / radix;
  const FromSplit<T, W> load{source};
  const ToSplit<T, W> store{result};
  const auto number = [](const T* pair) { return C{V::broadcast(pair[0]), V::broadcast(pair[1])}; };
  const T* twiddles = roots + 2 * radix;
  for (int64_t p = 0; p < columns; ++p) {
    for (int64_t q = 0; q < stride; q += W) {
      C sum[kMaxHalf];
      C difference[kMaxHalf];
      const C first = load(q + stride * p);
      C total = first;
      for (int j = 1; j <= half; ++j) {
        const C x = load(q + stride * p + step * j);
        const C mirror = load(q + stride * p + step * (radix - j));
        sum[j - 1] = add(x, mirror);
        difference[j - 1] = subtract(x, mirror);
        total = add(total, sum[j - 1]);
      }
      store(q + stride * radix * p, total);
      for (int k = 1; k <= half; ++k) {
        C middle = first;
        C turned{V::broadcast(0), V::broadcast(0)};
        int index = 0;
        for (int j = 0; j < half; ++j) {
          index += k;
          index -= index >= radix ? radix : 0;
          const C root = number(roots + 2 * index);
          middle = {multiply_add(root.re, sum[j].re, middle.re), multiply_add(root.re, sum[j].im, middle.im)};
          turned = {multiply_add(root.im, difference[j].re, turned.re),
                    multiply_add(root.im, difference[j].im, turned.im)};
        }
        const auto put = [&](int bin, C value) {
          if constexpr (!kLast) {
            value = multiply(value, number(twiddles + 2 * bin - 2));
          }
          store(q + stride * (radix * p + bin), value);
        };
        put(k, add_i(middle, turned));
        put(radix - k, subtract_i(middle, turned));
      }
    }
    twiddles += 2 * (radix - 1);
  }
}

// All passes of transforms of `lanes` sequences side by side, back and forth between the arrays but for the last one,
// which goes in place: its butterflies write where they read. Returns which of the two arrays they end in.
template <typename T, int W, typename Plan>
int side_by_side_passes(const Plan& plan, int64_t lanes, const Split<T> (&arrays)[2], int from) {
  int64_t stride = lanes;
  for (int pass = 0; pass < plan.passes; ++pass) {
    const Split<const T> source{arrays[from].re, arrays[from].im};
    const bool last = pass + 1 == plan.passes;
    const int to = last ? from : 1 - from;
    const ToSplit<T, W> target{arrays[to]};
    if (plan.radix[pass] > kMaxButterfly) {
      const auto prime = last ? prime_pass<true, T, W> : prime_pass<false, T, W>;
      prime(plan.twiddles[pass], plan.radix[pass], plan.size, stride, source, arrays[to]);
    } else if (last) {
      dispatch_pass<true, T, W>(plan, pass, stride, source, target);
    } else {
      dispatch_pass<false, T, W>(plan, pass, stride, source, target);
    }
    stride *= plan.radix[pass];
    from = to;
  }
  return from;
}
// The array from which they end in arrays[1].
template <typename Plan>
int array_of_first_pass(const Plan& plan) {
  return plan.passes == 0 ? 1 : plan.passes % 2;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
