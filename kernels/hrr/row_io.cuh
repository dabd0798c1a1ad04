// Rows of the kernels in and out of memory, as RowFft keeps them in registers: loads, stores, folding, scaling.
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
KERNEL_DEVICE void scale_points(Complex<T> (&v)[kPointsPerThread], T factor) {
  for (int i = 0; i < kPointsPerThread; ++i) {
    v[i] = {v[i].re * factor, v[i].im * factor};
  }
}

template <typename T>
KERNEL_DEVICE void scale_points(T (&v)[kPointsPerThread], T factor) {
  for (int i = 0; i < kPointsPerThread; ++i) {
    v[i] *= factor;
  }
}

// Scales a row whose numbers, real or complex, its threads hold near 1, unless it is near enough as it stands. Every
// thread gets the same; a barrier of the team.
template <typename T, int kLog2, typename Number>
KERNEL_DEVICE_STEP MeasuredRow scale_to_range(const RowFft<T, kLog2>& fft, Number (&v)[kPointsPerThread]) {
  uint32_t largest = 0;
  for (int i = 0; i < kPointsPerThread; ++i) {
    const uint32_t magnitude = magnitude_bits(v[i]);
    largest = largest < magnitude ? magnitude : largest;
  }
  const MeasuredRow measured = measured_row<T>(fft.row_max(largest));
  if (measured.exponent != 0) {
    scale_points(v, exact_power<T>(-measured.exponent));
  }
  return measured;
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

// The inverse of load_row for a row of 2M elements, times `power`.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void store_row(const RowFft<T, kLog2>& fft, const Complex<T> (&v)[kPointsPerThread],
                                  const ScaleFactors<T>& power, StoredOutput<T> row) {
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

// row = c times factor and `power`
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void store_folded(const RowFft<T, kLog2>& fft, const T (&c)[kPointsPerThread], int dim, T factor,
                                     const ScaleFactors<T>& power, StoredOutput<T> row) {
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

}  // namespace torch_hrr::kernels
