// The maps of spectra, and rows and parameters for tests of the kernels that run them.
#pragma once

#include "tests/cuda_on_host/hrr_testing.h"

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

}  // namespace torch_hrr::kernels::hrr_testing
