// A row's own bins A_k, k = 0 .. M, in the registers that held its half-length spectrum, and back; see bin_pairs.h.
//
// Slot i of the spectrum layout of fft.cuh holds A_k in place of Z_k for the same k. The two real bins share bin 0's
// slot: A_0 + i A_M.
#pragma once

#include "kernels/hrr/bin_pairs.h"
#include "kernels/hrr/row_io.cuh"
#include "kernels/math.h"

namespace torch_hrr::kernels {

// w e^{-i pi / 4}
KERNEL_DEVICE Complex<double> eighth_turned(Complex<double> w) {
  constexpr double kHalfRoot = 0.70710678118654752440;
  return {(w.re + w.im) * kHalfRoot, (w.im - w.re) * kHalfRoot};
}

template <typename T>
KERNEL_DEVICE Complex<T> narrowed(Complex<double> w) {
  return {static_cast<T>(w.re), static_cast<T>(w.im)};
}

// visit(bin, mirror, w) for the slots of every pair (k, M-k) of this thread but the pairs of one bin, 0 and M/2;
// w = e^{-2 pi i k / 2M}. Within a slot array k advances by quarter turns of the transform, eighths of w's.
template <typename T, int kLog2, typename Visit>
KERNEL_DEVICE void for_each_bin_pair(const RowFft<T, kLog2>& fft, Visit& visit) {
  const int k = fft.thread != 0 ? fft.thread : RowFft<T, kLog2>::kPoints / 8;
  const SineCosine<double> root = sine_cosine_pi(static_cast<double>(k) / RowFft<T, kLog2>::kPoints);
  const Complex<double> w{root.cosine, -root.sine};
  const Complex<double> turned = eighth_turned(w);
  if (fft.thread != 0) {
    visit(0, 7, narrowed<T>(w));
    visit(1, 6, narrowed<T>(turned));
    visit(2, 5, narrowed<T>({w.im, -w.re}));
    visit(3, 4, narrowed<T>({turned.im, -turned.re}));
  } else {
    visit(1, 3, narrowed<T>(eighth_turned({1, 0})));
    visit(4, 7, narrowed<T>(w));
    visit(5, 6, narrowed<T>(turned));
  }
}

template <typename T>
struct SplitPairs {
  Complex<T> (&v)[kPointsPerThread];

  KERNEL_DEVICE void operator()(int k, int mirror, Complex<T> w) const {
    const Pair<T> bins = bins_of_pair<T>({v[k], v[mirror]}, w, static_cast<T>(0.5));
    v[k] = bins.k;
    v[mirror] = bins.mirror;
  }
};

template <typename T>
struct MergePairs {
  Complex<T> (&v)[kPointsPerThread];

  KERNEL_DEVICE void operator()(int k, int mirror, Complex<T> w) const {
    const Pair<T> points = pair_of_bins<T>({v[k], v[mirror]}, w, static_cast<T>(0.5));
    v[k] = points.k;
    v[mirror] = points.mirror;
  }
};

// Z becomes A.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void split_bins(const RowFft<T, kLog2>& fft, Complex<T> (&v)[kPointsPerThread]) {
  SplitPairs<T> visit{v};
  for_each_bin_pair(fft, visit);
  if (fft.thread == 0) {
    v[0] = {v[0].re + v[0].im, v[0].re - v[0].im};
    v[2].im = -v[2].im;
  }
}

// The inverse.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void merge_bins(const RowFft<T, kLog2>& fft, Complex<T> (&v)[kPointsPerThread]) {
  constexpr T kHalf = static_cast<T>(0.5);
  MergePairs<T> visit{v};
  for_each_bin_pair(fft, visit);
  if (fft.thread == 0) {
    v[0] = {(v[0].re + v[0].im) * kHalf, (v[0].re - v[0].im) * kHalf};
    v[2].im = -v[2].im;
  }
}

}  // namespace torch_hrr::kernels
