// The kernels of spectra: their maps, and rows, tables and parameters for tests of them.
#pragma once

#include "tests/cuda_on_host/hrr_testing.h"

#include <complex>

#include "kernels/fft/chirp_plan.h"
#include "kernels/hrr/bin_maps.h"
#include "kernels/hrr/chirp_rows.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels::hrr_testing {

constexpr SpectralMap kMaps[] = {
    SpectralMap::kInverse,         SpectralMap::kCutInverse,      SpectralMap::kUnitary,      SpectralMap::kPower,
    SpectralMap::kInverseBackward, SpectralMap::kUnitaryJacobian, SpectralMap::kPowerBackward};

// Rows whose bins lie between about 0.3 and 2: a tall first element over small others. Every other one is negative.
template <typename S>
Rows<S> tame_rows(int64_t rows, int64_t dim, unsigned seed) {
  Rows<S> result(rows, dim, seed, 0.15);
  for (int64_t r = 0; r < rows; ++r) {
    S& first = *result.row(r);
    first = static_cast<S>(static_cast<double>(first) + (r % 2 == 0 ? 1 : -1));
  }
  return result;
}

// Rows whose bins are all 1 but for bin 3, which in the product of the first of them becomes 1e-6 and then 1 again.
inline Rows<float> rows_of_a_bin_that_returns(int64_t dim) {
  constexpr int64_t kItems = 6;
  Rows<float> rows(kItems, dim, 0);
  for (int64_t k = 0; k < kItems; ++k) {
    const double change = (k < kItems / 2 ? 1e-2 : 1e2) - 1;
    for (int64_t n = 0; n < dim; ++n) {
      const double wave = std::cos(6 * M_PI * static_cast<double>(n) / static_cast<double>(dim));
      rows.row(k)[n] = static_cast<float>((n == 0 ? 1 : 0) + change * 2 / static_cast<double>(dim) * wave);
    }
  }
  return rows;
}
inline Exact product_of(const Rows<float>& rows, int64_t items) {
  Exact product = rows.exact(0);
  for (int64_t k = 1; k < items; ++k) {
    product = oracle_product(Product::kConvolution, product, rows.exact(k));
  }
  return product;
}

template <typename S>
SpectralMapParams map_params(SpectralMap kind, const Rows<S>& a, const Rows<S>& v, int64_t rows) {
  SpectralMapParams params;
  params.a = a.values.data();
  params.v = takes_direction(kind) ? v.values.data() : nullptr;
  params.rows = rows;
  params.dim = a.dim;
  params.map = contiguous_rows(rows, a.dim);
  params.kind = kind;
  params.exponent = -1.3;
  params.roundoff = static_cast<double>(std::numeric_limits<compute_t<S>>::epsilon());
  return params;
}

template <typename S>
PackedSpectrumParams packed_params(const Rows<S>& in, int64_t rows, bool inverse) {
  PackedSpectrumParams params;
  params.in = in.values.data();
  params.rows = rows;
  params.dim = in.dim;
  params.map = contiguous_rows(rows, in.dim);
  params.inverse = inverse;
  return params;
}

template <typename S>
SpectrumBindParams spectrum_bind_params(const Rows<S>& a, const S* spectra, int64_t rows,
                                        Product product = Product::kConvolution) {
  SpectrumBindParams params;
  params.a = a.values.data();
  params.spectrum = spectra;
  params.rows = rows;
  params.dim = a.dim;
  params.map = contiguous_rows(rows, a.dim);
  params.product = product;
  return params;
}

template <typename S>
MultibindParams multibind_params(const Rows<S>& vectors, int64_t rows, int64_t items) {
  MultibindParams params;
  params.vectors = vectors.values.data();
  params.rows = rows;
  params.items = items;
  params.dim = vectors.dim;
  params.map = contiguous_rows(rows, items * vectors.dim);
  params.item_stride = vectors.dim;
  return params;
}

// What csrc uploads for a length.
class DeviceChirp {
 public:
  explicit DeviceChirp(int64_t dim)
      : length_(int64_t{1} << device_chirp_log2(dim)),
        lease_({dim, false, length_}, kernel_table<ChirpKernels>().transform),
        numbers_(lease_.plan().wave_re, lease_.plan().wave_re + chirp_numbers(dim, length_)) {}
  const double* numbers() const {
    return numbers_.data();
  }
  template <typename Params>
  Params planned(Params params) const {
    params.plan = {RowPath::kDoubleChirp, RowGroup::kAlone, length_, twiddle_table<double>(), numbers_.data()};
    return params;
  }

 private:
  int64_t length_;
  ChirpLease<double> lease_;
  std::vector<double> numbers_;
};

// Rows of bins whose first one (and last, for even dims) is real; row 1 has empty bins and row 2 is zero.
struct LibraryBins {
  int64_t rows;
  int64_t dim;
  int64_t count;
  std::vector<double> values, v, norms, scales, exponents;

  LibraryBins(int64_t rows_, int64_t dim_) : rows(rows_), dim(dim_), count(dim_ / 2 + 1) {
    std::mt19937 generator(7);
    std::normal_distribution<double> normal;
    for (int64_t r = 0; r < rows; ++r) {
      double squared = 0;
      for (int64_t k = 0; k < count; ++k) {
        const bool real = k == 0 || 2 * k == dim;
        const double size = r == 2 || (r == 1 && k % 3 == 1) ? 0 : 1;
        const std::complex<double> bin(size * normal(generator), real ? 0 : size * normal(generator));
        values.insert(values.end(), {bin.real(), bin.imag()});
        v.insert(v.end(), {normal(generator), real ? 0 : normal(generator)});
        squared += (real ? 1 : 2) * std::norm(bin);
      }
      norms.push_back(std::sqrt(squared / static_cast<double>(dim)));
      scales.push_back(static_cast<double>(r % 3 - 1));
      exponents.push_back(1.5 * normal(generator));
    }
  }

  LibraryBinsParams params(std::vector<double>& bins, SpectralMap kind, bool own_exponents) const {
    LibraryBinsParams params;
    params.bins = bins.data();
    params.v = takes_direction(kind) ? v.data() : nullptr;
    params.norms = norms.data();
    params.scales = scales.data();
    params.exponents = own_exponents ? exponents.data() : nullptr;
    params.rows = rows;
    params.count = count;
    params.dim = dim;
    params.roundoff = std::numeric_limits<double>::epsilon();
    params.last_is_real = dim % 2 == 0;
    params.kind = kind;
    params.eps = 0.5;
    params.exponent = -0.7;
    params.order = kind == SpectralMap::kPower ? 2 : 0;
    return params;
  }
};

}  // namespace torch_hrr::kernels::hrr_testing
