// What derivatives of encodings share: the derivative by positions at analytic frequencies, and pairs of columns.
#pragma once

#include "csrc/encoding/waves.h"

namespace torch_hrr::encoding {

constexpr double kQuarterTurn = 1.57079632679489661923;  // pi / 2

// d encoding / d position, [..., dim]: the encoding a quarter of a turn later, times the frequency.
at::Tensor position_slope(const at::Tensor& positions, const c10::SymInt& dim, const Ladder& ladder, Layout layout,
                          at::ScalarType type);

// The first, 0, or second elements, 1, of the first `count` pairs of rows.
at::Tensor part_of_pairs(const at::Tensor& rows, int64_t which, const c10::SymInt& count, Layout layout);
// Rows of pairs from these.
at::Tensor pairs_of(const at::Tensor& first, const at::Tensor& second, Layout layout);

}  // namespace torch_hrr::encoding
