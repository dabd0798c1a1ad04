// Rows whose elements are taken from another row by a table of places.
#pragma once

#include <cstdint>

#include "kernels/rows.h"

namespace torch_hrr::kernels {

// out[r][i] = input[r][table[i]], as bits.
struct GatheredRowsParams {
  const void* input = nullptr;
  const int32_t* table = nullptr;  // [dim]
  void* out = nullptr;             // [rows, dim]
  int64_t rows = 0;
  int64_t dim = 0;
  RowMap map;  // of the input's rows, whose elements lie side by side
};

}  // namespace torch_hrr::kernels
