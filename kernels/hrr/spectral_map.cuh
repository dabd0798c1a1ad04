// Kernels of inverse, unitary, bind_power and their derivatives, and of multibind, for rows of native length.
#pragma once

#include "kernels/hrr/bin_maps.h"
#include "kernels/hrr/bin_pairs.cuh"
#include "kernels/hrr/pair_products.cuh"

namespace torch_hrr::kernels {

// map_bin with the map as a run-time choice, out of line: one copy of the functions in double serves every length.
template <typename L>
KERNEL_COLD Complex<L> map_bin_of(SpectralMap kind, Complex<L> a, Complex<L> v, BinScalars row) {
  Complex<L> result{0, 0};
  with_map(kind, [&](auto map) { result = map_bin<decltype(map)::value>(a, v, row); });
  return result;
}

// One output row of a map of spectra.
template <typename T, int kLog2>
struct SpectralRow : ThreadRow<T, kLog2> {
  using Base = ThreadRow<T, kLog2>;
  using Base::exists;
  using Base::fft;
  using Base::r;
  using Base::row_dim;
  using State = RowState;
  using typename Base::Fft;
  using Bins = Complex<T>[kPointsPerThread];

  StoredInput<T> a;
  StoredInput<T> v;  // null where the map takes no direction
  StoredOutput<T> out;
  SpectralMap kind;
  double eps;
  double exponent;
  int32_t order;

  KERNEL_DEVICE SpectralRow(const TwiddlePoint<T>* twiddles, int rank, const SpectralMapParams& params, Storage storage)
      : Base(twiddles, params.rows, params.dim, rank),
        a(stored_input<T>(params.a, storage) + placed_row(params.map, 0, r)),
        v(stored_input<T>(params.v, storage)),
        out(stored_output<T>(params.out, storage) + r * params.dim),
        kind(params.kind),
        eps(params.eps),
        exponent(params.exponents == nullptr ? params.exponent : params.exponents[placed_row(params.map, 2, r)]),
        order(params.order) {
    if (v.exists()) {
      v = v + placed_row(params.map, 1, r);
    }
  }

  // The bins of row 2^-exponent; returns sum |Z|^2.
  KERNEL_DEVICE T load_bins(StoredInput<T> row, int exponent, Bins& bins, bool& nonzero) const {
    load_row(fft, row, row_dim, bins);
    scale_down(bins, exponent);
    nonzero = any_nonzero(bins);
    fft.forward(bins);
    const T squared = fft.row_sum(inner_product(bins, bins));
    split_bins(fft, bins);
    return squared;
  }

  KERNEL_DEVICE Complex<double> mapped(Complex<T> bin, Complex<T> direction, double factor,
                                       const BinScalars& scalars) const {
    return map_bin_of(kind, Complex<double>{static_cast<double>(bin.re) * factor, static_cast<double>(bin.im) * factor},
                      Complex<double>{static_cast<double>(direction.re), static_cast<double>(direction.im)}, scalars);
  }

  // a <- map(a factor, v) / M
  KERNEL_DEVICE void map_bins(Bins& bins, const Bins& directions, double factor, const BinScalars& scalars) const {
    // What the inverse transform multiplies by is divided out where bins may still be beyond T.
    constexpr double kShare = 1.0 / Fft::kPoints;
    const Complex<T> ends = bins[0];
    const Complex<T> ends_v = directions[0];
#pragma unroll
    for (int i = 0; i < kPointsPerThread; ++i) {
      const Complex<double> result = mapped(bins[i], directions[i], factor, scalars);
      bins[i] = {static_cast<T>(result.re * kShare), static_cast<T>(result.im * kShare)};
    }
    if (fft.thread == 0) {
      const Complex<double> first = mapped({ends.re, T{0}}, {ends_v.re, T{0}}, factor, scalars);
      const Complex<double> last = mapped({ends.im, T{0}}, {ends_v.im, T{0}}, factor, scalars);
      bins[0] = {static_cast<T>(first.re * kShare), static_cast<T>(last.re * kShare)};
    }
  }

  KERNEL_DEVICE bool run(bool scaled, State& state) const {
    constexpr int64_t kDim = 2 * Fft::kPoints;
    constexpr double kEpsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
    int exponent_a = 0;
    int exponent_v = 0;
    if (scaled) {
      const MeasuredRow of_a = measure_row(fft, a, row_dim);
      const MeasuredRow of_v = v.exists() ? measure_row(fft, v, row_dim) : MeasuredRow{};
      exponent_a = of_a.exponent;
      exponent_v = of_v.exponent;
      this->store_nan_unless(of_a.finite && of_v.finite, out, state.stored);
    }
    Bins bins;
    Bins directions;
    bool nonzero_a = false;
    bool nonzero_v = false;
    const T squared = load_bins(a, exponent_a, bins, nonzero_a);
    T squared_v = 1;
    if (v.exists()) {
      squared_v = load_bins(v, exponent_v, directions, nonzero_v);
    } else {
      for (int i = 0; i < kPointsPerThread; ++i) {
        directions[i] = {T{0}, T{0}};
      }
    }
    // sum |A_k|^2 over all D bins is 2 sum |Z|^2 and D norm2(a)^2.
    const RowMapping mapping =
        row_mapping(kind, 2 * static_cast<double>(squared) / kDim, exponent_a, kDim, kEpsilon, eps, exponent, order);
    bool good = scaled || (safe_squared_norm(squared) && safe_squared_norm(squared_v));
    bool repeat = fft.team_any(exists() && !good);
    if (repeat) {
      good = safe_or_zero(fft, squared, nonzero_a);
      good = safe_or_zero(fft, squared_v, nonzero_v) && good;
      repeat = fft.team_any(exists() && !good);
    }
    map_bins(bins, directions, mapping.factor, mapping.scalars);
    merge_bins(fft, bins);
    fft.inverse(bins);
    if (exists() && !state.stored && good) {
      store_row(fft, bins, mapping.exponent + exponent_v, out);
      state.stored = true;
    }
    return repeat;
  }
};

// out[r] = the row whose bins are map(A, V).
template <typename T, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    spectral_map_kernel(SpectralMapParams params, Storage storage, const TwiddlePoint<T>* twiddles) {
  run_row<SpectralRow<T, kLog2>>(twiddles, params, storage);
}

// One product of many vectors, of their own bins: by pairs of points, a bin that is small on the way and large in the
// end would take the error of its mirror image along.
template <typename T, int kLog2>
struct MultibindRow : ThreadRow<T, kLog2> {
  using Base = ThreadRow<T, kLog2>;
  using Base::exists;
  using Base::fft;
  using Base::r;
  using Base::row_dim;
  using State = RowState;
  using typename Base::Fft;
  using Bins = Complex<T>[kPointsPerThread];

  StoredInput<T> vectors;
  StoredOutput<T> out;
  int64_t items;
  int64_t item_stride;

  KERNEL_DEVICE MultibindRow(const TwiddlePoint<T>* twiddles, int rank, const MultibindParams& params, Storage storage)
      : Base(twiddles, params.rows, params.dim, rank),
        vectors(stored_input<T>(params.vectors, storage) + placed_row(params.map, 0, r)),
        out(stored_output<T>(params.out, storage) + r * params.dim),
        items(params.items),
        item_stride(params.item_stride) {}

  KERNEL_DEVICE bool run(bool scaled, State& state) const {
    Bins product;
    Bins item;
    // The product so far stands for product 2^total; where scaled, every item and product is brought near 1.
    int64_t total = 0;
    bool finite = true;
    bool good = true;
    bool vanished = false;
    bool nonzero = false;  // of the item with which it vanished
    for (int64_t k = 0; k < items; ++k) {
      const StoredInput<T> row = vectors + k * item_stride;
      int exponent = 0;
      if (scaled) {
        const MeasuredRow measured = measure_row(fft, row, row_dim);
        finite = finite && measured.finite;
        exponent = measured.exponent;
        total += exponent;
      }
      load_row(fft, row, row_dim, item);
      scale_down(item, exponent);
      const bool nonzero_item = any_nonzero(item);
      fft.forward(item);
      split_bins(fft, item);
      if (k == 0) {
        copy_points(item, product);
      } else {
        const Complex<T> ends{product[0].re * item[0].re, product[0].im * item[0].im};
        for (int i = 0; i < kPointsPerThread; ++i) {
          product[i] = multiply(product[i], item[i]);
        }
        product[0] = fft.thread == 0 ? ends : product[0];
      }
      const T squared = fft.row_sum(inner_product(product, product));
      if (scaled) {
        const int shift = scale_exponent(squared) / 2;
        scale_down(product, shift);
        total += shift;
      } else if (squared == T{0}) {
        nonzero = vanished ? nonzero : nonzero_item;
        vanished = true;
      } else {
        good = good && safe_squared_norm(squared);
      }
    }
    scale_points(product, T{1} / Fft::kPoints);
    merge_bins(fft, product);
    fft.inverse(product);
    bool repeat = fft.team_any(exists() && (!good || vanished));
    if (repeat) {
      // What a row of zeros leaves is zero as it stands.
      const bool zero = !fft.row_any(nonzero);
      good = good && (zero || !vanished);
      repeat = fft.team_any(exists() && !good);
    }
    if (exists() && !state.stored && good) {
      if (finite) {
        store_row(fft, product, total, out);
      } else {
        store_nan(fft, row_dim, out);
      }
      state.stored = true;
    }
    return repeat;
  }
};

// out[r] = vectors[r,0] conv vectors[r,1] conv ...
template <typename T, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    multibind_kernel(MultibindParams params, Storage storage, const TwiddlePoint<T>* twiddles) {
  run_row<MultibindRow<T, kLog2>>(twiddles, params, storage);
}

}  // namespace torch_hrr::kernels
