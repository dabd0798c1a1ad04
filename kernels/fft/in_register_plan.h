// Tables for transforming rows of 128, 256 and 512 numbers within 32 registers of 16 floats.
//
// A row of D = 32 R numbers goes as M = 16 R complex ones, z_n = x[2n] + i x[2n+1]. With n = 16 v + l, k = p + R q,
// l and q < 16, v and p < R, w_m = e^{-2 pi i/m},
//   Z_k = sum_l w_16^{lq} w_M^{lp} sum_v w_R^{vp} z_n.
// The inner sums take R vectors of a row, with l in the lanes. 16/R rows make 16 vectors, whose transposition leaves p
// of row g in lane R g + p for the outer sum over 16 vectors. Rows never meet in a lane, so that a row's bits depend on
// the row alone.
#pragma once

#include <cstdint>

namespace torch_hrr::kernels {

struct InRegisterPlan {
  static constexpr int kLanes = 16;

  // Real and imaginary parts of w_M^{lp}: [p][part][l].
  alignas(64) float turns[kLanes][2][kLanes];
  // Those of e^{-2 pi i k/D}, k < M/2: [q][part][R g + p].
  alignas(64) float half_roots[kLanes / 2][2][kLanes];
};

// R for rows of `dim` numbers, 0 for other lengths.
constexpr int in_register_radix(int64_t dim) {
  return dim == 128 || dim == 256 || dim == 512 ? static_cast<int>(dim / (2 * InRegisterPlan::kLanes)) : 0;
}

// The plan for R = 4, 8 or 16. Thread-safe; plans live until the process ends.
const InRegisterPlan& in_register_plan(int radix);

}  // namespace torch_hrr::kernels
