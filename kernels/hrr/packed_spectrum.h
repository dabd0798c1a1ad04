// Packed spectra: the bins of a real row in as many real numbers, and products with rows that are kept so.
//
// A row of length D has the bins A_k = sum_n a[n] e^{-2 pi i nk/D}, k = 0 .. D/2, of which A_0 and (D even) A_{D/2} are
// real. Packed they are A_0, Re A_1, Im A_1, Re A_2, Im A_2, ... and, where D is even, A_{D/2}: D numbers.
#pragma once

#include <cstdint>

#include "kernels/hrr/circular_convolution.h"
#include "kernels/rows.h"

namespace torch_hrr::kernels {

// Where a packed row keeps the parts of A_k; a real bin has no imaginary one.
constexpr int64_t packed_real(int64_t k) {
  return k == 0 ? 0 : 2 * k - 1;
}
constexpr int64_t packed_imaginary(int64_t k) {
  return 2 * k;
}

// out[r] = the packed spectrum of in[r] or, where `inverse` is set, the row whose packed spectrum in[r] is. Rows of
// unit stride are placed by map operand 0; out is contiguous [rows, dim].
struct PackedSpectrumParams {
  static constexpr RowFamily kFamily = RowFamily::kSpectrum;

  const void* in = nullptr;
  void* out = nullptr;
  int64_t rows = 0;
  int64_t dim = 0;
  RowPlan plan;
  RowMap map;
  bool inverse = false;
};

// out[r] = a[r] (*) b[r] for b given by its packed spectra. a and the spectra are rows of unit stride placed by map
// operands 0 and 1; out is contiguous [rows, dim].
struct SpectrumBindParams {
  static constexpr RowFamily kFamily = RowFamily::kSpectrumProduct;

  const void* a = nullptr;
  const void* spectrum = nullptr;
  void* out = nullptr;
  int64_t rows = 0;
  int64_t dim = 0;
  RowPlan plan;
  RowMap map;
  Product product = Product::kConvolution;
};

void queue(const CudaCall& call, const PackedSpectrumParams& params);
void queue(const CudaCall& call, const SpectrumBindParams& params);

}  // namespace torch_hrr::kernels
