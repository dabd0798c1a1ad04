// Kernels of inverse, unitary, bind_power and their derivatives, and of multibind.
#pragma once

#include "kernels/hrr/bin_maps.h"
#include "kernels/hrr/chirp_row.cuh"
#include "kernels/hrr/fft_row.cuh"
#include "kernels/hrr/mixed_row.cuh"

namespace torch_hrr::kernels {

// map_bin with the map as a run-time choice, out of line: one copy of the functions in double serves every length.
template <typename L>
KERNEL_COLD Complex<L> map_bin_of(SpectralMap kind, Complex<L> a, Complex<L> v, BinScalars row) {
  Complex<L> result{0, 0};
  with_map(kind, [&](auto map) { result = map_bin<decltype(map)::value>(a, v, row); });
  return result;
}

// Takes a whole power of two out of powers, which may be beyond float where the row that they are a factor of is not.
// Derivatives keep theirs: they multiply by ln A.
KERNEL_DEVICE void bring_powers_near_1(SpectralMap kind, RowMapping& mapping) {
  constexpr double kLimit = 1 << 20;  // farther powers are zero or infinite
  const bool is_power = kind == SpectralMap::kPower && mapping.scalars.order <= 0;
  const double power = is_power ? mapping.scalars.exponent : mapping.scalars.exponent - 1;
  const double size = power * (mapping.scalars.ln_scale / kLn2);
  const double whole = ::rint(size);
  if ((is_power || kind == SpectralMap::kPowerBackward) && whole != 0 && ::fabs(size) < kLimit) {
    mapping.scalars.ln_scale = (size - whole) * kLn2 / power;
    mapping.exponent += static_cast<int>(whole);
  }
}

// out[r] = the row whose bins are map(A, V).
template <typename Row>
KERNEL_DEVICE void map_row(const Row& row, const SpectralMapParams& params, Storage storage) {
  using T = typename Row::Real;
  const bool directed = params.v != nullptr;
  auto bins = row.spectrum(0);
  auto directions = row.spectrum(1);
  const MeasuredRow of_a = row.load(stored_input<T>(params.a, storage) + placed_row(params.map, 0, row.r), bins);
  MeasuredRow of_v;
  if (directed) {
    of_v = row.load(stored_input<T>(params.v, storage) + placed_row(params.map, 1, row.r), directions);
    row.split(directions);
  }
  const double squared = static_cast<double>(row.squared_norm(bins));
  row.split(bins);
  const double exponent =
      params.exponents == nullptr ? params.exponent : params.exponents[placed_row(params.map, 2, row.r)];
  RowMapping mapping =
      row_mapping(params.kind, squared, of_a.exponent, row.dim, params.roundoff, params.eps, exponent, params.order);
  if constexpr (std::is_same_v<T, float>) {
    bring_powers_near_1(params.kind, mapping);
  }
  // What the inverse transform multiplies by is divided out where bins may still be beyond T.
  const double share = row.share();
  row.map_bins(bins, directions, directed, [&](Complex<T> bin, Complex<T> direction) {
    const Complex<double> result = map_bin_of(
        params.kind,
        Complex<double>{static_cast<double>(bin.re) * mapping.factor, static_cast<double>(bin.im) * mapping.factor},
        Complex<double>{static_cast<double>(direction.re), static_cast<double>(direction.im)}, mapping.scalars);
    return Complex<T>{static_cast<T>(result.re * share), static_cast<T>(result.im * share)};
  });
  row.merge(bins);
  row.store(bins, T{1}, mapping.exponent + of_v.exponent, of_a.finite && of_v.finite,
            stored_output<T>(params.out, storage) + row.r * row.dim);
}

// out[r] = vectors[r,0] conv vectors[r,1] conv ..., of the rows' own bins: by pairs of points, a bin that is small on
// the way and large in the product would lose its digits. The product stands for product 2^total and is kept near 1.
template <typename Row>
KERNEL_DEVICE void multibind_row(const Row& row, const MultibindParams& params, Storage storage) {
  using T = typename Row::Real;
  const StoredInput<T> vectors = stored_input<T>(params.vectors, storage) + placed_row(params.map, 0, row.r);
  auto product = row.spectrum(0);
  auto item = row.spectrum(1);
  row.set_identity(product);
  int64_t total = 0;
  bool finite = true;
#pragma unroll 1
  for (int64_t k = 0; k < params.items; ++k) {
    const MeasuredRow measured = row.load(vectors + k * params.item_stride, item);
    finite = finite && measured.finite;
    row.split(item);
    row.multiply_bins(product, item);
    const int shift = scale_exponent<T>(magnitude_bits(row.squared_norm(product))) / 2;
    if (shift != 0) {
      row.scale(product, exact_power<T>(-shift));
    }
    total += measured.exponent + shift;
  }
  row.merge(product);
  row.store(product, static_cast<T>(row.share()), total, finite,
            stored_output<T>(params.out, storage) + row.r * row.dim);
}

template <typename T, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    spectral_map_kernel(SpectralMapParams params, Storage storage, const TwiddlePoint<T>* twiddles) {
  map_row(FftRow<T, kLog2>(twiddles, params.rows, params.dim), params, storage);
}
template <typename T, int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    multibind_kernel(MultibindParams params, Storage storage, const TwiddlePoint<T>* twiddles) {
  multibind_row(FftRow<T, kLog2>(twiddles, params.rows, params.dim), params, storage);
}

template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_map_kernel(SpectralMapParams params, Storage storage, const MixedPlan* plan) {
  map_row(MixedRow<T>(plan, params.v == nullptr ? 1 : 2), params, storage);
}
template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_multibind_kernel(MultibindParams params, Storage storage, const MixedPlan* plan) {
  multibind_row(MixedRow<T>(plan, 2), params, storage);
}

template <int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    chirp_map_kernel(SpectralMapParams params, ChirpTables tables, const TwiddlePoint<double>* twiddles) {
  map_row(ChirpRow<kLog2>(twiddles, tables, params.rows, params.dim), params, Storage::kDouble);
}
template <int kLog2>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    chirp_multibind_kernel(MultibindParams params, ChirpTables tables, const TwiddlePoint<double>* twiddles) {
  multibind_row(ChirpRow<kLog2>(twiddles, tables, params.rows, params.dim), params, Storage::kDouble);
}

}  // namespace torch_hrr::kernels
