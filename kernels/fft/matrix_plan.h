// Tables for transforming a real row as a matrix of R rows, R odd, and C columns: x[C r + c].
//
// With n = C r + c and k = q + R p the bins are A_k = sum_c w_C^{cp} (w_{RC}^{cq} sum_r w_R^{rq} x[C r + c]), w_n =
// e^{-2 pi i/n}: real transforms of the columns, twiddles, and complex transforms of length C side by side, one for
// each bin q < R/2 of a column. The other bins of a column are left out: their A_k are the mirror images of those that
// are there. The bins q = 0 are there with their mirror images.
#pragma once

#include <cstdint>

#include "kernels/fft/row_shape.h"

namespace torch_hrr::kernels {

// The lanes of every plan divide this.
constexpr int64_t kMaxMatrixLanes = 32;
// Rows up to this length may go side by side, each in a lane (matrix_lanes.h).
constexpr int64_t kMaxMatrixLaneDim = 2100;
// Their columns go by blocks, which must fit into a matrix.
constexpr int64_t kMinLaneColumns = 8;

template <typename T>
struct MatrixPlan {
  int64_t dim = 0;       // R C
  int64_t rows = 0;      // R
  int64_t columns = 0;   // C
  int64_t bins = 0;      // of a column: (R + 1) / 2
  int64_t lanes = 0;     // those and zeros up to whole vectors
  int64_t size = 0;      // C lanes: the complex numbers of a spectrum, A_{q + R p} at p lanes + q
  int64_t numbers = 0;   // those and zeros up to a multiple of kMaxMatrixLanes
  int width = 0;         // lanes of the vectors that hold the bins of a column
  int column_width = 0;  // of those that hold columns
  int passes = 0;
  int radix[kMaxFftPasses] = {};
  // For each p of a pass, radix-1 pairs of numbers; the last pass needs none.
  const T* twiddles[kMaxFftPasses] = {};
  // For each block of column_width columns, bins-1 pairs of vectors (re, im) of w^{cq}; the last block may overlap.
  const T* turns = nullptr;
  // How many bins a number stands for: 1, 2 or, beyond the bins, 0; repeated for kMaxMatrixLanes numbers.
  const T* weights = nullptr;
  // Up to kMaxMatrixLaneDim, for each number of a packed row: the bin that it is a part of, as p bins + q, and -1 where
  // it is the imaginary part of a mirror image, else 1.
  const int32_t* packed = nullptr;
  const T* packed_signs = nullptr;
};

// The plan for rows of `dim` numbers (kMatrix) on vectors of at most max_width lanes. Thread-safe; plans live until the
// process ends.
template <typename T>
const MatrixPlan<T>& matrix_plan(int64_t dim, int max_width);

}  // namespace torch_hrr::kernels
