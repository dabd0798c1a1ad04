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
struct ChirpRow : ThreadRow<double, kLog2> {
  using Base = ThreadRow<double, kLog2>;
  using Base::dim;
  using Base::exists;
  using Base::fft;
  using Base::r;
  using Base::row_dim;
  using typename Base::Fft;
  using State = RowState;
  using Points = Complex<double>[kPointsPerThread];

  ChirpTables tables;

  KERNEL_DEVICE ChirpRow(const TwiddlePoint<double>* twiddles, int rank, const ChirpTables& tables_, int64_t rows,
                         int64_t dim_)
      : Base(twiddles, rows, dim_, rank), tables(tables_) {}

  // The point of slot i in the time layout.
  KERNEL_DEVICE int point_of_slot(int i) const {
    constexpr int kRuns = kPointsPerThread / Fft::kRun;
    return fft.time_point(i % kRuns) + i / kRuns;
  }
  KERNEL_DEVICE Complex<double> wave(int n) const {
    return {tables.wave_re[n], tables.wave_im[n]};
  }
  // Bin 0 and, for even rows, D/2.
  KERNEL_DEVICE bool is_real(int k) const {
    return k == 0 || 2 * k == dim;
  }

  // v <- v conv chirp
  KERNEL_DEVICE void convolve(Points& v, const double* re, const double* im) const {
    fft.forward(v);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = bin_of_slot(fft, i);
      v[i] = multiply(v[i], Complex<double>{re[k], im[k]});
    }
    fft.inverse(v);
  }

  KERNEL_DEVICE MeasuredRow measure(const double* row) const {
    return measure_row(fft, stored_input<double>(row, Storage::kDouble), row_dim);
  }

  // The bins of `row` 2^-exponent, k <= D/2 in the time layout, zeros beyond; returns norm2(row 2^-exponent)^2.
  KERNEL_DEVICE double load_bins(const double* row, int exponent, Points& v, bool& nonzero) const {
    const double factor = exact_power<double>(-exponent);
    double squared = 0;
    nonzero = false;
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = point_of_slot(i);
      v[i] = {0, 0};
      if (n < row_dim) {
        const double x = row[n] * factor;
        const Complex<double> w = wave(n);
        v[i] = {x * w.re, -(x * w.im)};
        squared = multiply_add(x, x, squared);
        nonzero = nonzero || x != 0;
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

  // The elements of the row with these bins, as real parts.
  KERNEL_DEVICE void invert(Points& v) const {
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

  // Stores the real parts times 2^exponent.
  KERNEL_DEVICE void store_reals(const Points& v, int64_t exponent, double* out) const {
    const ScaleFactors<double> power(exponent);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = point_of_slot(i);
      if (n < row_dim) {
        out[n] = power.times(v[i].re);
      }
    }
  }

  // Stores the bins times 2^exponent, packed.
  KERNEL_DEVICE void store_bins(const Points& v, int exponent, double* out) const {
    const ScaleFactors<double> power(exponent);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = point_of_slot(i);
      if (2 * k <= row_dim) {
        out[k == 0 ? 0 : 2 * k - 1] = power.times(v[i].re);
        if (!is_real(k)) {
          out[2 * k] = power.times(v[i].im);
        }
      }
    }
  }

  KERNEL_DEVICE double* output(void* rows) const {
    return static_cast<double*>(rows) + r * dim;
  }
  KERNEL_DEVICE void store_nan_unless(bool finite, double* out, bool& stored) const {
    Base::store_nan_unless(finite, stored_output<double>(out, Storage::kDouble), stored);
  }
};

// A row of a map.
template <int kLog2>
struct ChirpMapRow : ChirpRow<kLog2> {
  using Base = ChirpRow<kLog2>;
  using Base::dim;
  using Base::exists;
  using Base::fft;
  using Base::r;
  using typename Base::Points;

  const SpectralMapParams& params;

  KERNEL_DEVICE ChirpMapRow(const TwiddlePoint<double>* twiddles, int rank, const ChirpMapParams& p)
      : Base(twiddles, rank, p.tables, p.map.rows, p.map.dim), params(p.map) {}

  KERNEL_DEVICE bool run(bool scaled, RowState& state) const {
    const double* const a = static_cast<const double*>(params.a) + placed_row(params.map, 0, r);
    const double* const v =
        params.v == nullptr ? nullptr : static_cast<const double*>(params.v) + placed_row(params.map, 1, r);
    const double exponent =
        params.exponents == nullptr ? params.exponent : params.exponents[placed_row(params.map, 2, r)];
    double* const out = this->output(params.out);
    int exponent_a = 0;
    int exponent_v = 0;
    if (scaled) {
      const MeasuredRow of_a = this->measure(a);
      const MeasuredRow of_v = v != nullptr ? this->measure(v) : MeasuredRow{};
      exponent_a = of_a.exponent;
      exponent_v = of_v.exponent;
      this->store_nan_unless(of_a.finite && of_v.finite, out, state.stored);
    }
    Points bins;
    Points directions;
    bool nonzero_a = false;
    bool nonzero_v = false;
    const double squared = this->load_bins(a, exponent_a, bins, nonzero_a);
    double squared_v = 1;
    if (v != nullptr) {
      squared_v = this->load_bins(v, exponent_v, directions, nonzero_v);
    } else {
      for (int i = 0; i < kPointsPerThread; ++i) {
        directions[i] = {0, 0};
      }
    }
    const RowMapping mapping =
        row_mapping(params.kind, squared, exponent_a, dim, params.roundoff, params.eps, exponent, params.order);
#pragma unroll
    for (int i = 0; i < kPointsPerThread; ++i) {
      if (2 * this->point_of_slot(i) <= dim) {
        bins[i] = map_bin_of(params.kind, Complex<double>{bins[i].re * mapping.factor, bins[i].im * mapping.factor},
                             directions[i], mapping.scalars);
      }
    }
    this->invert(bins);
    bool good = scaled || (safe_squared_norm(squared) && safe_squared_norm(squared_v));
    bool repeat = fft.team_any(exists() && !good);
    if (repeat) {
      good = safe_or_zero(fft, squared, nonzero_a);
      good = safe_or_zero(fft, squared_v, nonzero_v) && good;
      repeat = fft.team_any(exists() && !good);
    }
    if (exists() && !state.stored && good) {
      this->store_reals(bins, mapping.exponent + exponent_v, out);
      state.stored = true;
    }
    return repeat;
  }
};

// A row of a product of many vectors.
template <int kLog2>
struct ChirpMultibindRow : ChirpRow<kLog2> {
  using Base = ChirpRow<kLog2>;
  using Base::exists;
  using Base::fft;
  using Base::r;
  using typename Base::Points;

  const MultibindParams& params;

  KERNEL_DEVICE ChirpMultibindRow(const TwiddlePoint<double>* twiddles, int rank, const ChirpMultibindParams& p)
      : Base(twiddles, rank, p.tables, p.multibind.rows, p.multibind.dim), params(p.multibind) {}

  // As MultibindRow.
  KERNEL_DEVICE bool run(bool scaled, RowState& state) const {
    const double* const vectors = static_cast<const double*>(params.vectors) + placed_row(params.map, 0, r);
    double* const out = this->output(params.out);
    int64_t total = 0;
    bool finite = true;
    bool good = true;
    bool vanished = false;
    bool nonzero = false;
    Points product;
    Points item;
    for (int64_t k = 0; k < params.items; ++k) {
      const double* const row = vectors + k * params.item_stride;
      int exponent = 0;
      if (scaled) {
        const MeasuredRow measured = this->measure(row);
        finite = finite && measured.finite;
        exponent = measured.exponent;
        total += exponent;
      }
      bool nonzero_item = false;
      this->load_bins(row, exponent, item, nonzero_item);
      double squared = 0;
#pragma unroll
      for (int i = 0; i < kPointsPerThread; ++i) {
        product[i] = k == 0 ? item[i] : multiply(product[i], item[i]);
        squared = multiply_add(product[i].re, product[i].re, multiply_add(product[i].im, product[i].im, squared));
      }
      squared = fft.row_sum(squared);
      if (scaled) {
        const int near = scale_exponent(squared) / 2;
        scale_down(product, near);
        total += near;
      } else if (squared == 0) {
        nonzero = vanished ? nonzero : nonzero_item;
        vanished = true;
      } else {
        good = good && safe_squared_norm(squared);
      }
    }
    this->invert(product);
    bool repeat = fft.team_any(exists() && (!good || vanished));
    if (repeat) {
      const bool zero = !fft.row_any(nonzero);
      good = good && (zero || !vanished);
      repeat = fft.team_any(exists() && !good);
    }
    if (exists() && !state.stored && good) {
      this->store_nan_unless(finite, out, state.stored);
      if (finite) {
        this->store_reals(product, total, out);
        state.stored = true;
      }
    }
    return repeat;
  }
};

// A packed spectrum, or the row of one.
template <int kLog2>
struct ChirpPackedRow : ChirpRow<kLog2> {
  using Base = ChirpRow<kLog2>;
  using Base::exists;
  using Base::fft;
  using Base::r;
  using Base::row_dim;
  using typename Base::Points;

  const PackedSpectrumParams& params;

  KERNEL_DEVICE ChirpPackedRow(const TwiddlePoint<double>* twiddles, int rank, const ChirpPackedParams& p)
      : Base(twiddles, rank, p.tables, p.packed.rows, p.packed.dim), params(p.packed) {}

  KERNEL_DEVICE bool run(bool scaled, RowState& state) const {
    const double* const in = static_cast<const double*>(params.in) + placed_row(params.map, 0, r);
    double* const out = this->output(params.out);
    int exponent = 0;
    if (scaled) {
      const MeasuredRow measured = this->measure(in);
      exponent = measured.exponent;
      this->store_nan_unless(measured.finite, out, state.stored);
    }
    double squared = 0;
    bool nonzero = false;
    Points v;
    if (params.inverse) {
      const double factor = exact_power<double>(-exponent);
      for (int i = 0; i < kPointsPerThread; ++i) {
        const int k = this->point_of_slot(i);
        v[i] = {0, 0};
        if (2 * k <= row_dim && row_dim > 0) {
          v[i] = {in[k == 0 ? 0 : 2 * k - 1] * factor, this->is_real(k) ? 0 : in[2 * k] * factor};
          squared = multiply_add(v[i].re, v[i].re, multiply_add(v[i].im, v[i].im, squared));
        }
      }
      squared = fft.row_sum(squared);
      nonzero = any_nonzero(v);
      this->invert(v);
    } else {
      squared = this->load_bins(in, exponent, v, nonzero);
    }
    bool good = scaled || safe_squared_norm(squared);
    bool repeat = fft.team_any(exists() && !good);
    if (repeat) {
      good = safe_or_zero(fft, squared, nonzero);
      repeat = fft.team_any(exists() && !good);
    }
    if (exists() && !state.stored && good) {
      if (params.inverse) {
        this->store_reals(v, exponent, out);
      } else {
        this->store_bins(v, exponent, out);
      }
      state.stored = true;
    }
    return repeat;
  }
};

// out[r] = the row whose bins are map(A, V), rows in double.
template <int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    chirp_map_kernel(ChirpMapParams params, const TwiddlePoint<double>* twiddles) {
  run_row<ChirpMapRow<kLog2>>(twiddles, params);
}

// out[r] = vectors[r,0] conv vectors[r,1] conv ..., rows in double.
template <int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    chirp_multibind_kernel(ChirpMultibindParams params, const TwiddlePoint<double>* twiddles) {
  run_row<ChirpMultibindRow<kLog2>>(twiddles, params);
}

// Blocks that a multiprocessor is to hold, 0 for the compiler's choice: here it would spill to make room for a fifth.
template <int kLog2>
constexpr int kChirpPackedBlocks = kLog2 == 6 ? 4 : 0;

// out[r] = the packed spectrum of in[r], or the row whose packed spectrum in[r] is; rows in double.
template <int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>, kChirpPackedBlocks<kLog2>)
    chirp_packed_kernel(ChirpPackedParams params, const TwiddlePoint<double>* twiddles) {
  run_row<ChirpPackedRow<kLog2>>(twiddles, params);
}

}  // namespace torch_hrr::kernels
