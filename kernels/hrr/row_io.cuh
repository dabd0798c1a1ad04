// Rows of the transform kernels in and out of memory: loads, stores, folding, and what is measured of them.
#pragma once

#include "kernels/cuda/element_run.cuh"
#include "kernels/cuda/stored.cuh"
#include "kernels/fft/fft.cuh"
#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/row_scaling.cuh"

namespace torch_hrr::kernels {

// Threads of a block for the transform of 2^log2 points: whole rows, at least 128.
template <int kLog2>
constexpr int kBlockThreads = (1 << kLog2) / kPointsPerThread > 128 ? (1 << kLog2) / kPointsPerThread : 128;

// The element offset of a row; the usual single leading dimension needs no division.
KERNEL_DEVICE int64_t placed_row(const RowMap& map, int operand, int64_t row) {
  return map.ndim == 1 ? row * map.strides[operand][0] : row_offset(map, operand, row);
}

template <typename S, typename T, int kLog2>
KERNEL_DEVICE void load_elements(const RowFft<T, kLog2>& fft, const S* row, int dim,
                                 Complex<T> (&v)[kPointsPerThread]) {
  constexpr int kRun = RowFft<T, kLog2>::kRun;
  constexpr int kElements = 2 * kRun;
  constexpr int kRuns = kPointsPerThread / kRun;
  if (dim % kElements == 0 && is_run_aligned<S, kElements>(row)) {
    for (int j = 0; j < kRuns; ++j) {
      const int first = 2 * fft.time_point(j);
      ElementRun<S, kElements> run{};
      if (first < dim) {
        run = *reinterpret_cast<const ElementRun<S, kElements>*>(row + first);
      }
      for (int g = 0; g < kRun; ++g) {
        v[g * kRuns + j] = {static_cast<T>(run.elements[2 * g]), static_cast<T>(run.elements[2 * g + 1])};
      }
    }
  } else {
    for (int j = 0; j < kRuns; ++j) {
      for (int g = 0; g < kRun; ++g) {
        const int n = 2 * (fft.time_point(j) + g);
        v[g * kRuns + j] = {n < dim ? static_cast<T>(row[n]) : T{0}, n + 1 < dim ? static_cast<T>(row[n + 1]) : T{0}};
      }
    }
  }
}

// v = the row's even and odd elements as points in the time layout; elements from dim on are 0.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void load_row(const RowFft<T, kLog2>& fft, StoredInput<T> row, int dim,
                                 Complex<T> (&v)[kPointsPerThread]) {
  const RowFft<T, kLog2> fresh = fft.with_fresh_addresses();
  row.visit([&](const auto* elements) { load_elements(fresh, elements, dim, v); });
}

template <typename T>
KERNEL_DEVICE void copy_points(const Complex<T> (&v)[kPointsPerThread], Complex<T> (&target)[kPointsPerThread]) {
  for (int i = 0; i < kPointsPerThread; ++i) {
    target[i] = v[i];
  }
}
template <typename T>
KERNEL_DEVICE void scale_points(Complex<T> (&v)[kPointsPerThread], T factor) {
  for (int i = 0; i < kPointsPerThread; ++i) {
    v[i] = {v[i].re * factor, v[i].im * factor};
  }
}

// v <- v 2^-exponent for an exponent of scale_exponent: 0 unless the row left the safe range before.
template <typename T>
KERNEL_DEVICE void scale_down(Complex<T> (&v)[kPointsPerThread], int exponent) {
  if (exponent != 0) {
    scale_points(v, exact_power<T>(-exponent));
  }
}

template <typename S, typename T, int kLog2>
KERNEL_DEVICE void store_elements(const RowFft<T, kLog2>& fft, const Complex<T> (&v)[kPointsPerThread],
                                  ScaleFactors<T> power, S* row) {
  constexpr int kRun = RowFft<T, kLog2>::kRun;
  constexpr int kElements = 2 * kRun;
  constexpr int kRuns = kPointsPerThread / kRun;
  if (is_run_aligned<S, kElements>(row)) {
    for (int j = 0; j < kRuns; ++j) {
      ElementRun<S, kElements> run;
      for (int g = 0; g < kRun; ++g) {
        const Complex<T> z = v[g * kRuns + j];
        run.elements[2 * g] = static_cast<S>(power.times(z.re));
        run.elements[2 * g + 1] = static_cast<S>(power.times(z.im));
      }
      *reinterpret_cast<ElementRun<S, kElements>*>(row + 2 * fft.time_point(j)) = run;
    }
  } else {
    for (int j = 0; j < kRuns; ++j) {
      for (int g = 0; g < kRun; ++g) {
        const Complex<T> z = v[g * kRuns + j];
        S* const target = row + 2 * (fft.time_point(j) + g);
        target[0] = static_cast<S>(power.times(z.re));
        target[1] = static_cast<S>(power.times(z.im));
      }
    }
  }
}

// The inverse of load_row for a row of 2M elements, times 2^exponent.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void store_row(const RowFft<T, kLog2>& fft, const Complex<T> (&v)[kPointsPerThread],
                                  int64_t exponent, StoredOutput<T> row) {
  const ScaleFactors<T> power(exponent);
  row.visit([&](auto* elements) { store_elements(fft, v, power, elements); });
}

// The folded layout of padded rows: c[i] is element t + i M/8 of the D <= M of the row.
template <typename T, int kLog2>
KERNEL_DEVICE T& stored_element(const RowFft<T, kLog2>& fft, int n) {
  auto& point = fft.stored(n / 2);
  return n % 2 == 0 ? point.re : point.im;
}

// c[n] = lin[n] + lin[n + D] for a convolution, lin[n] + lin[2M - D + n] (n > 0) for a correlation, of a fresh inverse.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void fold_row(const RowFft<T, kLog2>& fft, const Complex<T> (&v)[kPointsPerThread], int dim,
                                 Product product, T (&c)[kPointsPerThread]) {
  using Fft = RowFft<T, kLog2>;
  constexpr int kRuns = kPointsPerThread / Fft::kRun;
  // No barrier first: the last stage of an inverse reads exactly the points that its thread writes here.
  for (int j = 0; j < kRuns; ++j) {
    for (int g = 0; g < Fft::kRun; ++g) {
      fft.stored(fft.time_point(j) + g) = {v[g * kRuns + j].re, v[g * kRuns + j].im};
    }
  }
  fft.sync();
  const int shift = product == Product::kConvolution ? dim : 2 * Fft::kPoints - dim;
  for (int i = 0; i < kPointsPerThread; ++i) {
    const int n = fft.thread + i * Fft::kThreads;
    c[i] = T{0};
    if (n < dim) {
      c[i] = stored_element(fft, n);
      if (n > 0 || product == Product::kConvolution) {
        c[i] += stored_element(fft, n + shift);
      }
    }
  }
}

// v = the time layout, zero-padded, of a row in the folded layout.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void unfold_row(const RowFft<T, kLog2>& fft, const T (&c)[kPointsPerThread],
                                   Complex<T> (&v)[kPointsPerThread]) {
  using Fft = RowFft<T, kLog2>;
  constexpr int kRuns = kPointsPerThread / Fft::kRun;
  fft.sync();
  for (int i = 0; i < kPointsPerThread; ++i) {
    const int n = fft.thread + i * Fft::kThreads;
    stored_element(fft, n) = c[i];
    stored_element(fft, n + Fft::kPoints) = T{0};
  }
  fft.sync();
  for (int j = 0; j < kRuns; ++j) {
    for (int g = 0; g < Fft::kRun; ++g) {
      const auto point = fft.stored(fft.time_point(j) + g);
      v[g * kRuns + j] = {point.re, point.im};
    }
  }
}

// c = the row in the folded layout; elements from dim on are 0.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void load_folded(const RowFft<T, kLog2>& fft, StoredInput<T> row, int dim,
                                    T (&c)[kPointsPerThread]) {
  row.visit([&](const auto* elements) {
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = fft.thread + i * RowFft<T, kLog2>::kThreads;
      c[i] = n < dim ? static_cast<T>(elements[n]) : T{0};
    }
  });
}

// row = c times factor 2^exponent
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void store_folded(const RowFft<T, kLog2>& fft, const T (&c)[kPointsPerThread], int dim, T factor,
                                     int exponent, StoredOutput<T> row) {
  const ScaleFactors<T> power(exponent);
  row.visit([&](auto* elements) {
    using S = std::remove_reference_t<decltype(*elements)>;
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = fft.thread + i * RowFft<T, kLog2>::kThreads;
      if (n < dim) {
        elements[n] = static_cast<S>(power.times(c[i] * factor));
      }
    }
  });
}

template <typename T, int kLog2>
KERNEL_DEVICE_STEP void store_nan(const RowFft<T, kLog2>& fft, int dim, StoredOutput<T> row) {
  row.visit([&](auto* elements) {
    using S = std::remove_reference_t<decltype(*elements)>;
    for (int n = fft.thread; n < dim; n += RowFft<T, kLog2>::kThreads) {
      elements[n] = static_cast<S>(kNan<T>);
    }
  });
}

// Every thread of the row gets the same; a barrier of the team.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP MeasuredRow measure_row(const RowFft<T, kLog2>& fft, StoredInput<T> row, int dim) {
  T largest = 0;
  row.visit([&](const auto* elements) {
    for (int n = fft.thread; n < dim; n += RowFft<T, kLog2>::kThreads) {
      const T magnitude = ::fabs(static_cast<T>(elements[n]));
      largest = !is_finite(magnitude) ? kInfinity<T> : largest < magnitude ? magnitude : largest;
    }
  });
  largest = fft.row_max(largest);
  return {scale_exponent(largest), is_finite(largest), largest == T{0}};
}

// Whether one of the values is not zero.
template <typename T>
KERNEL_DEVICE bool any_nonzero(const Complex<T> (&v)[kPointsPerThread]) {
  bool found = false;
  for (int i = 0; i < kPointsPerThread; ++i) {
    found = found || v[i].re != T{0} || v[i].im != T{0};
  }
  return found;
}

// Whether all of the values are finite.
template <typename T>
KERNEL_DEVICE bool all_finite(const Complex<T> (&v)[kPointsPerThread]) {
  T check = 0;
  for (int i = 0; i < kPointsPerThread; ++i) {
    check += v[i].re * T{0} + v[i].im * T{0};
  }
  return check == T{0};
}
template <typename T>
KERNEL_DEVICE bool all_finite(const T (&c)[kPointsPerThread]) {
  T check = 0;
  for (int i = 0; i < kPointsPerThread; ++i) {
    check += c[i] * T{0};
  }
  return check == T{0};
}

// Whether a row with sum |z|^2 = squared needs no scaling: a row of zeros leaves the safe range, but what it gives is
// zero as it stands. A barrier of the team.
template <typename T, int kLog2>
KERNEL_DEVICE bool safe_or_zero(const RowFft<T, kLog2>& fft, T squared, bool nonzero) {
  const bool zero = !fft.row_any(nonzero);
  return safe_squared_norm(squared) || (squared == T{0} && zero);
}

// The row of a thread. Blocks cover all rows: no output that fits into memory needs more than a grid has.
template <typename T, int kLog2>
struct ThreadRow {
  using Fft = RowFft<T, kLog2>;

  Fft fft;
  int64_t r;    // 0 for a row beyond the last: its threads meet every barrier, read and store nothing
  int dim;      // of every row
  int row_dim;  // of this one, 0 beyond the last

  KERNEL_DEVICE ThreadRow(const TwiddlePoint<T>* twiddles, int64_t rows, int64_t dim_, int rank)
      : fft(twiddles, rank), dim(static_cast<int>(dim_)) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * Fft::rows_per_block() + fft.row;
    r = index < rows ? index : 0;
    row_dim = index < rows ? dim : 0;
  }

  KERNEL_DEVICE bool exists() const {
    return row_dim > 0;
  }

  // The result of a row with an input that is not finite.
  KERNEL_DEVICE void store_nan_unless(bool finite, StoredOutput<T> out, bool& stored) const {
    if (!finite && !stored) {
      store_nan(fft, row_dim, out);
      stored = true;
    }
  }
};

// What a kernel of one output keeps of a row between two rounds.
struct RowState {
  bool stored = false;
};

// Runs a row, and once more from inputs scaled by powers of two if a row of the team asks for it; State says what of
// the row is stored.
//
// The compiler cannot know that a shuffled rank is the same: addresses and factors are computed anew in a second round,
// where keeping them through the first would cost the common path its registers.
template <typename Row, typename T, typename... Args>
KERNEL_DEVICE void run_row(const TwiddlePoint<T>* twiddles, const Args&... args) {
  typename Row::State state;
  int rank = thread_rank();
#pragma unroll 1
  for (bool scaled = false; Row(twiddles, rank, args...).run(scaled, state); scaled = true) {
    rank = shuffle(rank, lane_index());
  }
}

}  // namespace torch_hrr::kernels
