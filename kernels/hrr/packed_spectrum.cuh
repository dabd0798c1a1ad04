// Kernels of spectrum, from_spectrum, bind_spectrum and unbind_spectrum for rows of native length.
#pragma once

#include "kernels/hrr/bin_pairs.cuh"
#include "kernels/hrr/packed_spectrum.h"

namespace torch_hrr::kernels {

// The bin of slot i in the spectrum layout of fft.cuh.
template <typename T, int kLog2>
HRR_DEVICE int bin_of_slot(const RowFft<T, kLog2>& fft, int i) {
  constexpr int kQuarter = RowFft<T, kLog2>::kPoints / 4;
  return i < 4 ? fft.thread + i * kQuarter : fft.mirror_thread() + (i - 4) * kQuarter;
}

// v = the half-length spectrum of the row whose packed spectrum is `packed` times factor; dim 0 reads nothing.
template <typename S, typename T, int kLog2>
HRR_DEVICE_STEP void load_packed(const RowFft<T, kLog2>& fft, const S* packed, int dim, T factor,
                                 Complex<T> (&v)[kPointsPerThread]) {
  for (int i = 0; i < kPointsPerThread; ++i) {
    const int k = bin_of_slot(fft, i);
    v[i] = {T{0}, T{0}};
    if (dim > 0) {
      v[i] = {static_cast<T>(packed[k == 0 ? 0 : 2 * k - 1]) * factor,
              static_cast<T>(packed[k == 0 ? dim - 1 : 2 * k]) * factor};
    }
  }
  retangle_bins(fft, v);
}

// row = the packed spectrum of untangled bins, times a power of two.
template <typename S, typename T, int kLog2>
HRR_DEVICE_STEP void store_packed(const RowFft<T, kLog2>& fft, const Complex<T> (&v)[kPointsPerThread],
                                  PowerOfTwo<T> power, S* row) {
  constexpr int kDim = 2 * RowFft<T, kLog2>::kPoints;
  for (int i = 0; i < kPointsPerThread; ++i) {
    const int k = bin_of_slot(fft, i);
    row[k == 0 ? 0 : 2 * k - 1] = static_cast<S>(v[i].re * power.first * power.second);
    row[k == 0 ? kDim - 1 : 2 * k] = static_cast<S>(v[i].im * power.first * power.second);
  }
}

// One transformed row.
template <typename S, int kLog2>
struct PackedSpectrumRow {
  using T = compute_t<S>;
  using Fft = RowFft<T, kLog2>;

  Fft fft;
  const S* in;
  S* out;
  bool inverse;
  int row_dim;   // 2M, or 0 for a row beyond the last: its threads meet every barrier, read and store nothing
  bool pending;  // this row is still to be stored

  // Stores the row. Without kScaled, a row whose spectrum left the safe range stays pending; true in the whole team if
  // there is one.
  template <bool kScaled>
  HRR_DEVICE bool run() {
    bool finite = true;
    int shift = 0;
    T factor = 1;
    if constexpr (kScaled) {
      const T largest = row_magnitude(fft, in, row_dim);
      finite = is_finite(largest);
      shift = scale_exponent(largest);
      factor = power_of_two<T>(-shift);
    }
    Complex<T> v[kPointsPerThread];
    if (inverse) {
      load_packed(fft, in, row_dim, factor, v);
    } else {
      load_row(fft, in, row_dim, factor, v);
      fft.forward(v);
    }
    const bool good = kScaled || safe_squared_norm(fft.row_sum(inner_product(v, v)));
    bool repeat = false;
    if constexpr (!kScaled) {
      repeat = fft.team_any(pending && !good);
    }
    if (inverse) {
      scale_bins(v, T{1} / Fft::kPoints);
      fft.inverse(v);
    } else {
      untangle_bins(fft, v);
    }
    if (pending && good) {
      const PowerOfTwo<T> power = shift == 0 ? PowerOfTwo<T>() : PowerOfTwo<T>(shift);
      if (!finite) {
        store_nan(fft, row_dim, out);
      } else if (inverse) {
        store_row(fft, v, power, out);
      } else {
        store_packed(fft, v, power, out);
      }
      pending = false;
    }
    return repeat;
  }
};

template <typename S, int kLog2>
HRR_COLD void run_scaled(PackedSpectrumRow<S, kLog2> row) {
  row.template run<true>();
}

// out[r] = the packed spectrum of in[r], or the row whose packed spectrum in[r] is.
template <typename S, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    packed_spectrum_kernel(PackedSpectrumParams params, const TwiddlePoint<compute_t<S>>* twiddles) {
  using Row = PackedSpectrumRow<S, kLog2>;
  const typename Row::Fft fft(twiddles);
  const int64_t index = static_cast<int64_t>(blockIdx.x) * Row::Fft::rows_per_block() + fft.row;
  const bool exists = index < params.rows;
  const int64_t r = exists ? index : 0;
  Row row{fft,
          static_cast<const S*>(params.in) + placed_row(params.map, 0, r),
          static_cast<S*>(params.out) + r * params.dim,
          params.inverse,
          exists ? static_cast<int>(params.dim) : 0,
          exists};
  if (row.template run<false>()) {
    run_scaled(row);
  }
}

// One product of a row and a row by its packed spectrum.
template <typename S, int kLog2>
struct SpectrumBindingRow {
  using T = compute_t<S>;
  using Fft = RowFft<T, kLog2>;

  Fft fft;
  const S* a;
  const S* spectrum;
  S* out;
  Product product;
  int row_dim;  // as in PackedSpectrumRow
  bool pending;

  template <bool kScaled>
  HRR_DEVICE T factor_of(const S* row, int& exponent, bool& finite) const {
    if constexpr (kScaled) {
      const T largest = row_magnitude(fft, row, row_dim);
      finite = finite && is_finite(largest);
      const int shift = scale_exponent(largest);
      exponent += shift;
      return power_of_two<T>(-shift);
    } else {
      return T{1};
    }
  }

  // Stores the row. Without kScaled, a row that left the range of T stays pending; true in the whole team if there is
  // one.
  template <bool kScaled>
  HRR_DEVICE bool run() {
    bool finite = true;
    int exponent = 0;
    Complex<T> v[kPointsPerThread];
    Complex<T> other[kPointsPerThread];
    load_row(fft, a, row_dim, factor_of<kScaled>(a, exponent, finite), v);
    fft.forward(v);
    load_packed(fft, spectrum, row_dim, factor_of<kScaled>(spectrum, exponent, finite), other);
    multiply_bins(fft, product, v, other, v);
    scale_bins(v, T{1} / Fft::kPoints);
    fft.inverse(v);
    bool good = true;
    bool repeat = false;
    if constexpr (!kScaled) {
      good = all_finite(v);
      repeat = fft.team_any(pending && !good);
      if (repeat) {
        good = !fft.row_any(!good);
      }
    }
    if (pending && good) {
      if (finite) {
        store_row(fft, v, exponent == 0 ? PowerOfTwo<T>() : PowerOfTwo<T>(exponent), out);
      } else {
        store_nan(fft, row_dim, out);
      }
      pending = false;
    }
    return repeat;
  }
};

template <typename S, int kLog2>
HRR_COLD void run_scaled(SpectrumBindingRow<S, kLog2> row) {
  row.template run<true>();
}

// out[r] = a[r] (*) b[r] for b given by its packed spectra.
template <typename S, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    bind_spectrum_kernel(SpectrumBindingParams params, const TwiddlePoint<compute_t<S>>* twiddles) {
  using Row = SpectrumBindingRow<S, kLog2>;
  const typename Row::Fft fft(twiddles);
  const int64_t index = static_cast<int64_t>(blockIdx.x) * Row::Fft::rows_per_block() + fft.row;
  const bool exists = index < params.rows;
  const int64_t r = exists ? index : 0;
  Row row{fft,
          static_cast<const S*>(params.a) + placed_row(params.map, 0, r),
          static_cast<const S*>(params.spectrum) + placed_row(params.map, 1, r),
          static_cast<S*>(params.out) + r * params.dim,
          params.product,
          exists ? static_cast<int>(params.dim) : 0,
          exists};
  if (row.template run<false>()) {
    run_scaled(row);
  }
}

}  // namespace torch_hrr::kernels
