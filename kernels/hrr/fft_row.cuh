// A row in the registers of its threads, for kernels of HRR operators.
//
// The kernels are written once over types of rows: FftRow for powers of two and products that are padded to them,
// MixedRow for other lengths in shared memory, ChirpRow for any length in double. A row type has numbers Real, a row
// number r, the row's length dim, share(), the factor that undoes what its transforms multiply by, and places for
// spectra, spectrum(0) and so on, zeros where they lie in registers. On such a place s:
//
//   load(row, s)              the spectrum of row 2^-exponent; returns what was measured
//   store(s, f, e, ok, row)   row = the row of s times f / share() 2^e, or NaN unless ok; spends s
//   squared_norm(s)           norm2^2 of the row as it was transformed; where s is split, within a factor of two
//   scale(s, f)               s = s f
//   split(s), merge(s)        from a spectrum to the row's own bins A_k, and back
//
// on split spectra
//
//   load_packed(row, s)       the bins of packed spectrum 2^-exponent; returns what was measured
//   store_packed(s, e, ok, row)   row = the packed spectrum times 2^e, or NaN unless ok
//   map_bins(s, v, directed, map)   each bin = map(bin, bin of v), which is 0 unless directed
//   set_identity(s)           the bins of the row e_0
//   multiply_bins(x, y)       x = x y
//
// and, but for ChirpRow, products
//
//   multiply(product, x, y, s)   the spectrum of x (*) y; s may be x or y
//   clear(s)                  s = 0
//   accumulate(x, y, w, kept, s)   s = s kept + w (x conv y)
//   store_product(s, product, f, e, ok, normalize, eps, row)   as store, times share(), of a product of this kind
//
// Every thread of a row calls them, since they may be barriers. In shared memory, multiply, accumulate and map_bins
// write pairs of points, and scale, clear and multiply_bins points: between one kind and the other comes a call that
// begins with a barrier, load, squared_norm, split or merge.
//
// A row is measured when it is loaded and scaled by a power of two where it is far from 1; what it gives is scaled back
// when it is stored. No bit of a row depends on its neighbours.
#pragma once

#include "kernels/hrr/bin_pairs.cuh"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/pair_products.cuh"
#include "kernels/hrr/row_io.cuh"

namespace torch_hrr::kernels {

// The bin of slot i in the spectrum layout of fft.cuh.
template <typename T, int kLog2>
KERNEL_DEVICE int bin_of_slot(const RowFft<T, kLog2>& fft, int i) {
  constexpr int kQuarter = RowFft<T, kLog2>::kPoints / 4;
  return i < 4 ? fft.thread + i * kQuarter : fft.mirror_thread() + (i - 4) * kQuarter;
}

// Eight numbers of a spectrum.
template <typename T>
struct RegisterSpectrum {
  Complex<T> v[kPointsPerThread] = {};
};

// The row of a thread. Blocks cover all rows: no output that fits into memory needs more than a grid has.
template <typename T, int kLog2>
struct RegisterRow {
  using Real = T;
  using Fft = RowFft<T, kLog2>;
  using Spectrum = RegisterSpectrum<T>;

  Fft fft;
  int64_t r;    // 0 for a row beyond the last
  int dim;      // of every row
  int row_dim;  // of this one, 0 beyond the last

  KERNEL_DEVICE RegisterRow(const TwiddlePoint<T>* twiddles, int64_t rows, int64_t dim_)
      : fft(twiddles), dim(static_cast<int>(dim_)) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * Fft::rows_per_block() + fft.row;
    r = index < rows ? index : 0;
    row_dim = index < rows ? dim : 0;
  }

  // A row beyond the last meets every barrier and stores nothing.
  KERNEL_DEVICE bool exists() const {
    return row_dim > 0;
  }
  KERNEL_DEVICE Spectrum spectrum(int) const {
    return {};
  }
  KERNEL_DEVICE void scale(Spectrum& s, T factor) const {
    scale_points(s.v, factor);
  }
};

template <typename T, int kLog2>
struct FftRow : RegisterRow<T, kLog2> {
  using Base = RegisterRow<T, kLog2>;
  using Base::Base;
  using Base::dim;
  using Base::exists;
  using Base::fft;
  using Base::row_dim;
  using typename Base::Fft;
  using typename Base::Spectrum;

  // Of products: their rows are zero-padded to twice the points, and folded.
  KERNEL_DEVICE bool padded() const {
    return dim != 2 * Fft::kPoints;
  }
  KERNEL_DEVICE static constexpr double share() {
    return 1.0 / Fft::kPoints;
  }

  KERNEL_DEVICE MeasuredRow load(StoredInput<T> row, Spectrum& s) const {
    load_row(fft, row, row_dim, s.v);
    const MeasuredRow measured = scale_to_range(fft, s.v);
    fft.forward(s.v);
    return measured;
  }

  KERNEL_DEVICE T squared_norm(const Spectrum& s) const {
    return fft.row_sum(inner_product(s.v, s.v)) * static_cast<T>(share());
  }
  KERNEL_DEVICE void split(Spectrum& s) const {
    split_bins(fft, s.v);
  }
  KERNEL_DEVICE void merge(Spectrum& s) const {
    merge_bins(fft, s.v);
  }

  KERNEL_DEVICE_STEP MeasuredRow load_packed(StoredInput<T> packed, Spectrum& s) const {
    packed.visit([&](const auto* elements) {
      for (int i = 0; i < kPointsPerThread; ++i) {
        const int k = bin_of_slot(fft, i);
        s.v[i] = {T{0}, T{0}};
        if (exists()) {
          s.v[i] = {static_cast<T>(elements[packed_real(k)]),
                    static_cast<T>(elements[k == 0 ? dim - 1 : packed_imaginary(k)])};
        }
      }
    });
    return scale_to_range(fft, s.v);
  }

  KERNEL_DEVICE_STEP void store_packed(const Spectrum& s, int64_t exponent, bool finite, StoredOutput<T> row) const {
    const ScaleFactors<T> power(exponent, finite);
    row.visit([&](auto* elements) {
      using S = std::remove_reference_t<decltype(*elements)>;
      for (int i = 0; i < kPointsPerThread; ++i) {
        const int k = bin_of_slot(fft, i);
        if (exists()) {
          elements[packed_real(k)] = static_cast<S>(power.times(s.v[i].re));
          elements[k == 0 ? dim - 1 : packed_imaginary(k)] = static_cast<S>(power.times(s.v[i].im));
        }
      }
    });
  }

  KERNEL_DEVICE void store(Spectrum& s, T factor, int64_t exponent, bool finite, StoredOutput<T> row) const {
    scale_points(s.v, factor);
    fft.inverse(s.v);
    if (exists()) {
      store_row(fft, s.v, ScaleFactors<T>(exponent, finite), row);
    }
  }

  template <typename Map>
  KERNEL_DEVICE void map_bins(Spectrum& s, const Spectrum& v, bool, const Map& map) const {
    const Complex<T> ends = s.v[0];
#pragma unroll
    for (int i = 0; i < kPointsPerThread; ++i) {
      s.v[i] = map(s.v[i], v.v[i]);
    }
    if (fft.thread == 0) {
      s.v[0] = {map({ends.re, T{0}}, {v.v[0].re, T{0}}).re, map({ends.im, T{0}}, {v.v[0].im, T{0}}).re};
    }
  }

  KERNEL_DEVICE void set_identity(Spectrum& s) const {
    for (int i = 0; i < kPointsPerThread; ++i) {
      s.v[i] = {T{1}, T{0}};
    }
    s.v[0].im = fft.thread == 0 ? T{1} : T{0};
  }
  KERNEL_DEVICE void multiply_bins(Spectrum& x, const Spectrum& y) const {
    const Complex<T> ends{x.v[0].re * y.v[0].re, x.v[0].im * y.v[0].im};
    for (int i = 0; i < kPointsPerThread; ++i) {
      x.v[i] = torch_hrr::kernels::multiply(x.v[i], y.v[i]);
    }
    x.v[0] = fft.thread == 0 ? ends : x.v[0];
  }

  KERNEL_DEVICE void multiply(Product product, const Spectrum& x, const Spectrum& y, Spectrum& target) const {
    multiply_pairs(fft, product, x.v, y.v, target.v);
  }
  KERNEL_DEVICE void clear(Spectrum& s) const {
    s = {};
  }
  KERNEL_DEVICE void accumulate(const Spectrum& x, const Spectrum& y, T weight, T kept, Spectrum& s) const {
    if (kept != T{1}) {
      scale_points(s.v, kept);
    }
    AccumulatePairs<T> visit{x.v, y.v, s.v, weight};
    for_each_pair(fft, visit);
  }

  // The norm of a product is known before its inverse by Parseval, but for a padded one, whose spectrum is not that of
  // the folded row.
  KERNEL_DEVICE void store_product(Spectrum& s, Product product, T factor, int exponent, bool finite, bool normalize,
                                   double eps, StoredOutput<T> row) const {
    const auto normalizing_factor = [&](T squared) {
      const NormalizingScale<T> scale(squared, exponent, eps);
      exponent = scale.exponent;
      return scale.factor;
    };
    factor *= static_cast<T>(share());
    if (normalize && !padded()) {
      factor *= normalizing_factor(squared_norm(s));
    }
    scale_points(s.v, factor);
    fft.inverse(s.v);
    if (!padded()) {
      if (exists()) {
        store_row(fft, s.v, ScaleFactors<T>(exponent, finite), row);
      }
      return;
    }
    T c[kPointsPerThread];
    fold_row(fft, s.v, dim, product, c);
    factor = 1;
    if (normalize) {
      T squared = 0;
      for (int i = 0; i < kPointsPerThread; ++i) {
        squared = multiply_add(c[i], c[i], squared);
      }
      factor = normalizing_factor(fft.row_sum(squared));
    }
    store_folded(fft, c, row_dim, factor, ScaleFactors<T>(exponent, finite), row);
  }
};

}  // namespace torch_hrr::kernels
