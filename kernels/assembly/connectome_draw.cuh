// Drawing edges of the procedural connectome on the GPU: a warp draws a column block of a row, 32 Philox blocks a step.
#pragma once

#include "kernels/assembly/connectome.h"
#include "kernels/assembly/connectome_launch.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"

namespace torch_hrr::kernels {

constexpr int kConnectomeThreads = 256;
template <bool kTwoLevel>
constexpr std::size_t kGapSharedBytes = (kTwoLevel ? 2 : 1) * kGapCells * sizeof(uint32_t);

// The outcome of Walker's method by a table in shared memory.
KERNEL_DEVICE int32_t draw_outcome(const uint32_t* table, uint32_t word) {
  return static_cast<int32_t>(gap_outcome(table[word >> (32 - kGapBits)], word));
}

// Gaps of a Philox block.
template <bool kTwoLevel>
constexpr int kGapsOfDraw = kTwoLevel ? 2 : 4;

// What a lane draws in one step: edges[g] says whether gap g ends at an edge, columns[g] in which column of the block.
template <bool kTwoLevel>
struct LaneEdges {
  int32_t columns[kGapsOfDraw<kTwoLevel>];
  bool edges[kGapsOfDraw<kTwoLevel>];
};

// sink(LaneEdges) for for_each_edge's edges of one row and block, by a whole warp whose lanes call it together: lane l
// draws Philox block 32 step + l, and where its gaps begin is a sum over the lanes below. Columns ascend with the step,
// the lane and the gap, in this order.
template <bool kTwoLevel, typename Sink>
KERNEL_DEVICE void for_each_edge_of_warp(const uint32_t* tables, PhiloxKey key, uint32_t row, uint32_t block,
                                         int32_t width, const Sink& sink) {
  constexpr int kGaps = kGapsOfDraw<kTwoLevel>;
  constexpr auto kNone = static_cast<int32_t>(kGapNone);
  int32_t start = 0;  // one column past the last edge of earlier steps
  for (uint32_t draw = static_cast<uint32_t>(lane_index()); start < width; draw += kWarpSize) {
    const PhiloxBlock words = philox4x32(edge_counter(draw, block, row), key);
    LaneEdges<kTwoLevel> own;  // columns from where the lane's gaps begin, at first
    int32_t next = 0;
#pragma unroll
    for (int g = 0; g < kGaps; ++g) {
      const int32_t outcome = draw_outcome(tables, words.word[kTwoLevel ? 2 * g : g]);
      next += kTwoLevel ? outcome << kGapBits : outcome;
      own.columns[g] = next;
      own.edges[g] = outcome != kNone;
      if (own.edges[g]) {
        own.columns[g] += kTwoLevel ? draw_outcome(tables + kGapCells, words.word[2 * g + 1]) : 0;
        next = own.columns[g] + 1;
      }
    }
    // At most 2^21 a lane, so nothing overflows.
    const int32_t through = warp_inclusive_sum(next);
#pragma unroll
    for (int g = 0; g < kGaps; ++g) {
      own.columns[g] += start + through - next;
      own.edges[g] = own.edges[g] && own.columns[g] < width;
    }
    sink(own);
    start += shuffle(through, kWarpSize - 1);
  }
}

// The tables of a density into the block's shared memory; the caller waits for the block before it reads them.
template <bool kTwoLevel>
KERNEL_DEVICE uint32_t* shared_gap_tables(const GapTables& tables) {
  auto* shared = dynamic_shared<uint32_t>();
  for (int cell = thread_rank(); cell < kGapCells; cell += block_threads()) {
    shared[cell] = tables.quotient[cell];
    if constexpr (kTwoLevel) {
      shared[kGapCells + cell] = tables.remainder[cell];
    }
  }
  return shared;
}

template <typename Params>
KERNEL_DEVICE PhiloxKey key_of_batch(const Params& params, int64_t batch) {
  return philox_key(params.keys != nullptr ? params.keys[batch] : params.key);
}

// A warp a column block of a row; blocks (., y) do batches y, y + gridDim.y, ...
template <bool kTwoLevel>
KERNEL_DEVICE void deliver_edges(const DeliverLaunch& params) {
  const uint32_t* tables = nullptr;
  const int64_t blocks = block_count(params.gaps, params.n);
  for (int64_t batch = blockIdx.y; batch < params.batches; batch += gridDim.y) {
    const int64_t rows = params.row_counts != nullptr ? params.row_counts[batch] : params.row_count;
    if (static_cast<int64_t>(blockIdx.x) * warp_count() >= rows * blocks) {
      continue;
    }
    if (tables == nullptr) {
      tables = shared_gap_tables<kTwoLevel>(*params.gaps.tables);
      block_sync();
    }
    const PhiloxKey key = key_of_batch(params, batch);
    for_each_of_warps(rows * blocks, [&](int64_t item) {
      const int64_t entry = batch * params.row_count + item / blocks;
      const int64_t block = item % blocks;
      const int64_t row = params.rows[entry];
      if (row < 0 || row > INT32_MAX) {
        return;
      }
      const int32_t sign = params.signs != nullptr ? params.signs[entry] : params.sign;
      int32_t* counts = params.counts + batch * params.n + block * params.gaps.width;
      for_each_edge_of_warp<kTwoLevel>(tables, key, static_cast<uint32_t>(row), static_cast<uint32_t>(block),
                                       columns_of_block(params.gaps, params.n, block),
                                       [&](const LaneEdges<kTwoLevel>& lane) {
#pragma unroll
                                         for (int g = 0; g < kGapsOfDraw<kTwoLevel>; ++g) {
                                           if (lane.edges[g]) {
                                             atomicAdd(counts + lane.columns[g], sign);
                                           }
                                         }
                                       });
    });
  }
}

// Blocks that copy tables are about as many as the largest GPUs hold at once: each copies them once and strides over
// the rest of its work. Batches come first, as they have about the same work each.
constexpr int64_t kTableBlocks = 1024;

// For a warp an item, in each of the batches.
inline dim3 table_grid(int64_t items, int64_t batches) {
  const int64_t y = batches < kTableBlocks ? batches : kTableBlocks;
  dim3 grid = grid_for(items > 0 ? items : 1, kConnectomeThreads / kWarpSize, kTableBlocks / y);
  grid.y = static_cast<unsigned>(y);
  return grid;
}

}  // namespace torch_hrr::kernels
