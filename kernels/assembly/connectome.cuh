// Edges of the procedural connectome on the GPU: a warp draws a column block of a row, 32 Philox blocks a step.
#pragma once

#include "kernels/assembly/connectome_launch.h"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/launch.cuh"

namespace torch_hrr::kernels {

constexpr int kConnectomeThreads = 256;
constexpr std::size_t kGapSharedBytes = 2 * kGapCells * sizeof(uint32_t);

// The outcome of Walker's method by a table in shared memory.
HRR_DEVICE int32_t draw_outcome(const uint32_t* table, uint32_t word) {
  return static_cast<int32_t>(gap_outcome(table[word >> (32 - kGapBits)], word));
}

// sink(column in the block, whether it is an edge) for for_each_edge's edges of one row and block, by a whole warp
// whose lanes call it together: lane l draws Philox block 32 step + l, and where its gaps begin is a sum over the lanes
// below.
template <bool kTwoLevel, typename Sink>
HRR_DEVICE void for_each_edge_of_warp(const uint32_t* tables, PhiloxKey key, uint32_t row, uint32_t block,
                                      int32_t width, const Sink& sink) {
  constexpr int kGaps = kTwoLevel ? 2 : 4;
  constexpr auto kNone = static_cast<int32_t>(kGapNone);
  int32_t start = 0;  // one column past the last edge of earlier steps
  for (uint32_t draw = static_cast<uint32_t>(lane_index()); start < width; draw += kWarpSize) {
    const PhiloxBlock words = philox4x32(edge_counter(draw, block, row), key);
    int32_t column[kGaps];  // of the edge that ends gap g, from where the lane's gaps begin; -1 without an edge
    int32_t next = 0;
#pragma unroll
    for (int g = 0; g < kGaps; ++g) {
      const int32_t outcome = draw_outcome(tables, words.word[kTwoLevel ? 2 * g : g]);
      next += kTwoLevel ? outcome << kGapBits : outcome;
      column[g] = -1;
      if (outcome != kNone) {
        column[g] = next + (kTwoLevel ? draw_outcome(tables + kGapCells, words.word[2 * g + 1]) : 0);
        next = column[g] + 1;
      }
    }
    // At most 2^21 a lane, so nothing overflows.
    int32_t through = next;
    for (int delta = 1; delta < kWarpSize; delta *= 2) {
      const int32_t below = shuffle_up(through, static_cast<unsigned>(delta));
      through += lane_index() >= delta ? below : 0;
    }
    const int32_t own_start = start + through - next;
#pragma unroll
    for (int g = 0; g < kGaps; ++g) {
      const int32_t at = own_start + column[g];
      sink(at, column[g] >= 0 && at < width);
    }
    start += shuffle(through, kWarpSize - 1);
  }
}

// body(tables in shared memory, batch, index of the row, its number, block, first column, width) for every block of
// every row, a warp each; Params is DeliverLaunch or MatchLaunch.
template <typename Params, typename Body>
HRR_DEVICE void for_each_block_of_rows(const Params& params, const Body& body) {
  auto* tables = dynamic_shared<uint32_t>();
  for (int cell = thread_rank(); cell < kGapCells; cell += block_threads()) {
    tables[cell] = params.gaps.tables->quotient[cell];
    tables[kGapCells + cell] = params.gaps.tables->remainder[cell];
  }
  block_sync();
  const int64_t blocks = (params.n + params.gaps.width - 1) / params.gaps.width;
  const int64_t items = params.batches * params.row_count * blocks;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * warp_count();
  for (int64_t item = static_cast<int64_t>(blockIdx.x) * warp_count() + warp_index(); item < items; item += warps) {
    const int64_t entry = item / blocks;
    const int64_t block = item - entry * blocks;
    const int64_t row = params.rows[entry];
    if (row < 0 || row > INT32_MAX) {
      continue;
    }
    const int64_t first = block * params.gaps.width;
    const int64_t left = params.n - first;
    const auto width = static_cast<int32_t>(left < params.gaps.width ? left : params.gaps.width);
    body(tables, entry / params.row_count, entry, static_cast<uint32_t>(row), static_cast<uint32_t>(block), first,
         width);
  }
}

template <typename Params>
HRR_DEVICE PhiloxKey key_of_batch(const Params& params, int64_t batch) {
  return philox_key(params.keys != nullptr ? params.keys[batch] : params.key);
}

template <bool kTwoLevel>
__global__ void deliver_kernel(DeliverLaunch params) {
  for_each_block_of_rows(params, [&](const uint32_t* tables, int64_t batch, int64_t entry, uint32_t row, uint32_t block,
                                     int64_t first, int32_t width) {
    const int32_t sign = params.signs != nullptr ? params.signs[entry] : params.sign;
    int32_t* counts = params.counts + batch * params.n + first;
    for_each_edge_of_warp<kTwoLevel>(tables, key_of_batch(params, batch), row, block, width,
                                     [&](int32_t column, bool edge) {
                                       if (edge) {
                                         atomicAdd(counts + column, sign);
                                       }
                                     });
  });
}

template <bool kTwoLevel>
__global__ void match_kernel(MatchLaunch params) {
  for_each_block_of_rows(params, [&](const uint32_t* tables, int64_t batch, int64_t entry, uint32_t row, uint32_t block,
                                     int64_t first, int32_t width) {
    const uint32_t* bits = params.bits + batch * ((params.n + 31) / 32) + first / 32;
    int32_t* pairs = params.pairs + 2 * batch * params.capacity;
    for_each_edge_of_warp<kTwoLevel>(
        tables, key_of_batch(params, batch), row, block, width, [&](int32_t column, bool edge) {
          const bool hit = edge && (bits[column / 32] >> (column % 32) & 1) != 0;
          const uint32_t hits = warp_ballot(hit);
          if (hits == 0) {
            return;
          }
          // One addition for the warp: the counter is shared by all of them.
          unsigned long long place = 0;
          if (lane_index() == 0) {
            place = atomicAdd(params.found + batch, static_cast<unsigned long long>(__popc(hits)));
          }
          place = shuffle(place, 0) + static_cast<unsigned>(__popc(hits & ((1u << lane_index()) - 1)));
          if (hit && place < static_cast<unsigned long long>(params.capacity)) {
            pairs[2 * place] = static_cast<int32_t>(entry - batch * params.row_count);
            pairs[2 * place + 1] = static_cast<int32_t>(first + column);
          }
        });
  });
}

__global__ void stimulus_counts_kernel(StimulusLaunch params) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * block_threads();
  const int64_t items = params.batches * params.n;
  for (int64_t item = static_cast<int64_t>(blockIdx.x) * block_threads() + thread_rank(); item < items;
       item += threads) {
    const int64_t batch = item / params.n;
    params.counts[item] = stimulus_count(params.table, key_of_batch(params, batch), item - batch * params.n);
  }
}

// Enough blocks to fill any GPU many times over; the kernels stride over the rest.
inline dim3 connectome_grid(int64_t work, int64_t per_block) {
  constexpr int64_t kMostBlocks = 1 << 14;
  const dim3 grid = grid_for(work, per_block);
  return dim3(grid.x < kMostBlocks ? grid.x : static_cast<unsigned>(kMostBlocks));
}

template <typename Params, typename Launcher>
void launch_rows_of_connectome(const char* name, void (*kernel)(Params), const Params& params,
                               const Launcher& launcher) {
  if (params.gaps.empty || params.batches <= 0 || params.row_count <= 0 || params.n <= 0) {
    return;
  }
  const int64_t items = params.batches * params.row_count * ((params.n + params.gaps.width - 1) / params.gaps.width);
  launcher(name, kernel, connectome_grid(items, kConnectomeThreads / kWarpSize), dim3(kConnectomeThreads),
           kGapSharedBytes, params);
}

template <typename Launcher>
void launch_deliver_with(const DeliverLaunch& params, const Launcher& launcher) {
  launch_rows_of_connectome("deliver_kernel", params.gaps.two_level ? deliver_kernel<true> : deliver_kernel<false>,
                            params, launcher);
}

template <typename Launcher>
void launch_match_with(const MatchLaunch& params, const Launcher& launcher) {
  launch_rows_of_connectome("match_kernel", params.gaps.two_level ? match_kernel<true> : match_kernel<false>, params,
                            launcher);
}

template <typename Launcher>
void launch_stimulus_counts_with(const StimulusLaunch& params, const Launcher& launcher) {
  if (params.batches > 0 && params.n > 0) {
    launcher("stimulus_counts_kernel", stimulus_counts_kernel,
             connectome_grid(params.batches * params.n, kConnectomeThreads), dim3(kConnectomeThreads), 0, params);
  }
}

}  // namespace torch_hrr::kernels
