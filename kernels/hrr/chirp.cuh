// Kernels of inverse, unitary, bind_power, their derivatives, multibind and packed spectra for rows of any other
// length, by Bluestein's sum over the native transforms: in double, the formulas stand in chirp_plan.h.
//
// A transform of L = 2^log2 complex points holds the row: forward, the chirp's transform, back leave a convolution in
// the time layout of fft.cuh, point for point where its input was.
#pragma once

#include "kernels/hrr/chirp_rows.h"
#include "kernels/hrr/packed_spectrum.cuh"
#include "kernels/hrr/spectral_map.cuh"

namespace torch_hrr::kernels {

template <int kLog2>
struct ChirpRow {
  using Fft = RowFft<double, kLog2>;
  using Points = Complex<double>[kPointsPerThread];

  Fft fft;
  ChirpTables tables;
  int dim;
  int row_dim;   // dim, or 0 for a row beyond the last: its threads meet every barrier, read and store nothing
  bool pending;  // this row is still to be stored

  // The point of slot i in the time layout.
  HRR_DEVICE int point_of_slot(int i) const {
    constexpr int kRuns = kPointsPerThread / Fft::kRun;
    return fft.time_point(i % kRuns) + i / kRuns;
  }
  HRR_DEVICE Complex<double> wave(int n) const {
    return {tables.wave_re[n], tables.wave_im[n]};
  }
  // Bin 0 and, for even rows, D/2.
  HRR_DEVICE bool is_real(int k) const {
    return k == 0 || 2 * k == dim;
  }

  // v <- v conv chirp
  HRR_DEVICE void convolve(Points& v, const double* re, const double* im) const {
    fft.forward(v);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = bin_of_slot(fft, i);
      v[i] = multiply(v[i], Complex<double>{re[k], im[k]});
    }
    fft.inverse(v);
  }

  // The bins of `row` 2^-shift, k <= D/2 in the time layout, zeros beyond; returns norm2(row 2^-shift)^2.
  template <bool kScaled>
  HRR_DEVICE double load_bins(const double* row, int& shift, bool& finite, Points& v) const {
    const double factor = scale_of<kScaled>(row, shift, finite);
    double squared = 0;
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = point_of_slot(i);
      v[i] = {0, 0};
      if (n < row_dim) {
        const double x = row[n] * factor;
        const Complex<double> w = wave(n);
        v[i] = {x * w.re, -(x * w.im)};
        squared = multiply_add(x, x, squared);
      }
    }
    convolve(v, tables.to_bins_re, tables.to_bins_im);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = point_of_slot(i);
      if (2 * k <= dim) {
        v[i] = multiply_conjugate(v[i], wave(k));
        v[i].im = is_real(k) ? 0 : v[i].im;
      } else {
        v[i] = {0, 0};
      }
    }
    return fft.row_sum(squared);
  }

  template <bool kScaled>
  HRR_DEVICE double scale_of(const double* row, int& shift, bool& finite) const {
    if constexpr (kScaled) {
      const double largest = row_magnitude(fft, row, row_dim);
      finite = finite && is_finite(largest);
      shift = scale_exponent(largest);
      return power_of_two<double>(-shift);
    } else {
      return 1;
    }
  }

  // The elements of the row with these bins, as real parts.
  HRR_DEVICE void invert(Points& v) const {
    const double share = 1 / static_cast<double>(dim);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = point_of_slot(i);
      Complex<double> turned{0, 0};
      if (2 * k <= dim) {
        // A real bin has no mirror.
        const double weight = is_real(k) ? share : 2 * share;
        turned = multiply(Complex<double>{v[i].re, is_real(k) ? 0 : v[i].im}, wave(k));
        turned = {turned.re * weight, -(turned.im * weight)};
      }
      v[i] = turned;
    }
    convolve(v, tables.to_row_re, tables.to_row_im);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = point_of_slot(i);
      if (n < dim) {
        const Complex<double> w = wave(n);
        v[i].re = multiply_add(v[i].re, w.re, v[i].im * w.im);
      }
    }
  }

  // out = the real parts times 2^exponent
  HRR_DEVICE void store(const Points& v, int exponent, double* out) const {
    const PowerOfTwo<double> power(exponent);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = point_of_slot(i);
      if (n < row_dim) {
        out[n] = v[i].re * power.first * power.second;
      }
    }
  }

  // Stores the row of a map. Without kScaled, a row whose spectrum left the safe range stays pending; true in the whole
  // team if there is one.
  template <bool kScaled>
  HRR_DEVICE bool map(const SpectralMapParams& params, int64_t r) {
    bool finite = true;
    int shift_a = 0;
    int shift_v = 0;
    Points bins;
    Points directions;
    const double* const a = static_cast<const double*>(params.a) + placed_row(params.map, 0, r);
    const double squared = load_bins<kScaled>(a, shift_a, finite, bins);
    bool good = kScaled || safe_squared_norm(squared);
    if (params.v != nullptr) {
      const double* const v = static_cast<const double*>(params.v) + placed_row(params.map, 1, r);
      const double squared_v = load_bins<kScaled>(v, shift_v, finite, directions);
      good = good && (kScaled || safe_squared_norm(squared_v));
    } else {
      for (int i = 0; i < kPointsPerThread; ++i) {
        directions[i] = {0, 0};
      }
    }
    const int exponent_of_bins = bin_exponent(squared);
    const int scale = exponent_of_bins + shift_a;
    const ScaledEps eps = scaled_eps(params.eps, scale);
    const double exponent =
        params.exponents == nullptr ? params.exponent : params.exponents[placed_row(params.map, 2, r)];
    const BinScalars scalars = bin_scalars(::ldexp(squared, -2 * exponent_of_bins), dim, params.epsilon, eps.eps,
                                           exponent, scale, params.order);
    const double factor = ::ldexp(1.0, -exponent_of_bins);
#pragma unroll
    for (int i = 0; i < kPointsPerThread; ++i) {
      if (2 * point_of_slot(i) <= dim) {
        bins[i] =
            map_bin_of(params.kind, Complex<double>{bins[i].re * factor, bins[i].im * factor}, directions[i], scalars);
      }
    }
    invert(bins);
    return finish<kScaled>(bins, finite, good,
                           mapped_scale(params.kind, scale) + shift_v - (divides_by_eps(params.kind) ? eps.shift : 0),
                           static_cast<double*>(params.out) + r * params.dim);
  }

  // The same for a product of many vectors.
  template <bool kScaled>
  HRR_DEVICE bool multibind(const MultibindParams& params, int64_t r) {
    bool finite = true;
    bool good = true;
    // The product so far stands for product 2^total; with kScaled it is near 1.
    int64_t total = 0;
    Points product;
    Points item;
    const double* const vectors = static_cast<const double*>(params.vectors) + placed_row(params.map, 0, r);
    for (int64_t k = 0; k < params.items; ++k) {
      int shift = 0;
      load_bins<kScaled>(vectors + k * params.item_stride, shift, finite, item);
      total += shift;
      double squared = 0;
#pragma unroll
      for (int i = 0; i < kPointsPerThread; ++i) {
        product[i] = k == 0 ? item[i] : multiply(product[i], item[i]);
        squared = multiply_add(product[i].re, product[i].re, multiply_add(product[i].im, product[i].im, squared));
      }
      squared = fft.row_sum(squared);
      if constexpr (kScaled) {
        const int near = scale_exponent(squared) / 2;
        scale_bins(product, power_of_two<double>(-near));
        total += near;
      } else {
        good = good && safe_squared_norm(squared);
      }
    }
    invert(product);
    constexpr int64_t kLimit = 2 * kLargestExponent<double>;
    return finish<kScaled>(product, finite, good,
                           static_cast<int>(total > kLimit    ? kLimit
                                            : total < -kLimit ? -kLimit
                                                              : total),
                           static_cast<double*>(params.out) + r * params.dim);
  }

  // The same for a packed spectrum or the row of one.
  template <bool kScaled>
  HRR_DEVICE bool pack(const PackedSpectrumParams& params, int64_t r) {
    bool finite = true;
    int shift = 0;
    double squared = 0;
    Points v;
    const double* const in = static_cast<const double*>(params.in) + placed_row(params.map, 0, r);
    double* const out = static_cast<double*>(params.out) + r * params.dim;
    if (params.inverse) {
      const double factor = scale_of<kScaled>(in, shift, finite);
      for (int i = 0; i < kPointsPerThread; ++i) {
        const int k = point_of_slot(i);
        v[i] = {0, 0};
        if (2 * k <= row_dim && row_dim > 0) {
          v[i] = {in[k == 0 ? 0 : 2 * k - 1] * factor, is_real(k) ? 0 : in[2 * k] * factor};
          squared = multiply_add(v[i].re, v[i].re, multiply_add(v[i].im, v[i].im, squared));
        }
      }
      squared = fft.row_sum(squared);
      invert(v);
    } else {
      squared = load_bins<kScaled>(in, shift, finite, v);
    }
    const bool good = kScaled || safe_squared_norm(squared);
    if (params.inverse || !finite) {
      return finish<kScaled>(v, finite, good, shift, out);
    }
    bool repeat = false;
    if constexpr (!kScaled) {
      repeat = fft.team_any(pending && !good);
    }
    if (pending && good) {
      const PowerOfTwo<double> power(shift);
      for (int i = 0; i < kPointsPerThread; ++i) {
        const int k = point_of_slot(i);
        if (2 * k <= dim) {
          out[k == 0 ? 0 : 2 * k - 1] = v[i].re * power.first * power.second;
          if (!is_real(k)) {
            out[2 * k] = v[i].im * power.first * power.second;
          }
        }
      }
      pending = false;
    }
    return repeat;
  }

  template <bool kScaled>
  HRR_DEVICE bool finish(const Points& v, bool finite, bool good, int exponent, double* out) {
    bool repeat = false;
    if constexpr (!kScaled) {
      repeat = fft.team_any(pending && !good);
    }
    if (pending && good) {
      if (finite) {
        store(v, exponent, out);
      } else {
        store_nan(fft, row_dim, out);
      }
      pending = false;
    }
    return repeat;
  }
};

template <int kLog2>
HRR_COLD void map_scaled(ChirpRow<kLog2> row, const ChirpMapParams& params, int64_t r) {
  row.template map<true>(params.map, r);
}
template <int kLog2>
HRR_COLD void multibind_scaled(ChirpRow<kLog2> row, const ChirpMultibindParams& params, int64_t r) {
  row.template multibind<true>(params.multibind, r);
}
template <int kLog2>
HRR_COLD void pack_scaled(ChirpRow<kLog2> row, const ChirpPackedParams& params, int64_t r) {
  row.template pack<true>(params.packed, r);
}

// The row of this thread, and its index.
template <int kLog2>
HRR_DEVICE ChirpRow<kLog2> chirp_row(const ChirpTables& tables, int64_t rows, int64_t dim,
                                     const TwiddlePoint<double>* twiddles, int64_t& r) {
  const typename ChirpRow<kLog2>::Fft fft(twiddles);
  const int64_t index = static_cast<int64_t>(blockIdx.x) * ChirpRow<kLog2>::Fft::rows_per_block() + fft.row;
  const bool exists = index < rows;
  r = exists ? index : 0;
  return {fft, tables, static_cast<int>(dim), exists ? static_cast<int>(dim) : 0, exists};
}

// out[r] = the row whose bins are map(A, V), rows in double.
template <int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    chirp_map_kernel(ChirpMapParams params, const TwiddlePoint<double>* twiddles) {
  int64_t r = 0;
  ChirpRow<kLog2> row = chirp_row<kLog2>(params.tables, params.map.rows, params.map.dim, twiddles, r);
  if (row.template map<false>(params.map, r)) {
    map_scaled(row, params, r);
  }
}

// out[r] = vectors[r,0] conv vectors[r,1] conv ..., rows in double.
template <int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    chirp_multibind_kernel(ChirpMultibindParams params, const TwiddlePoint<double>* twiddles) {
  int64_t r = 0;
  ChirpRow<kLog2> row = chirp_row<kLog2>(params.tables, params.multibind.rows, params.multibind.dim, twiddles, r);
  if (row.template multibind<false>(params.multibind, r)) {
    multibind_scaled(row, params, r);
  }
}

// out[r] = the packed spectrum of in[r], or the row whose packed spectrum in[r] is; rows in double.
template <int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    chirp_packed_kernel(ChirpPackedParams params, const TwiddlePoint<double>* twiddles) {
  int64_t r = 0;
  ChirpRow<kLog2> row = chirp_row<kLog2>(params.tables, params.packed.rows, params.packed.dim, twiddles, r);
  if (row.template pack<false>(params.packed, r)) {
    pack_scaled(row, params, r);
  }
}

}  // namespace torch_hrr::kernels
