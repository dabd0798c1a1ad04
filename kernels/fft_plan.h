// The passes and twiddle factors of one transform length: computed once in double, immutable, shared by every thread.
#pragma once

#include <cstdint>

namespace torch_hrr::kernels {

constexpr int kMaxFftPasses = 6;
constexpr int kMaxFftLog2 = 13;

// A Stockham transform of `size` complex points on vectors of `width` lanes. The first pass has radix `width`, so that
// its output transposes in registers and every later pass runs over whole vectors.
template <typename T>
struct FftPlan {
  int64_t size = 0;
  int width = 0;
  int passes = 0;
  int radix[kMaxFftPasses] = {};
  // First pass: for each block of `width` indices p, radix-1 pairs of vectors (re, im) of e^{-2 pi i p k / size}.
  // Later passes: for each p, radix-1 pairs of numbers. The last pass needs none.
  const T* twiddles[kMaxFftPasses] = {};
  // u_k = (1 + e^{-2 pi i k / size}) / 4 for k < size / 2: the coupling of a pair (k, size - k) of a real row.
  const T* coupling_re = nullptr;
  const T* coupling_im = nullptr;
};

// The plan for 2^log2_size points on the widest vectors of at most max_width lanes that it can fill twice over
// (width^2 <= size). log2_size is at least 4 and at most kMaxFftLog2. Thread-safe; plans live until the process ends.
template <typename T>
const FftPlan<T>& fft_plan(int log2_size, int max_width);

// Lanes used for that plan.
constexpr int fft_width(int64_t size, int max_width) {
  int width = max_width;
  while (int64_t{width} * width > size) {
    width /= 2;
  }
  return width;
}

} // namespace torch_hrr::kernels
