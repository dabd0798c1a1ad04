// Kernels of inverse, unitary, bind_power and their derivatives, and of multibind, for rows of native length.
#pragma once

#include "kernels/cuda/device_math.cuh"

#include "kernels/hrr/bin_maps.h"
#include "kernels/hrr/bin_pairs.cuh"

namespace torch_hrr::kernels {

// map_bin with the map as a run-time choice, out of line: one copy of the functions in double serves every length.
template <typename L>
HRR_COLD Complex<L> map_bin_of(SpectralMap kind, Complex<L> a, Complex<L> v, BinScalars row) {
  Complex<L> result{0, 0};
  with_map(kind, [&](auto map) { result = map_bin<decltype(map)::value>(a, v, row); });
  return result;
}

// One output row of a map of spectra.
template <typename S, int kLog2>
struct SpectralRow {
  using T = compute_t<S>;
  using Fft = RowFft<T, kLog2>;
  using Bins = Complex<T>[kPointsPerThread];

  Fft fft;
  const S* a;
  const S* v;  // null where the map takes no direction
  S* out;
  SpectralMap kind;
  double eps;
  double exponent;
  int32_t order;
  int row_dim;   // 2M, or 0 for a row beyond the last: its threads meet every barrier, read and store nothing
  bool pending;  // this row is still to be stored

  // The bins of row 2^-shift; returns sum |Z|^2.
  template <bool kScaled>
  HRR_DEVICE T load_bins(const S* row, int& shift, bool& finite, Bins& bins) const {
    T factor = 1;
    if constexpr (kScaled) {
      const T largest = row_magnitude(fft, row, row_dim);
      finite = finite && is_finite(largest);
      shift = scale_exponent(largest);
      factor = power_of_two<T>(-shift);
    }
    load_row(fft, row, row_dim, factor, bins);
    fft.forward(bins);
    const T squared = fft.row_sum(inner_product(bins, bins));
    untangle_bins(fft, bins);
    return squared;
  }

  HRR_DEVICE Complex<double> mapped(Complex<T> bin, Complex<T> direction, double factor,
                                    const BinScalars& scalars) const {
    return map_bin_of(kind, Complex<double>{static_cast<double>(bin.re) * factor, static_cast<double>(bin.im) * factor},
                      Complex<double>{static_cast<double>(direction.re), static_cast<double>(direction.im)}, scalars);
  }

  // a <- map(a factor, v) / M
  HRR_DEVICE void map_bins(Bins& bins, const Bins& directions, double factor, const BinScalars& scalars) const {
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

  // Stores the row. Without kScaled, a row whose spectrum left the safe range stays pending; true in the whole team if
  // there is one.
  template <bool kScaled>
  HRR_DEVICE bool run() {
    bool finite = true;
    int shift_a = 0;
    int shift_v = 0;
    Bins bins;
    Bins directions;
    const T squared = load_bins<kScaled>(a, shift_a, finite, bins);
    bool good = kScaled || safe_squared_norm(squared);
    if (v != nullptr) {
      const T squared_v = load_bins<kScaled>(v, shift_v, finite, directions);
      good = good && (kScaled || safe_squared_norm(squared_v));
    } else {
      for (int i = 0; i < kPointsPerThread; ++i) {
        directions[i] = {T{0}, T{0}};
      }
    }
    // sum |A_k|^2 over all D bins is 2 sum |Z|^2 and D norm2(a)^2; the mapped bins are near 1.
    constexpr int64_t kDim = 2 * Fft::kPoints;
    const double norm_squared = 2 * static_cast<double>(squared) / kDim;
    const int exponent_of_bins = bin_exponent(norm_squared);
    constexpr double kEpsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
    const int scale = exponent_of_bins + shift_a;
    const ScaledEps divisor = scaled_eps(eps, scale);
    const BinScalars scalars =
        bin_scalars(::ldexp(norm_squared, -2 * exponent_of_bins), kDim, kEpsilon, divisor.eps, exponent, scale, order);
    map_bins(bins, directions, ::ldexp(1.0, -exponent_of_bins), scalars);
    retangle_bins(fft, bins);
    fft.inverse(bins);
    bool repeat = false;
    if constexpr (!kScaled) {
      repeat = fft.team_any(pending && !good);
    }
    if (pending && good) {
      if (finite) {
        store_row(fft, bins,
                  PowerOfTwo<T>(mapped_scale(kind, scale) + shift_v - (divides_by_eps(kind) ? divisor.shift : 0)), out);
      } else {
        store_nan(fft, row_dim, out);
      }
      pending = false;
    }
    return repeat;
  }
};

template <typename S, int kLog2>
HRR_COLD void run_scaled(SpectralRow<S, kLog2> row) {
  row.template run<true>();
}

// out[r] = the row whose bins are map(A, V).
template <typename S, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    spectral_map_kernel(SpectralMapParams params, const TwiddlePoint<compute_t<S>>* twiddles) {
  using Row = SpectralRow<S, kLog2>;
  const typename Row::Fft fft(twiddles);
  const int64_t index = static_cast<int64_t>(blockIdx.x) * Row::Fft::rows_per_block() + fft.row;
  const bool exists = index < params.rows;
  const int64_t r = exists ? index : 0;
  const S* const directions = static_cast<const S*>(params.v);
  Row row{fft,
          static_cast<const S*>(params.a) + placed_row(params.map, 0, r),
          directions == nullptr ? nullptr : directions + placed_row(params.map, 1, r),
          static_cast<S*>(params.out) + r * params.dim,
          params.kind,
          params.eps,
          params.exponents == nullptr ? params.exponent : params.exponents[placed_row(params.map, 2, r)],
          params.order,
          exists ? static_cast<int>(params.dim) : 0,
          exists};
  if (row.template run<false>()) {
    run_scaled(row);
  }
}

// One product of many vectors.
template <typename S, int kLog2>
struct MultibindRow {
  using T = compute_t<S>;
  using Fft = RowFft<T, kLog2>;

  Fft fft;
  const S* vectors;
  int64_t items;
  int64_t item_stride;
  S* out;
  int row_dim;  // as in SpectralRow
  bool pending;

  // The spectrum of item k; with kScaled that of item 2^-shift, shift added to total.
  template <bool kScaled>
  HRR_DEVICE void load_item(int64_t k, int64_t& total, bool& finite, Complex<T> (&bins)[kPointsPerThread]) const {
    const S* const row = vectors + k * item_stride;
    T factor = 1;
    if constexpr (kScaled) {
      const T largest = row_magnitude(fft, row, row_dim);
      finite = finite && is_finite(largest);
      const int shift = scale_exponent(largest);
      factor = power_of_two<T>(-shift);
      total += shift;
    }
    load_row(fft, row, row_dim, factor, bins);
    fft.forward(bins);
  }

  // Whether the product is in the safe range; with kScaled it is brought near 1 instead.
  template <bool kScaled>
  HRR_DEVICE bool keep_in_range(Complex<T> (&product)[kPointsPerThread], int64_t& total) const {
    const T squared = fft.row_sum(inner_product(product, product));
    if constexpr (kScaled) {
      const int shift = scale_exponent(squared) / 2;
      scale_bins(product, power_of_two<T>(-shift));
      total += shift;
      return true;
    } else {
      return safe_squared_norm(squared);
    }
  }

  // Stores the row. Without kScaled, a row whose product left the safe range on the way stays pending; true in the
  // whole team if there is one.
  template <bool kScaled>
  HRR_DEVICE bool run() {
    Complex<T> product[kPointsPerThread];
    Complex<T> item[kPointsPerThread];
    bool finite = true;
    // The product so far stands for product 2^total.
    int64_t total = 0;
    load_item<kScaled>(0, total, finite, product);
    bool good = keep_in_range<kScaled>(product, total);
    for (int64_t k = 1; k < items; ++k) {
      load_item<kScaled>(k, total, finite, item);
      multiply_bins(fft, Product::kConvolution, product, item, product);
      good = keep_in_range<kScaled>(product, total) && good;
    }
    scale_bins(product, T{1} / Fft::kPoints);
    fft.inverse(product);
    bool repeat = false;
    if constexpr (!kScaled) {
      repeat = fft.team_any(pending && !good);
    }
    if (pending && good) {
      if (finite) {
        constexpr int64_t kLimit = 2 * kLargestExponent<T>;
        store_row(fft, product,
                  PowerOfTwo<T>(static_cast<int>(total > kLimit    ? kLimit
                                                 : total < -kLimit ? -kLimit
                                                                   : total)),
                  out);
      } else {
        store_nan(fft, row_dim, out);
      }
      pending = false;
    }
    return repeat;
  }
};

template <typename S, int kLog2>
HRR_COLD void run_scaled(MultibindRow<S, kLog2> row) {
  row.template run<true>();
}

// out[r] = vectors[r,0] conv vectors[r,1] conv ...
template <typename S, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    multibind_kernel(MultibindParams params, const TwiddlePoint<compute_t<S>>* twiddles) {
  using Row = MultibindRow<S, kLog2>;
  const typename Row::Fft fft(twiddles);
  const int64_t index = static_cast<int64_t>(blockIdx.x) * Row::Fft::rows_per_block() + fft.row;
  const bool exists = index < params.rows;
  const int64_t r = exists ? index : 0;
  Row row{fft,
          static_cast<const S*>(params.vectors) + placed_row(params.map, 0, r),
          params.items,
          params.item_stride,
          static_cast<S*>(params.out) + r * params.dim,
          exists ? static_cast<int>(params.dim) : 0,
          exists};
  if (row.template run<false>()) {
    run_scaled(row);
  }
}

}  // namespace torch_hrr::kernels
