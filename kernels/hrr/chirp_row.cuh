// A row of any length in double by Bluestein's sum over a native transform, whose formulas stand in chirp_plan.h; what
// a row offers stands in fft_row.cuh.
//
// A transform of L = 2^log2 complex points holds the row: forward, the chirp's transform, back leave a convolution in
// the time layout of fft.cuh, point for point where its input was. A spectrum is the row's own bins k <= D/2 in that
// layout, zeros beyond.
#pragma once

#include "kernels/hrr/chirp_rows.h"
#include "kernels/hrr/fft_row.cuh"

namespace torch_hrr::kernels {

template <int kLog2>
struct ChirpRow : RegisterRow<double, kLog2> {
  using Base = RegisterRow<double, kLog2>;
  using Base::dim;
  using Base::fft;
  using Base::row_dim;
  using typename Base::Fft;
  using typename Base::Spectrum;

  ChirpTables tables;

  KERNEL_DEVICE ChirpRow(const TwiddlePoint<double>* twiddles, const ChirpTables& tables_, int64_t rows, int64_t dim_)
      : Base(twiddles, rows, dim_), tables(tables_) {}

  // `invert` divides.
  KERNEL_DEVICE static constexpr double share() {
    return 1;
  }

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

  // s <- s conv chirp
  KERNEL_DEVICE void convolve(Spectrum& s, const double* re, const double* im) const {
    fft.forward(s.v);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = bin_of_slot(fft, i);
      s.v[i] = multiply(s.v[i], Complex<double>{re[k], im[k]});
    }
    fft.inverse(s.v);
  }

  KERNEL_DEVICE MeasuredRow load(StoredInput<double> row, Spectrum& s) const {
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = point_of_slot(i);
      s.v[i] = {n < row_dim ? row[n] : 0, 0};
    }
    const MeasuredRow measured = scale_to_range(fft, s.v);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = point_of_slot(i);
      if (n < row_dim) {
        const Complex<double> w = wave(n);
        s.v[i] = {s.v[i].re * w.re, -(s.v[i].re * w.im)};
      }
    }
    convolve(s, tables.to_bins_re, tables.to_bins_im);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = point_of_slot(i);
      if (2 * k <= dim) {
        s.v[i] = multiply_conjugate(s.v[i], wave(k));
        s.v[i].im = is_real(k) ? 0 : s.v[i].im;
      } else {
        s.v[i] = {0, 0};
      }
    }
    return measured;
  }

  KERNEL_DEVICE double squared_norm(const Spectrum& s) const {
    double squared = 0;
    for (int i = 0; i < kPointsPerThread; ++i) {
      const double power = multiply_add(s.v[i].re, s.v[i].re, s.v[i].im * s.v[i].im);
      // A real bin has no mirror.
      squared += is_real(point_of_slot(i)) ? power : 2 * power;
    }
    return fft.row_sum(squared) / static_cast<double>(dim);
  }
  KERNEL_DEVICE void split(Spectrum&) const {}
  KERNEL_DEVICE void merge(Spectrum&) const {}

  KERNEL_DEVICE MeasuredRow load_packed(StoredInput<double> packed, Spectrum& s) const {
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = point_of_slot(i);
      s.v[i] = {0, 0};
      if (k < row_dim && 2 * k <= row_dim) {
        s.v[i] = {packed[packed_real(k)], is_real(k) ? 0 : packed[packed_imaginary(k)]};
      }
    }
    return scale_to_range(fft, s.v);
  }

  KERNEL_DEVICE void store_packed(const Spectrum& s, int64_t exponent, bool finite, StoredOutput<double> row) const {
    const ScaleFactors<double> power(exponent, finite);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = point_of_slot(i);
      if (k < row_dim && 2 * k <= row_dim) {
        row.set(packed_real(k), power.times(s.v[i].re));
        if (!is_real(k)) {
          row.set(packed_imaginary(k), power.times(s.v[i].im));
        }
      }
    }
  }

  // The elements of the row with these bins, as real parts.
  KERNEL_DEVICE void invert(Spectrum& s) const {
    const double inverse_dim = 1 / static_cast<double>(dim);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = point_of_slot(i);
      Complex<double> turned{0, 0};
      if (2 * k <= dim) {
        const double weight = is_real(k) ? inverse_dim : 2 * inverse_dim;
        turned = multiply(Complex<double>{s.v[i].re, is_real(k) ? 0 : s.v[i].im}, wave(k));
        turned = {turned.re * weight, -(turned.im * weight)};
      }
      s.v[i] = turned;
    }
    convolve(s, tables.to_row_re, tables.to_row_im);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = point_of_slot(i);
      if (n < dim) {
        const Complex<double> w = wave(n);
        s.v[i].re = multiply_add(s.v[i].re, w.re, s.v[i].im * w.im);
      }
    }
  }

  KERNEL_DEVICE void store(Spectrum& s, double factor, int64_t exponent, bool finite, StoredOutput<double> row) const {
    invert(s);
    const ScaleFactors<double> power(exponent, finite);
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int n = point_of_slot(i);
      if (n < row_dim) {
        row.set(n, power.times(s.v[i].re * factor));
      }
    }
  }

  template <typename Map>
  KERNEL_DEVICE void map_bins(Spectrum& s, const Spectrum& v, bool, const Map& map) const {
#pragma unroll
    for (int i = 0; i < kPointsPerThread; ++i) {
      if (2 * point_of_slot(i) <= dim) {
        s.v[i] = map(s.v[i], v.v[i]);
      }
    }
  }

  KERNEL_DEVICE void set_identity(Spectrum& s) const {
    for (int i = 0; i < kPointsPerThread; ++i) {
      s.v[i] = {1, 0};
    }
  }
  KERNEL_DEVICE void multiply_bins(Spectrum& x, const Spectrum& y) const {
    for (int i = 0; i < kPointsPerThread; ++i) {
      x.v[i] = multiply(x.v[i], y.v[i]);
    }
  }
};

}  // namespace torch_hrr::kernels
