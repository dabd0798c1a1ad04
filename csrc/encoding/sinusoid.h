// The derivative by positions, shared by the encodings that have analytic frequencies.
#pragma once

#include "csrc/encoding/waves.h"

namespace torch_hrr::encoding {

constexpr double kQuarterTurn = 1.57079632679489661923;  // pi / 2

// d encoding / d position, [..., dim]: the encoding a quarter of a turn later, times the frequency.
at::Tensor position_slope(const at::Tensor& positions, const c10::SymInt& dim, const Ladder& ladder, Layout layout,
                          at::ScalarType type);

}  // namespace torch_hrr::encoding
