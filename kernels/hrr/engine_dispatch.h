// Chooses the engine of a row length.
#pragma once

#include "kernels/hrr/engine.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

template <typename S>
const MatrixPlan<compute_t<S>>& matrix_plan_for(int64_t dim) {
  return matrix_plan<compute_t<S>>(dim, kLanes<compute_t<S>>);
}

// Calls body(engine, used) with half-length transforms of `length` for rows of `dim` elements, of vectors as wide as
// fit; `used` bytes of the scratch are taken.
template <typename S, bool kFold, typename Body>
void with_spectral_engine(int64_t length, int64_t dim, void* scratch, const Body& body) {
  using T = compute_t<S>;
  const FftPlan<T>& plan = fft_plan<T>(length / 2, kLanes<T>);
  with_width<T, 16>(plan.width, [&](auto width) {
    int64_t used = 0;
    const SpectralEngine<S, decltype(width)::value, kFold> engine(plan, dim, scratch, used);
    body(engine, used);
  });
}

// The same with the transforms of a row's own length, kHalf or kMatrix.
template <typename S, typename Body>
void with_native_engine(const RowPlan& row, int64_t dim, void* scratch, const Body& body) {
  if (row.path == RowPath::kHalf) {
    return with_spectral_engine<S, false>(dim, dim, scratch, body);
  }
  int64_t used = 0;
  const MatrixEngine<S> engine(matrix_plan_for<S>(dim), scratch, used);
  body(engine, used);
}
template <typename S>
int64_t native_scratch_bytes(const RowPlan& row, int64_t dim, int operands) {
  return row.path == RowPath::kHalf ? SpectralEngine<S, 4, false>::scratch_bytes(dim / 2, operands)
                                    : MatrixEngine<S>::scratch_bytes(matrix_plan_for<S>(dim), operands);
}

// The same with the engine that multiplies rows of `dim` elements.
template <typename S, typename Body>
void with_product_engine(const RowPlan& row, int64_t dim, void* scratch, const Body& body) {
  if (row.path == RowPath::kPadded) {
    return with_spectral_engine<S, true>(row.length, dim, scratch, body);
  }
  with_native_engine<S>(row, dim, scratch, body);
}

// Bytes for an engine with `operands` arrays and `rows` further rows of the compute type.
template <typename S>
int64_t product_scratch_bytes(const RowPlan& row, int64_t dim, int operands, int rows) {
  const int64_t extra = rows * (dim * static_cast<int64_t>(sizeof(compute_t<S>)) + 64);
  return extra + (row.path == RowPath::kPadded ? SpectralEngine<S, 4, true>::scratch_bytes(row.length / 2, operands)
                                               : native_scratch_bytes<S>(row, dim, operands));
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
