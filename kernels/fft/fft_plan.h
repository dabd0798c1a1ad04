// The passes and twiddle factors of one transform length: computed once in double, immutable, shared by every thread.
#pragma once

#include <cstdint>

#include "kernels/fft/row_shape.h"

namespace torch_hrr::kernels {

// What lies between the M = `size` points of a real row's half-length spectrum and the row's own bins.
template <typename T>
struct HalfRow {
  int64_t size = 0;
  // e^{-2 pi i k / (2 size)} for k < size / 2
  const T* half_root_re = nullptr;
  const T* half_root_im = nullptr;
};

// A Stockham transform of `size` complex points on vectors of `width` lanes. The first pass has radix `width`, so that
// its output transposes in registers and every later pass runs over whole vectors.
template <typename T>
struct FftPlan : HalfRow<T> {
  int width = 0;
  int passes = 0;
  int radix[kMaxFftPasses] = {};
  // First pass: for each block of `width` indices p, radix-1 pairs of vectors (re, im) of e^{-2 pi i p k / size}; where
  // width does not divide size / width, the last block overlaps the one before, or lanes behind the columns are unused.
  // Later passes: for each p, radix-1 pairs of numbers. The last pass needs none.
  const T* twiddles[kMaxFftPasses] = {};
  // u_k = (1 + e^{-2 pi i k / size}) / 4 for k < size / 2: the coupling of a pair (k, size - k) of a real row.
  const T* coupling_re = nullptr;
  const T* coupling_im = nullptr;
};

// Lanes for that many points: the widest vectors of at most max_width lanes that divide the points and that the first
// pass fills with its columns, or nearly so: 12 columns in 16 lanes take less time than vectors of 8.
constexpr int fft_width(int64_t size, int max_width) {
  int width = max_width;
  while (width > 4 && (size / width < (width == 16 ? 12 : width) || size % width != 0)) {
    width /= 2;
  }
  return width;
}

// The plan for `size` points: a multiple of 4 from 16 to 2^20 with no prime factor above 13. Thread-safe; plans live
// until the process ends.
template <typename T>
const FftPlan<T>& fft_plan(int64_t size, int max_width);

}  // namespace torch_hrr::kernels
