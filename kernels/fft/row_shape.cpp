// The decisions of row_shape.h.
#include "kernels/fft/row_shape.h"

#include <array>

namespace torch_hrr::kernels {
namespace {

// Numbers of rows of a matrix, the best first: the more of a vector's lanes the bins of a column fill, the better.
// Vectors of 16 hold 13, 14 or 11 bins, those of 8 hold 8, 7, 6 or 5, those of 4 hold 4, 3 or 2. Where none has more
// than 8 lanes, 15 rows fill theirs and 13 all but one: a row takes 10 to 20 % less time than with the 13 bins of 25.
// The 25 bins of 49 rows fill 25 of 32 lanes: without them a row of 2^m 7^2 would have 4 lanes. 35 rows are for 560
// numbers, side by side (matrix_lanes.h): by their half length they would take a third more time.
constexpr int kRowsOfWide[] = {25, 27, 21, 15, 13, 11, 49, 35, 9, 7, 5, 3};
constexpr int kRowsOfNarrow[] = {15, 13, 25, 27, 21, 11, 49, 35, 9, 7, 5, 3};

constexpr int kPrimes[] = {31, 29, 23, 19, 17, 13, 11, 7, 5, 3};

// The least multiple of a power of two, from `least` on, without prime factors above 5: those passes are the fastest.
int64_t smooth_multiple(int64_t step, int64_t least) {
  int64_t length = least < step ? step : (least + step - 1) / step * step;
  while (!is_smooth(length, 5)) {
    length += step;
  }
  return length;
}

constexpr int64_t found_rows(int64_t n, bool wide) {
  for (const int rows : wide ? kRowsOfWide : kRowsOfNarrow) {
    if (n % rows == 0 && n / rows >= 4 && is_smooth(n / rows)) {
      return rows;
    }
  }
  return 0;
}

constexpr RowTransform found_transform(int64_t n) {
  if (n <= 16 || n > kMaxRowTransform || !is_smooth(n)) {
    return RowTransform::kNone;
  }
  // Whether there are 9 rows or more does not depend on the width.
  const int64_t rows = found_rows(n, true);
  // Vectors of 16, or of 8, go into the half length.
  if ((n % 32 == 0 && n >= 416) || (n % 16 == 0 && rows < 9)) {
    return RowTransform::kPairs;
  }
  return rows > 0 ? RowTransform::kMatrix : RowTransform::kNone;
}

// A call asks once or twice, and the divisions would take a good part of the time of a short row.
constexpr int64_t kTabled = 2112;

struct Shape {
  RowTransform transform = RowTransform::kNone;
  int8_t rows_of_wide = 0;
  int8_t rows_of_narrow = 0;
};
constexpr auto kShapes = [] {
  std::array<Shape, kTabled> shapes{};
  for (int64_t n = 1; n < kTabled; ++n) {
    shapes[n] = {found_transform(n), static_cast<int8_t>(found_rows(n, true)),
                 static_cast<int8_t>(found_rows(n, false))};
  }
  return shapes;
}();
bool is_tabled(int64_t n) {
  return n >= 0 && n < kTabled;
}

}  // namespace

int choose_radices(int64_t n, int* radix) {
  int count = 0;
  for (const int prime : kPrimes) {
    for (; n % prime == 0; n /= prime) {
      radix[count++] = prime;
    }
  }
  int log2_rest = 0;
  while ((int64_t{1} << log2_rest) < n) {
    ++log2_rest;
  }
  for (int left = (log2_rest + 3) / 4; left > 0; --left) {
    const int bits = (log2_rest + left - 1) / left;
    radix[count++] = 1 << bits;
    log2_rest -= bits;
  }
  return count;
}

int64_t matrix_rows(int64_t n, int max_width) {
  if (is_tabled(n)) {
    return max_width >= 16 ? kShapes[n].rows_of_wide : kShapes[n].rows_of_narrow;
  }
  return found_rows(n, max_width >= 16);
}

RowTransform row_transform(int64_t n) {
  return is_tabled(n) ? kShapes[n].transform : found_transform(n);
}

int64_t padded_row_length(int64_t dim) {
  const int64_t least = 2 * dim - 1;
  return smooth_multiple(least <= 256 ? 32 : least <= 4096 ? 64 : 512, least);
}

int64_t chirp_length(int64_t least) {
  return smooth_multiple(least <= 8192 ? 16 : 512, least);
}

}  // namespace torch_hrr::kernels
