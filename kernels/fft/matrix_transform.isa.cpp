// The transforms of matrix_transform.h; compiled once per instruction set.
#include "kernels/fft/matrix_transform.h"

#include "kernels/fft/matrix_rows.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// target <- the transforms of W columns, turned, each column's bins side by side. The real and the imaginary factors of
// a bin are `step` numbers apart. Asks for the line that holds the number `ahead` behind each row of the block.
template <int R, int W, typename T>
KERNEL_HOST_DEVICE void forward_block(const MatrixPlan<T>& plan, const T* row, int64_t column, int64_t ahead,
                                      const T* factors, int64_t step, Split<T> target) {
  using V = Simd<T, W>;
  constexpr int kBins = odd_bins(R);
  constexpr int kGroups = (kBins + W - 1) / W;
  // A copy, which no store can change: it stays in a register.
  const int64_t lanes = plan.lanes;
  V x[R];
#pragma GCC unroll 64
  for (int r = 0; r < R; ++r) {
    const T* const source = row + plan.columns * r + column;
    x[r] = V::load(source);
    __builtin_prefetch(source + ahead, 0, 3);
  }
  ComplexLanes<T, W> y[kBins];
  odd_forward<R, T, W>(x, y);
#pragma GCC unroll 32
  for (int i = 1; i < kBins; ++i) {
    const T* const factor = factors + 2 * step * (i - 1);
    y[i] = multiply(y[i], ComplexLanes<T, W>{V::load(factor), V::load(factor + step)});
  }
  const V zero = V::broadcast(0);
#pragma GCC unroll 8
  for (int group = 0; group < kGroups; ++group) {
    V re[W];
    V im[W];
#pragma GCC unroll 16
    for (int lane = 0; lane < W; ++lane) {
      const int i = group * W + lane;
      re[lane] = i < kBins ? y[i < kBins ? i : 0].re : zero;
      im[lane] = i < kBins ? y[i < kBins ? i : 0].im : zero;
    }
    transpose<T, W>(re);
    transpose<T, W>(im);
#pragma GCC unroll 16
    for (int j = 0; j < W; ++j) {
      const int64_t place = (column + j) * lanes + group * W;
      re[j].store(target.re + place);
      im[j].store(target.im + place);
    }
  }
  for (int64_t lane = kGroups * W; lane < lanes; lane += W) {
    for (int j = 0; j < W; ++j) {
      zero.store(target.re + (column + j) * lanes + lane);
      zero.store(target.im + (column + j) * lanes + lane);
    }
  }
}

// row <- W columns of the inverse transform, times scale
template <int R, int W, typename T>
KERNEL_HOST_DEVICE void inverse_block(const MatrixPlan<T>& plan, Split<const T> source, int64_t column,
                                      const T* factors, int64_t step, T scale, T* row) {
  using V = Simd<T, W>;
  constexpr int kBins = odd_bins(R);
  constexpr int kGroups = (kBins + W - 1) / W;
  ComplexLanes<T, W> y[kBins];
#pragma GCC unroll 8
  for (int group = 0; group < kGroups; ++group) {
    V re[W];
    V im[W];
#pragma GCC unroll 16
    for (int j = 0; j < W; ++j) {
      const int64_t place = (column + j) * plan.lanes + group * W;
      re[j] = V::load(source.re + place);
      im[j] = V::load(source.im + place);
    }
    transpose<T, W>(re);
    transpose<T, W>(im);
#pragma GCC unroll 16
    for (int lane = 0; lane < W; ++lane) {
      if (group * W + lane < kBins) {
        y[group * W + lane] = {re[lane], im[lane]};
      }
    }
  }
#pragma GCC unroll 32
  for (int i = 1; i < kBins; ++i) {
    const T* const factor = factors + 2 * step * (i - 1);
    y[i] = multiply_conjugate(y[i], ComplexLanes<T, W>{V::load(factor), V::load(factor + step)});
  }
  V x[R];
  odd_inverse<R, T, W>(y, x);
  const int64_t columns = plan.columns;
#pragma GCC unroll 64
  for (int r = 0; r < R; ++r) {
    (x[r] * V::broadcast(scale)).store(row + columns * r + column);
  }
}

// block(width, column, factors, step) for all columns, `width` at a time: a number known at compile time.
template <int R, int W, typename T, typename Block>
void for_blocks(const MatrixPlan<T>& plan, const Block& block) {
  const T* turns = plan.turns;
  for (int64_t start = 0; start < plan.columns; start += W) {
    // Processors have fewer ports for vectors of 16 floats than for those of 8, which take half a block: its factors
    // are the upper halves of those of a whole one.
    if constexpr (W == 16) {
      if (plan.columns - start <= W / 2) {
        return block(std::integral_constant<int, W / 2>(), plan.columns - W / 2, turns + W / 2, W);
      }
    }
    // The last block may repeat columns of the one before: the same numbers at the same places.
    block(std::integral_constant<int, W>(), start + W <= plan.columns ? start : plan.columns - W, turns, W);
    turns += 2 * W * (odd_bins(R) - 1);
  }
}

template <int R, int W, typename T>
void forward_columns(const MatrixPlan<T>& plan, const T* row, Split<T> target) {
  for_blocks<R, W>(plan, [&](auto width, int64_t column, const T* factors, int64_t step) {
    constexpr int kWidth = decltype(width)::value;
    // The end of the next block's columns, or of the first block of the row behind this one.
    const int64_t ahead = (column + kWidth < plan.columns ? kWidth : plan.dim - column) + W - 1;
    forward_block<R, kWidth>(plan, row, column, ahead, factors, step, target);
  });
}
template <int R, int W, typename T>
void inverse_columns(const MatrixPlan<T>& plan, Split<const T> source, T scale, T* row) {
  for_blocks<R, W>(plan, [&](auto width, int64_t column, const T* factors, int64_t step) {
    inverse_block<R, decltype(width)::value>(plan, source, column, factors, step, scale, row);
  });
}

}  // namespace

template <typename T>
void matrix_forward(const MatrixPlan<T>& plan, const T* row, Split<T> spectrum, Split<T> work) {
  // The last pass writes the spectrum.
  const Split<T> arrays[2] = {work, spectrum};
  const int from = array_of_first_pass(plan);
  with_rows(plan.rows, [&](auto rows) {
    constexpr int kRows = decltype(rows)::value;
    with_width<T, odd_bins(kRows)>(plan.column_width, [&](auto width) {
      forward_columns<kRows, decltype(width)::value>(plan, row, arrays[from]);
    });
  });
  with_width<T, 16>(
      plan.width, [&](auto width) { side_by_side_passes<T, decltype(width)::value>(plan, plan.lanes, arrays, from); });
}

template <typename T>
void matrix_inverse(const MatrixPlan<T>& plan, Split<T> spectrum, Split<T> work, T scale, T* row) {
  // The inverse of a complex transform: parts exchanged on both sides.
  const Split<T> arrays[2] = {{spectrum.im, spectrum.re}, {work.im, work.re}};
  int last = 0;
  with_width<T, 16>(plan.width, [&](auto width) {
    last = side_by_side_passes<T, decltype(width)::value>(plan, plan.lanes, arrays, 0);
  });
  const Split<const T> source{arrays[last].im, arrays[last].re};
  with_rows(plan.rows, [&](auto rows) {
    constexpr int kRows = decltype(rows)::value;
    with_width<T, odd_bins(kRows)>(plan.column_width, [&](auto width) {
      inverse_columns<kRows, decltype(width)::value>(plan, source, scale, row);
    });
  });
}

template void matrix_forward(const MatrixPlan<float>&, const float*, Split<float>, Split<float>);
template void matrix_forward(const MatrixPlan<double>&, const double*, Split<double>, Split<double>);
template void matrix_inverse(const MatrixPlan<float>&, Split<float>, Split<float>, float, float*);
template void matrix_inverse(const MatrixPlan<double>&, Split<double>, Split<double>, double, double*);

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
