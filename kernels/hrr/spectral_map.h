// Maps of a row's spectrum, bin by bin: inverse, unitary, fractional power and their derivatives; and the product of
// many rows. Parameters; the formulas stand in bin_maps.h.
//
// A real row of length D has the bins A_k, k = 0 .. D/2. A bin is empty if |A_k| <= eps(T) sqrt(D) norm2(a), eps(T)
// that of the compute type: its value is rounding. Bins are mapped in double on every device.
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/hrr/row_plan.h"
#include "kernels/rows.h"

namespace torch_hrr::kernels {

enum class SpectralMap : int32_t {
  kInverse,          // conj(A) / max(|A|^2, eps), 0 where empty
  kCutInverse,       // 1 / A where |A|^2 > eps, else 0
  kUnitary,          // A / |A|, 1 where empty
  kPower,            // A^e (ln A)^order, the order-th derivative of A^e; for empty bins see kPowerItself
  kInverseBackward,  // the gradient of kInverse for an upstream V
  kUnitaryJacobian,  // the derivative of kUnitary in the direction V; symmetric, so its gradient too
  kPowerBackward,    // the gradient of A^e with respect to the row: e conj(A^(e-1)) V
};

// An order of kPower: A^e itself, in which the power 0 of an empty bin is 1, as 0^0 is in std::pow. Its derivatives,
// and order 0 where it is a factor of them, are 0 on empty bins.
constexpr int32_t kPowerItself = -1;

constexpr bool takes_direction(SpectralMap map) {
  return map == SpectralMap::kInverseBackward || map == SpectralMap::kUnitaryJacobian ||
         map == SpectralMap::kPowerBackward;
}

// The power of two by which mapped bins are short: for A = bin 2^scale, map(A) = map_bin(bin) 2^result. Powers account
// for it themselves.
constexpr int mapped_scale(SpectralMap map, int scale) {
  switch (map) {
    case SpectralMap::kInverse:
    case SpectralMap::kCutInverse:
    case SpectralMap::kUnitaryJacobian:
      return -scale;
    case SpectralMap::kInverseBackward:
      return -2 * scale;
    default:
      return 0;
  }
}

// Where eps is 2^this above the bins' squares, the divisor is kept near it; see scaled_eps in bin_maps.h.
constexpr int kFarAboveBins = 64;

// Maps whose results are short of the shift of scaled_eps.
constexpr bool divides_by_eps(SpectralMap map) {
  return map == SpectralMap::kInverse || map == SpectralMap::kInverseBackward;
}

// out[r] = the row whose bins are map(A, V). Rows of a and of the direction v are placed by map operands 0 and 1, the
// exponents (double, one a row) by operand 2; without exponents every row has `exponent`.
struct SpectralMapParams {
  const void* a = nullptr;
  const void* v = nullptr;
  const double* exponents = nullptr;
  void* out = nullptr;
  int64_t rows = 0;
  int64_t dim = 0;
  RowPlan plan;
  RowMap map;
  SpectralMap kind = SpectralMap::kInverse;
  double eps = 0;
  double exponent = 0;
  int32_t order = 0;
  double roundoff = 0;  // of the compute type, also of rows that kernels take in double
};
constexpr RowFamily family_of(const SpectralMapParams& params) {
  const bool power = params.kind == SpectralMap::kPower || params.kind == SpectralMap::kPowerBackward;
  return power ? RowFamily::kPower : RowFamily::kMap;
}

// bins[r] <- map(bins[r], v[r]), in place: the bins 0 .. D/2 that a library's real transform gives, interleaved complex
// numbers, contiguous [rows, count]. The first bin, and the last where D is even, stay real.
struct LibraryBinsParams {
  double* bins = nullptr;
  const double* v = nullptr;
  const double* norms = nullptr;      // norm2 of the rows that were transformed
  const double* scales = nullptr;     // these stand for row 2^scale, an integer
  const double* exponents = nullptr;  // one a row, or null
  int64_t rows = 0;
  int64_t count = 0;
  int64_t dim = 0;
  double roundoff = 0;  // of the compute type
  bool last_is_real = false;
  SpectralMap kind = SpectralMap::kInverse;
  double eps = 0;
  double exponent = 0;
  int32_t order = 0;
};

// out[r] = vectors[r,0] conv vectors[r,1] conv ... (K of them). The map places a row's first vector.
struct MultibindParams {
  static constexpr RowFamily kFamily = RowFamily::kMultibind;

  const void* vectors = nullptr;
  void* out = nullptr;
  int64_t rows = 0;
  int64_t items = 0;
  int64_t dim = 0;
  RowPlan plan;
  RowMap map;
  int64_t item_stride = 0;
};

// out[r,k] = grad[r] corr the product of all vectors[r,j], j != k: contiguous [rows, K, dim], K >= 2. The map places a
// row's gradient (operand 0) and its first vector (operand 1).
struct MultibindBackwardParams {
  static constexpr RowFamily kFamily = RowFamily::kMultibindBackward;

  const void* grad = nullptr;
  const void* vectors = nullptr;
  void* out = nullptr;
  int64_t rows = 0;
  int64_t items = 0;
  int64_t dim = 0;
  RowPlan plan;
  RowMap map;
  int64_t item_stride = 0;
};
// A thread keeps the spectra of a row's factors and prefixes, so that larger rows (K dim) are left to the caller.
constexpr int64_t kMaxMultibindBackwardElements = int64_t{1} << 20;

void queue(const CudaCall& call, const SpectralMapParams& params);
void queue(const CudaCall& call, const LibraryBinsParams& params);
void queue(const CudaCall& call, const MultibindParams& params);

}  // namespace torch_hrr::kernels
