// Kernels of spectrum, from_spectrum, bind_spectrum and unbind_spectrum.
#pragma once

#include "kernels/hrr/chirp_row.cuh"
#include "kernels/hrr/fft_row.cuh"
#include "kernels/hrr/mixed_row.cuh"

namespace torch_hrr::kernels {

// out[r] = the packed spectrum of in[r], or the row whose packed spectrum in[r] is.
template <typename Row>
KERNEL_DEVICE void pack_row(const Row& row, const PackedSpectrumParams& params, Storage storage) {
  using T = typename Row::Real;
  const StoredInput<T> in = stored_input<T>(params.in, storage) + placed_row(params.map, 0, row.r);
  const StoredOutput<T> out = stored_output<T>(params.out, storage) + row.r * row.dim;
  auto bins = row.spectrum(0);
  if (params.inverse) {
    const MeasuredRow measured = row.load_packed(in, bins);
    row.merge(bins);
    row.store(bins, static_cast<T>(row.share()), measured.exponent, measured.finite, out);
  } else {
    const MeasuredRow measured = row.load(in, bins);
    row.split(bins);
    row.store_packed(bins, measured.exponent, measured.finite, out);
  }
}

// out[r] = a[r] (*) b[r] for b given by its packed spectra.
template <typename Row>
KERNEL_DEVICE void bind_packed_row(const Row& row, const SpectrumBindParams& params, Storage storage) {
  using T = typename Row::Real;
  auto of_a = row.spectrum(0);
  auto of_b = row.spectrum(1);
  const MeasuredRow measured_a = row.load(stored_input<T>(params.a, storage) + placed_row(params.map, 0, row.r), of_a);
  const MeasuredRow measured_b =
      row.load_packed(stored_input<T>(params.spectrum, storage) + placed_row(params.map, 1, row.r), of_b);
  row.merge(of_b);
  row.multiply(params.product, of_a, of_b, of_a);
  row.store(of_a, static_cast<T>(row.share()), measured_a.exponent + measured_b.exponent,
            measured_a.finite && measured_b.finite, stored_output<T>(params.out, storage) + row.r * row.dim);
}

template <typename T, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    packed_spectrum_kernel(PackedSpectrumParams params, Storage storage, const TwiddlePoint<T>* twiddles) {
  pack_row(FftRow<T, kLog2>(twiddles, params.rows, params.dim), params, storage);
}
template <typename T, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    bind_spectrum_kernel(SpectrumBindParams params, Storage storage, const TwiddlePoint<T>* twiddles) {
  bind_packed_row(FftRow<T, kLog2>(twiddles, params.rows, params.dim), params, storage);
}

template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_packed_kernel(PackedSpectrumParams params, Storage storage, const MixedPlan* plan) {
  pack_row(MixedRow<T>(plan, 1), params, storage);
}
template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_bind_spectrum_kernel(SpectrumBindParams params, Storage storage, const MixedPlan* plan) {
  bind_packed_row(MixedRow<T>(plan, 2), params, storage);
}

// Blocks that a multiprocessor is to hold, 0 for the compiler's choice: here it would spill to make room for a fifth.
template <int kLog2>
constexpr int kChirpPackedBlocks = kLog2 == 6 ? 4 : 0;

template <int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>, kChirpPackedBlocks<kLog2>)
    chirp_packed_kernel(PackedSpectrumParams params, ChirpTables tables, const TwiddlePoint<double>* twiddles) {
  pack_row(ChirpRow<kLog2>(twiddles, tables, params.rows, params.dim), params, Storage::kDouble);
}

}  // namespace torch_hrr::kernels
