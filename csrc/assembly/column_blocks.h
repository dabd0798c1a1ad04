// Work on the column blocks of a connectome, on torch's threads.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>

#include "csrc/rows.h"
#include "kernels/assembly/connectome.h"

namespace torch_hrr::assembly {

// body(first, last) over the column blocks, on torch's threads where they are allowed and `streams`, the rows and
// blocks that are drawn, are worth waking them (a stream takes about a third of a microsecond); no result depends on
// the parts.
template <typename Body>
void for_column_blocks(const kernels::GapTables& tables, int64_t n, int64_t streams, bool threads, const Body& body) {
  constexpr int64_t kStreamsPerThread = 1024;
  const int64_t blocks = kernels::block_count(tables, n);
  if (threads && streams >= 2 * kStreamsPerThread) {
    at::parallel_for(0, blocks, std::max<int64_t>(1, blocks * kStreamsPerThread / streams), body);
  } else if (blocks > 0) {
    body(0, blocks);
  }
}

}  // namespace torch_hrr::assembly
