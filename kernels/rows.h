// Where the rows of broadcast operands lie: leading dimensions collapsed into a few sizes and strides.
#pragma once

#include <cstdint>

#include "kernels/macros.h"

namespace torch_hrr::kernels {

constexpr int kMaxRowDims = 8;
constexpr int kMaxOperands = 3;

// Output row r (row-major over sizes) reads operand i at element offset sum_d index_d(r) * strides[i][d]. A stride of
// 0 repeats the operand along that dimension; ndim = 0 means a single row.
struct RowMap {
  int ndim = 0;
  int64_t sizes[kMaxRowDims] = {};
  int64_t strides[kMaxOperands][kMaxRowDims] = {};
};

KERNEL_ISA_BEGIN

KERNEL_HOST_DEVICE int64_t row_offset(const RowMap& map, int operand, int64_t row) {
  int64_t offset = 0;
  for (int d = map.ndim - 1; d >= 0; --d) {
    const int64_t next = row / map.sizes[d];
    offset += (row - next * map.sizes[d]) * map.strides[operand][d];
    row = next;
  }
  return offset;
}

template <typename S>
KERNEL_HOST_DEVICE const S* operand_row(const void* base, const RowMap& map, int operand, int64_t row) {
  return static_cast<const S*>(base) + row_offset(map, operand, row);
}

// Results lie one after the other.
template <typename S>
KERNEL_HOST_DEVICE S* result_row(void* base, int64_t row, int64_t dim) {
  return static_cast<S*>(base) + row * dim;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
