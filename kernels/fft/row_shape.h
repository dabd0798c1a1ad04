// How the CPU transforms a real row: decided by its length alone, so that a row's bits do not depend on its batch.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace torch_hrr::kernels {

enum class RowTransform : int32_t {
  kNone,
  kPairs,   // as half as many complex numbers: fft.h
  kMatrix,  // as a matrix with an odd number of rows: matrix_transform.h
};

// Beyond this length no row is transformed: the bits of the CPU's library FFT depend on the number of threads.
constexpr int64_t kMaxRowTransform = int64_t{1} << 20;

// The largest prime radix of a pass, side by side, and the largest radix with a butterfly of its own.
constexpr int kMaxPrimeRadix = 31;
constexpr int kMaxButterfly = 16;

// Whether n > 0 has no prime factor above `largest`, which is at most kMaxPrimeRadix.
constexpr bool is_smooth(int64_t n, int64_t largest = 13) {
  for (const int64_t prime : {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31}) {
    for (; prime <= largest && n % prime == 0; n /= prime) {
    }
  }
  return n == 1;
}

// For rows of more than 16 numbers without prime factors above 13: kPairs for multiples of 16, kMatrix where
// matrix_rows finds rows. A row that both can take goes the faster way.
RowTransform row_transform(int64_t n);

// The rows of the matrix: an odd divisor of n from 3 to 49, with at least 4 columns and no prime factor above 13 in
// their number; 0 if there is none. Of several, the one whose bins fill vectors of at most max_width lanes best.
int64_t matrix_rows(int64_t n, int max_width);

// The length, for kPairs, to which rows of `dim` elements are padded for their linear convolution: the cheapest from
// 2 dim - 1 on.
int64_t padded_row_length(int64_t dim);

// The points, from `least` on, of the complex transforms by which Bluestein's sum (chirp_plan.h) goes.
int64_t chirp_length(int64_t least);

// The radices of the passes over n points after each other, n without prime factors above kMaxPrimeRadix: few,
// and as even as possible. Returns how many there are.
constexpr int kMaxFftPasses = 16;
int choose_radices(int64_t n, int* radix);

}  // namespace torch_hrr::kernels
