// Kernels of spectrum, from_spectrum, bind_spectrum and unbind_spectrum for rows of native length.
#pragma once

#include "kernels/hrr/bin_pairs.cuh"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/pair_products.cuh"

namespace torch_hrr::kernels {

// The bin of slot i in the spectrum layout of fft.cuh.
template <typename T, int kLog2>
KERNEL_DEVICE int bin_of_slot(const RowFft<T, kLog2>& fft, int i) {
  constexpr int kQuarter = RowFft<T, kLog2>::kPoints / 4;
  return i < 4 ? fft.thread + i * kQuarter : fft.mirror_thread() + (i - 4) * kQuarter;
}

// v = the half-length spectrum of the row whose packed spectrum is `packed` 2^-exponent; dim 0 reads nothing.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void load_packed(const RowFft<T, kLog2>& fft, StoredInput<T> packed, int dim, int exponent,
                                    Complex<T> (&v)[kPointsPerThread]) {
  packed.visit([&](const auto* elements) {
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = bin_of_slot(fft, i);
      v[i] = {T{0}, T{0}};
      if (dim > 0) {
        v[i] = {static_cast<T>(elements[k == 0 ? 0 : 2 * k - 1]), static_cast<T>(elements[k == 0 ? dim - 1 : 2 * k])};
      }
    }
  });
  scale_down(v, exponent);
  merge_bins(fft, v);
}

// row = the packed spectrum of untangled bins, times 2^exponent.
template <typename T, int kLog2>
KERNEL_DEVICE_STEP void store_packed(const RowFft<T, kLog2>& fft, const Complex<T> (&v)[kPointsPerThread], int exponent,
                                     StoredOutput<T> row) {
  constexpr int kDim = 2 * RowFft<T, kLog2>::kPoints;
  const ScaleFactors<T> power(exponent);
  row.visit([&](auto* elements) {
    using S = std::remove_reference_t<decltype(*elements)>;
    for (int i = 0; i < kPointsPerThread; ++i) {
      const int k = bin_of_slot(fft, i);
      elements[k == 0 ? 0 : 2 * k - 1] = static_cast<S>(power.times(v[i].re));
      elements[k == 0 ? kDim - 1 : 2 * k] = static_cast<S>(power.times(v[i].im));
    }
  });
}

// One transformed row.
template <typename T, int kLog2>
struct PackedSpectrumRow : ThreadRow<T, kLog2> {
  using Base = ThreadRow<T, kLog2>;
  using Base::exists;
  using Base::fft;
  using Base::r;
  using Base::row_dim;
  using State = RowState;
  using typename Base::Fft;

  StoredInput<T> in;
  StoredOutput<T> out;
  bool inverse;

  KERNEL_DEVICE PackedSpectrumRow(const TwiddlePoint<T>* twiddles, int rank, const PackedSpectrumParams& params,
                                  Storage storage)
      : Base(twiddles, params.rows, params.dim, rank),
        in(stored_input<T>(params.in, storage) + placed_row(params.map, 0, r)),
        out(stored_output<T>(params.out, storage) + r * params.dim),
        inverse(params.inverse) {}

  KERNEL_DEVICE bool run(bool scaled, State& state) const {
    int exponent = 0;
    if (scaled) {
      const MeasuredRow measured = measure_row(fft, in, row_dim);
      exponent = measured.exponent;
      this->store_nan_unless(measured.finite, out, state.stored);
    }
    Complex<T> v[kPointsPerThread];
    bool nonzero = false;
    if (inverse) {
      load_packed(fft, in, row_dim, exponent, v);
      nonzero = any_nonzero(v);
    } else {
      load_row(fft, in, row_dim, v);
      scale_down(v, exponent);
      nonzero = any_nonzero(v);
      fft.forward(v);
    }
    const T squared = fft.row_sum(inner_product(v, v));
    bool good = scaled || safe_squared_norm(squared);
    bool repeat = fft.team_any(exists() && !good);
    if (repeat) {
      good = safe_or_zero(fft, squared, nonzero);
      repeat = fft.team_any(exists() && !good);
    }
    if (inverse) {
      scale_points(v, T{1} / Fft::kPoints);
      fft.inverse(v);
    } else {
      split_bins(fft, v);
    }
    if (exists() && !state.stored && good) {
      if (inverse) {
        store_row(fft, v, exponent, out);
      } else {
        store_packed(fft, v, exponent, out);
      }
      state.stored = true;
    }
    return repeat;
  }
};

// out[r] = the packed spectrum of in[r], or the row whose packed spectrum in[r] is.
template <typename T, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    packed_spectrum_kernel(PackedSpectrumParams params, Storage storage, const TwiddlePoint<T>* twiddles) {
  run_row<PackedSpectrumRow<T, kLog2>>(twiddles, params, storage);
}

// One product of a row and a row by its packed spectrum.
template <typename T, int kLog2>
struct SpectrumBindingRow : ThreadRow<T, kLog2> {
  using Base = ThreadRow<T, kLog2>;
  using Base::exists;
  using Base::fft;
  using Base::r;
  using Base::row_dim;
  using State = RowState;
  using typename Base::Fft;

  StoredInput<T> a;
  StoredInput<T> spectrum;
  StoredOutput<T> out;
  Product product;

  KERNEL_DEVICE SpectrumBindingRow(const TwiddlePoint<T>* twiddles, int rank, const SpectrumBindParams& params,
                                   Storage storage)
      : Base(twiddles, params.rows, params.dim, rank),
        a(stored_input<T>(params.a, storage) + placed_row(params.map, 0, r)),
        spectrum(stored_input<T>(params.spectrum, storage) + placed_row(params.map, 1, r)),
        out(stored_output<T>(params.out, storage) + r * params.dim),
        product(params.product) {}

  KERNEL_DEVICE bool run(bool scaled, State& state) const {
    int exponent_a = 0;
    int exponent_b = 0;
    if (scaled) {
      const MeasuredRow of_a = measure_row(fft, a, row_dim);
      const MeasuredRow of_b = measure_row(fft, spectrum, row_dim);
      exponent_a = of_a.exponent;
      exponent_b = of_b.exponent;
      this->store_nan_unless(of_a.finite && of_b.finite, out, state.stored);
    }
    Complex<T> v[kPointsPerThread];
    Complex<T> other[kPointsPerThread];
    load_row(fft, a, row_dim, v);
    scale_down(v, exponent_a);
    fft.forward(v);
    load_packed(fft, spectrum, row_dim, exponent_b, other);
    multiply_bins(fft, product, v, other, v);
    scale_points(v, T{1} / Fft::kPoints);
    fft.inverse(v);
    bool good = scaled || all_finite(v);
    const bool repeat = fft.team_any(exists() && !good);
    if (repeat) {
      good = !fft.row_any(!good);
    }
    if (exists() && !state.stored && good) {
      store_row(fft, v, exponent_a + exponent_b, out);
      state.stored = true;
    }
    return repeat;
  }
};

// out[r] = a[r] (*) b[r] for b given by its packed spectra.
template <typename T, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    bind_spectrum_kernel(SpectrumBindParams params, Storage storage, const TwiddlePoint<T>* twiddles) {
  run_row<SpectrumBindingRow<T, kLog2>>(twiddles, params, storage);
}

}  // namespace torch_hrr::kernels
