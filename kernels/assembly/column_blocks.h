// Work on the column blocks of a connectome, on the threads of the caller.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "kernels/assembly/connectome.h"

namespace torch_hrr::kernels {

using RangeBody = std::function<void(int64_t begin, int64_t end)>;
// Calls the body for parts of [0, count) of about `grain` or more, on several threads: null stands for one thread.
using ParallelFor = void (*)(int64_t count, int64_t grain, const RangeBody& body);

// body(first, last) over the blocks of columns [begin, n), on several threads where `streams`, the rows and blocks that
// are drawn, are worth waking them (a stream takes about a third of a microsecond); no result depends on the parts.
template <typename Body>
void for_column_blocks(const GapTables& tables, int64_t begin, int64_t n, int64_t streams, ParallelFor parallel,
                       const Body& body) {
  constexpr int64_t kStreamsPerThread = 1024;
  const int64_t start = begin / tables.width;
  const int64_t blocks = block_count(tables, n) - start;
  if (parallel != nullptr && streams >= 2 * kStreamsPerThread) {
    parallel(blocks, std::max<int64_t>(1, blocks * kStreamsPerThread / streams),
             [&](int64_t first, int64_t last) { body(start + first, start + last); });
  } else if (blocks > 0) {
    body(start, start + blocks);
  }
}

}  // namespace torch_hrr::kernels
