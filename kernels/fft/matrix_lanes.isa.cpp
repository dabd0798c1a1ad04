// The transforms of matrix_lanes.h; compiled once per instruction set.
#include "kernels/fft/matrix_lanes.h"

#include "kernels/fft/lane_squares.h"
#include "kernels/fft/matrix_rows.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// The passes over the columns, for `lanes` numbers of each side by side.
template <typename T>
struct ColumnPasses {
  int64_t size;
  int passes;
  const int* radix;
  const T* const* twiddles;

  ColumnPasses(const MatrixPlan<T>& plan, int64_t lanes)
      : size(plan.columns * lanes), passes(plan.passes), radix(plan.radix), twiddles(plan.twiddles) {}
};

// The twiddles of a column, one for each bin from 1 on: a lane of those of its block.
template <typename T>
struct ColumnTurns {
  const T* first;
  int64_t width;

  ColumnTurns(const MatrixPlan<T>& plan, int64_t column) : width(plan.column_width) {
    const int64_t block = column / width;
    const int64_t start = (block + 1) * width <= plan.columns ? block * width : plan.columns - width;
    first = plan.turns + 2 * width * (plan.bins - 1) * block + column - start;
  }
  template <int W>
  KERNEL_HOST_DEVICE ComplexLanes<T, W> at(int64_t bin) const {
    const T* const factor = first + 2 * width * (bin - 1);
    return {Simd<T, W>::broadcast(factor[0]), Simd<T, W>::broadcast(factor[width])};
  }
};

// block(column, known) for N columns at a time from `column` on; the last block may begin with `known` columns of the
// one before.
template <int N, typename Block>
void for_column_blocks(int64_t columns, const Block& block) {
  static_assert(N <= kMinLaneColumns);
  for (int64_t start = 0; start < columns; start += N) {
    const int64_t column = start + N <= columns ? start : columns - N;
    block(column, start - column);
  }
}

template <int R, int W, typename T>
void forward_columns(const MatrixPlan<T>& plan, const T* const* rows, Split<T> target) {
  using V = Simd<T, W>;
  constexpr int N = kSquare<W, T>;
  constexpr int kBins = odd_bins(R);
  alignas(64) T block[N * R * W];
  for_column_blocks<N>(plan.columns, [&](int64_t column, int64_t known) {
    for (int r = 0; r < R; ++r) {
      const int64_t place = plan.columns * r + column;
      V square[N];
      load_square([&](int row) { return Simd<T, N>::load(rows[row] + place); }, square);
      // Some squares ahead, once for each line.
      if (column % W == 0) {
#pragma GCC unroll 16
        for (int row = 0; row < W; ++row) {
          __builtin_prefetch(rows[row] + place + 4 * plan.columns, 0, 3);
        }
      }
#pragma GCC unroll 16
      for (int j = 0; j < N; ++j) {
        square[j].store(block + (j * R + r) * W);
      }
    }
    for (int64_t j = known; j < N; ++j) {
      V x[R];
#pragma GCC unroll 64
      for (int r = 0; r < R; ++r) {
        x[r] = V::load(block + (j * R + r) * W);
      }
      ComplexLanes<T, W> y[kBins];
      odd_forward<R, T, W>(x, y);
      const ColumnTurns<T> turns(plan, column + j);
      const ToSplit<T, W> store{{target.re + (column + j) * kBins * W, target.im + (column + j) * kBins * W}};
      store(0, y[0]);
#pragma GCC unroll 32
      for (int i = 1; i < kBins; ++i) {
        store(i * W, multiply(y[i], turns.template at<W>(i)));
      }
    }
  });
}

template <int R, int W, typename T>
uint32_t inverse_columns(const MatrixPlan<T>& plan, Split<const T> source, const T* scale, T* const* rows) {
  using V = Simd<T, W>;
  constexpr int N = kSquare<W, T>;
  constexpr int kBins = odd_bins(R);
  const V factor = V::load(scale);
  const V zero = V::broadcast(0);
  V check = zero;
  alignas(64) T block[N * R * W];
  for_column_blocks<N>(plan.columns, [&](int64_t column, int64_t known) {
    __builtin_memmove(block, block + (N - known) * R * W, static_cast<size_t>(known * R * W) * sizeof(T));
    for (int64_t j = known; j < N; ++j) {
      const ColumnTurns<T> turns(plan, column + j);
      const FromSplit<T, W> load{{source.re + (column + j) * kBins * W, source.im + (column + j) * kBins * W}};
      ComplexLanes<T, W> y[kBins];
      y[0] = load(0);
#pragma GCC unroll 32
      for (int i = 1; i < kBins; ++i) {
        y[i] = multiply_conjugate(load(i * W), turns.template at<W>(i));
      }
      V x[R];
      odd_inverse<R, T, W>(y, x);
#pragma GCC unroll 64
      for (int r = 0; r < R; ++r) {
        (x[r] * factor).store(block + (j * R + r) * W);
      }
    }
    for (int r = 0; r < R; ++r) {
      V square[N];
#pragma GCC unroll 16
      for (int j = 0; j < N; ++j) {
        square[j] = V::load(block + (j * R + r) * W);
        check = multiply_add(square[j], zero, check);
      }
      store_square(square, rows, plan.columns * r + column);
    }
  });
  return mask_of(check != zero);
}

// Where number i of packed rows lies: A_0 among the imaginary parts in place of its own.
template <bool kImaginary, typename T>
KERNEL_HOST_DEVICE T* packed_vector(const MatrixPlan<T>& plan, Split<T> spectra, int64_t i, int64_t width) {
  return (kImaginary ? spectra.im : spectra.re) + plan.packed[i] * width;
}
// The imaginary parts of bins that are mirror images change their sign.
template <bool kImaginary, int W, typename T>
KERNEL_HOST_DEVICE Simd<T, W> with_packed_sign(const MatrixPlan<T>& plan, Simd<T, W> x, int64_t i) {
  return kImaginary ? x * Simd<T, W>::broadcast(plan.packed_signs[i]) : x;
}

// block(first_is_imaginary, start) for N numbers of packed rows from `start` on; A_0 counts as imaginary, because that
// is where it is kept. The last block may repeat numbers of the one before.
template <int N, typename Block>
void for_packed_blocks(int64_t dim, const Block& block) {
  for (int64_t start = 0; start + N <= dim; start += N) {
    block(std::true_type(), start);
  }
  if (dim % 2 != 0) {
    block(std::false_type(), dim - N);
  } else if (dim % N != 0) {
    block(std::true_type(), dim - N);
  }
}

}  // namespace

template <int W, typename T>
void matrix_lanes_forward(const MatrixPlan<T>& plan, const T* const* rows, Split<T> spectra, Split<T> work) {
  const Split<T> arrays[2] = {work, spectra};
  const int from = array_of_first_pass(plan);
  with_rows(plan.rows, [&](auto r) { forward_columns<decltype(r)::value, W>(plan, rows, arrays[from]); });
  const int64_t lanes = plan.bins * W;
  side_by_side_passes<T, W>(ColumnPasses<T>(plan, lanes), lanes, arrays, from);
}

template <int W, typename T>
uint32_t matrix_lanes_inverse(const MatrixPlan<T>& plan, Split<T> spectra, Split<T> work, const T* scale,
                              T* const* rows) {
  // The inverse of a complex transform: parts exchanged on both sides.
  const Split<T> arrays[2] = {{spectra.im, spectra.re}, {work.im, work.re}};
  const int64_t lanes = plan.bins * W;
  const int last = side_by_side_passes<T, W>(ColumnPasses<T>(plan, lanes), lanes, arrays, 0);
  const Split<const T> source{arrays[last].im, arrays[last].re};
  uint32_t beyond = 0;
  with_rows(plan.rows, [&](auto r) { beyond = inverse_columns<decltype(r)::value, W>(plan, source, scale, rows); });
  return beyond;
}

template <int W, typename T>
Simd<T, W> matrix_lanes_to_packed(const MatrixPlan<T>& plan, Split<T> spectra, T* const* rows) {
  using V = Simd<T, W>;
  constexpr int N = kSquare<W, T>;
  V::load(spectra.re).store(spectra.im);
  V squared[2] = {V::broadcast(0), V::broadcast(0)};
  for_packed_blocks<N>(plan.dim, [&](auto imaginary, int64_t start) {
    constexpr bool kFirst = decltype(imaginary)::value;
    V x[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; i += 2) {
      x[i] = V::load(packed_vector<kFirst>(plan, spectra, start + i, W));
      x[i + 1] = V::load(packed_vector<!kFirst>(plan, spectra, start + i + 1, W));
      squared[0] = multiply_add(x[i], x[i], squared[0]);
      squared[1] = multiply_add(x[i + 1], x[i + 1], squared[1]);
      x[i] = with_packed_sign<kFirst>(plan, x[i], start + i);
      x[i + 1] = with_packed_sign<!kFirst>(plan, x[i + 1], start + i + 1);
    }
    store_square(x, rows, start);
    if (start % W == 0) {
#pragma GCC unroll 16
      for (int row = 0; row < W; ++row) {
        __builtin_prefetch(rows[row] + start + 3 * W, 1, 3);
      }
    }
  });
  return squared[0] + squared[1];
}

template <int W, typename T>
Simd<T, W> packed_to_matrix_lanes(const MatrixPlan<T>& plan, const T* const* rows, Split<T> spectra) {
  using V = Simd<T, W>;
  constexpr int N = kSquare<W, T>;
  V squared[2] = {V::broadcast(0), V::broadcast(0)};
  for_packed_blocks<N>(plan.dim, [&](auto imaginary, int64_t start) {
    constexpr bool kFirst = decltype(imaginary)::value;
    V x[N];
    load_square([&](int row) { return Simd<T, N>::load(rows[row] + start); }, x);
#pragma GCC unroll 16
    for (int i = 0; i < N; i += 2) {
      squared[0] = multiply_add(x[i], x[i], squared[0]);
      squared[1] = multiply_add(x[i + 1], x[i + 1], squared[1]);
      with_packed_sign<kFirst>(plan, x[i], start + i).store(packed_vector<kFirst>(plan, spectra, start + i, W));
      with_packed_sign<!kFirst>(plan, x[i + 1], start + i + 1)
          .store(packed_vector<!kFirst>(plan, spectra, start + i + 1, W));
    }
  });
  V::load(spectra.im).store(spectra.re);
  V::broadcast(0).store(spectra.im);
  // The first bins of columns have mirror images among each other.
  const int64_t step = plan.bins * W;
  for (int64_t p = 1; 2 * p <= plan.columns; ++p) {
    const int64_t mirror = plan.columns - p;
    if (mirror == p) {
      // The conjugate of a real bin, as a row by itself has it.
      V::broadcast(T{-0.0}).store(spectra.im + p * step);
    } else {
      V::load(spectra.re + p * step).store(spectra.re + mirror * step);
      (-V::load(spectra.im + p * step)).store(spectra.im + mirror * step);
    }
  }
  return squared[0] + squared[1];
}

#define MATRIX_LANES(W, T)                                                                                  \
  template void matrix_lanes_forward<W>(const MatrixPlan<T>&, const T* const*, Split<T>, Split<T>);         \
  template uint32_t matrix_lanes_inverse<W>(const MatrixPlan<T>&, Split<T>, Split<T>, const T*, T* const*); \
  template Simd<T, W> matrix_lanes_to_packed<W>(const MatrixPlan<T>&, Split<T>, T* const*);                 \
  template Simd<T, W> packed_to_matrix_lanes<W>(const MatrixPlan<T>&, const T* const*, Split<T>);
MATRIX_LANES(kLanes<float>, float)
MATRIX_LANES(kLanes<double>, double)
#undef MATRIX_LANES

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
