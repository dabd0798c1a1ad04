// Work on the column blocks of a connectome, and scratch memory, for the CPU kernels of the assembly family.
#pragma once

#include <ATen/Parallel.h>

#include "csrc/rows.h"
#include "kernels/assembly/connectome.h"

namespace torch_hrr::assembly {

// body(first, last) over the column blocks, on torch's threads where allowed; no result depends on the parts.
template <typename Body>
void for_column_blocks(const kernels::GapTables& tables, int64_t n, bool threads, const Body& body) {
  const int64_t blocks = kernels::block_count(tables, n);
  if (threads) {
    at::parallel_for(0, blocks, 1, body);
  } else if (blocks > 0) {
    body(0, blocks);
  }
}

}  // namespace torch_hrr::assembly
