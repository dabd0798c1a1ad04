// Half-length real transforms: a Stockham complex FFT in split layout, vectorised inside one row.
//
// One pass of radix R over n = R m points at stride s:  y[q + s(R p + k)] = w_n^{pk} sum_j w_R^{jk} x[q + s(p + m j)],
// q < s, p < m, w_n = e^{-2 pi i/n}. The inverse (unscaled) swaps real and imaginary parts on the way in and out.
#pragma once

#include "kernels/fft_plan.h"
#include "kernels/simd.h"

namespace torch_hrr::kernels {
HRR_ISA_BEGIN

template <typename T, int W>
using ComplexLanes = Complex<Simd<T, W>>;

template <typename T>
struct Split {
  T* re;
  T* im;
};

template <typename C>
HRR_HOST_DEVICE C add(C a, C b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename C>
HRR_HOST_DEVICE C subtract(C a, C b) {
  return {a.re - b.re, a.im - b.im};
}
// a - i b and a + i b
template <typename C>
HRR_HOST_DEVICE C subtract_i(C a, C b) {
  return {a.re + b.im, a.im - b.re};
}
template <typename C>
HRR_HOST_DEVICE C add_i(C a, C b) {
  return {a.re - b.im, a.im + b.re};
}

template <typename C>
HRR_HOST_DEVICE void butterfly4(C& x0, C& x1, C& x2, C& x3) {
  const C t0 = add(x0, x2);
  const C t1 = subtract(x0, x2);
  const C t2 = add(x1, x3);
  const C t3 = subtract(x1, x3);
  x0 = add(t0, t2);
  x1 = subtract_i(t1, t3);
  x2 = subtract(t0, t2);
  x3 = add_i(t1, t3);
}

template <typename T, int W>
HRR_HOST_DEVICE void butterfly8(ComplexLanes<T, W> (&x)[8]) {
  using C = ComplexLanes<T, W>;
  using V = Simd<T, W>;
  butterfly4(x[0], x[2], x[4], x[6]);
  butterfly4(x[1], x[3], x[5], x[7]);
  const V half = V::broadcast(static_cast<T>(0.70710678118654752440));
  // w_8 o = (o.re + o.im, o.im - o.re)/sqrt 2 and w_8^3 o = (o.im - o.re, -o.re - o.im)/sqrt 2
  const C o1{x[3].re + x[3].im, x[3].im - x[3].re};
  const C o3{x[7].im - x[7].re, x[7].re + x[7].im};
  const C e0 = x[0];
  const C e1 = x[2];
  const C e2 = x[4];
  const C e3 = x[6];
  const C o0 = x[1];
  const C o2 = x[5];
  x[0] = add(e0, o0);
  x[4] = subtract(e0, o0);
  x[1] = {multiply_add(o1.re, half, e1.re), multiply_add(o1.im, half, e1.im)};
  x[5] = {multiply_add(-o1.re, half, e1.re), multiply_add(-o1.im, half, e1.im)};
  x[2] = subtract_i(e2, o2);
  x[6] = add_i(e2, o2);
  x[3] = {multiply_add(o3.re, half, e3.re), multiply_add(-o3.im, half, e3.im)};
  x[7] = {multiply_add(-o3.re, half, e3.re), multiply_add(o3.im, half, e3.im)};
}

// x <- w_8 x and x <- w_8^3 x
template <typename T, int W>
HRR_HOST_DEVICE void turn_eighth(ComplexLanes<T, W>& x) {
  const Simd<T, W> half = Simd<T, W>::broadcast(static_cast<T>(0.70710678118654752440));
  x = {(x.re + x.im) * half, (x.im - x.re) * half};
}
template <typename T, int W>
HRR_HOST_DEVICE void turn_three_eighths(ComplexLanes<T, W>& x) {
  const Simd<T, W> half = Simd<T, W>::broadcast(static_cast<T>(0.70710678118654752440));
  x = {(x.im - x.re) * half, (x.re + x.im) * -half};
}
template <typename T, int W>
HRR_HOST_DEVICE void turn(ComplexLanes<T, W>& x, double re, double im) {
  using V = Simd<T, W>;
  x = multiply(x, ComplexLanes<T, W>{V::broadcast(static_cast<T>(re)), V::broadcast(static_cast<T>(im))});
}

// 16 = 4 x 4: four transforms over j, j+4, j+8, j+12, twiddles w_16^{jk}, four transforms over j.
template <typename T, int W>
HRR_HOST_DEVICE void butterfly16(ComplexLanes<T, W> (&x)[16]) {
  constexpr double kCos = 0.92387953251128675613;
  constexpr double kSin = 0.38268343236508977173;
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    butterfly4(x[j], x[j + 4], x[j + 8], x[j + 12]);
  }
  turn(x[5], kCos, -kSin); // w^1
  turn_eighth(x[9]); // w^2
  turn(x[13], kSin, -kCos); // w^3
  turn_eighth(x[6]); // w^2
  x[10] = {x[10].im, -x[10].re}; // w^4
  turn_three_eighths(x[14]); // w^6
  turn(x[7], kSin, -kCos); // w^3
  turn_three_eighths(x[11]); // w^6
  turn(x[15], -kCos, kSin); // w^9
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    butterfly4(x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3]);
  }
  // Output k + 4 j stands at 4 k + j.
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
#pragma GCC unroll 4
    for (int j = k + 1; j < 4; ++j) {
      const ComplexLanes<T, W> swapped = x[4 * k + j];
      x[4 * k + j] = x[k + 4 * j];
      x[k + 4 * j] = swapped;
    }
  }
}

template <int R, typename T, int W>
HRR_HOST_DEVICE void butterfly(ComplexLanes<T, W> (&x)[R]) {
  if constexpr (R == 4) {
    butterfly4(x[0], x[1], x[2], x[3]);
  } else if constexpr (R == 8) {
    butterfly8<T, W>(x);
  } else {
    static_assert(R == 16);
    butterfly16<T, W>(x);
  }
}

// Where a pass reads and writes: complex numbers in split arrays, or a real row of even and odd samples. The inverse
// reads with the parts exchanged (a Split of swapped pointers) and stores through SwappedRow.
template <typename T, int W>
struct FromSplit {
  Split<const T> data;
  HRR_HOST_DEVICE ComplexLanes<T, W> operator()(int64_t index) const {
    return {Simd<T, W>::load(data.re + index), Simd<T, W>::load(data.im + index)};
  }
};
template <typename T, int W>
struct FromRow {
  const T* row;
  HRR_HOST_DEVICE ComplexLanes<T, W> operator()(int64_t index) const {
    const Simd<T, W> low = Simd<T, W>::load(row + 2 * index);
    const Simd<T, W> high = Simd<T, W>::load(row + 2 * index + W);
    return {shuffle<EvenLanes>(low, high), shuffle<OddLanes>(low, high)};
  }
};
template <typename T, int W>
struct ToSplit {
  Split<T> data;
  HRR_HOST_DEVICE void operator()(int64_t index, ComplexLanes<T, W> value) const {
    value.re.store(data.re + index);
    value.im.store(data.im + index);
  }
};
template <typename T, int W>
struct ToSwappedRow {
  T* row;
  Simd<T, W> scale;
  HRR_HOST_DEVICE void operator()(int64_t index, ComplexLanes<T, W> value) const {
    const Simd<T, W> even = value.im * scale;
    const Simd<T, W> odd = value.re * scale;
    shuffle<InterleaveLow>(even, odd).store(row + 2 * index);
    shuffle<InterleaveHigh>(even, odd).store(row + 2 * index + W);
  }
};

template <typename T, int W, typename Source>
void first_pass(const FftPlan<T>& plan, const Source& source, Split<T> target) {
  using V = Simd<T, W>;
  const int64_t columns = plan.size / W;
  const T* twiddles = plan.twiddles[0];
  for (int64_t p = 0; p < columns; p += W) {
    ComplexLanes<T, W> x[W];
#pragma GCC unroll 16
    for (int j = 0; j < W; ++j) {
      x[j] = source(p + columns * j);
    }
    butterfly<W, T, W>(x);
    V re[W];
    V im[W];
    re[0] = x[0].re;
    im[0] = x[0].im;
#pragma GCC unroll 16
    for (int k = 1; k < W; ++k) {
      const ComplexLanes<T, W> turned =
          multiply(x[k], ComplexLanes<T, W>{V::load(twiddles), V::load(twiddles + W)});
      twiddles += 2 * W;
      re[k] = turned.re;
      im[k] = turned.im;
    }
    transpose<T, W>(re);
    transpose<T, W>(im);
#pragma GCC unroll 16
    for (int j = 0; j < W; ++j) {
      re[j].store(target.re + (p + j) * W);
      im[j].store(target.im + (p + j) * W);
    }
  }
}

template <int R, bool kLast, typename T, int W, typename Target>
void later_pass(const T* twiddles, int64_t size, int64_t stride, Split<const T> source,
                                const Target& target) {
  using V = Simd<T, W>;
  const int64_t columns = kLast ? 1 : size / (stride * R);
  const int64_t step = size / R;
  const FromSplit<T, W> load{source};
  for (int64_t p = 0; p < columns; ++p) {
    for (int64_t q = 0; q < stride; q += W) {
      ComplexLanes<T, W> x[R];
#pragma GCC unroll 16
      for (int j = 0; j < R; ++j) {
        x[j] = load(q + stride * p + step * j);
      }
      butterfly<R, T, W>(x);
      target(q + stride * R * p, x[0]);
#pragma GCC unroll 16
      for (int k = 1; k < R; ++k) {
        if constexpr (kLast) {
          target(q + stride * k, x[k]);
        } else {
          target(q + stride * (R * p + k),
                 multiply(x[k], ComplexLanes<T, W>{V::broadcast(twiddles[2 * k - 2]), V::broadcast(twiddles[2 * k - 1])}));
        }
      }
    }
    twiddles += 2 * (R - 1);
  }
}

template <bool kLast, typename T, int W, typename Target>
void dispatch_pass(const FftPlan<T>& plan, int pass, int64_t stride, Split<const T> source,
                                   const Target& target) {
  const T* twiddles = plan.twiddles[pass];
  switch (plan.radix[pass]) {
    case 4:
      return later_pass<4, kLast, T, W>(twiddles, plan.size, stride, source, target);
    case 8:
      return later_pass<8, kLast, T, W>(twiddles, plan.size, stride, source, target);
    default:
      return later_pass<16, kLast, T, W>(twiddles, plan.size, stride, source, target);
  }
}

// Transforms source through the work arrays into target; target may be written over work[0] or work[1] only if it is
// not the array that the last pass reads: with an even number of passes that is work[0], with an odd one work[1].
template <typename T, int W, typename Source, typename Target>
void transform(const FftPlan<T>& plan, const Source& source, const Split<T> (&work)[2],
                               const Target& target) {
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

HRR_ISA_END
} // namespace torch_hrr::kernels
