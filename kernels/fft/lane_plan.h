// Tables for transforming short real rows side by side, each in a lane of its own.
//
// A row of even length D goes as M = D/2 complex numbers x[2n] + i x[2n+1], one of odd length as M = D numbers without
// imaginary parts. Lanes never meet, so that a row's bits depend on the row alone.
#pragma once

#include <cstdint>

#include "kernels/fft/row_shape.h"

namespace torch_hrr::kernels {

// Rows up to this length go side by side. A row by itself costs as much as a whole vector of them, in packed spectra
// (of lengths without matrix_lanes.h) one of 4: beyond this length that would show beside the time of a call.
constexpr int64_t kMaxLaneDim = 320;

template <typename T>
struct LanePlan {
  int64_t dim = 0;     // D
  int64_t points = 0;  // M
  int64_t size = 0;    // M vectors of numbers
  int passes = 0;
  int radix[kMaxFftPasses] = {};
  // As append_pass_twiddles leaves them.
  const T* twiddles[kMaxFftPasses] = {};
  // For k <= M/2 of an even row: e^{-2 pi i k/D} and u_k = (1 + e^{-2 pi i k/M})/4, four numbers.
  const T* pairs = nullptr;
};

// The plan for rows of up to kMaxLaneDim numbers, without prime factors above kMaxPrimeRadix, on vectors of `width`
// lanes. Thread-safe; plans live until the process ends.
template <typename T>
const LanePlan<T>& lane_plan(int64_t dim, int width);

}  // namespace torch_hrr::kernels
