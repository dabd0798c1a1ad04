// Which kernels and blocks k_winners takes, and how its workspace is divided; `launch_kernel` is a DeviceLauncher or a
// HostLauncher.
#pragma once

#include "kernels/assembly/winners.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/workspace.h"

namespace torch_hrr::kernels {

// Rows of several chunks: counters[rows][kDigits], states[rows], tallies[rows][chunks] and lists.
template <typename S>
struct WinnersWorkspace {
  WorkspaceCarver carver;
  uint32_t* counters;
  KthKey<S>* states;
  Tally* tallies;
  WinnersLists<S> lists;

  WinnersWorkspace(void* memory, int64_t rows, const WinnersPlan& plan) : carver(memory) {
    const int64_t chunks = rows * plan.chunks;
    const int64_t capacity = winners_list_capacity(plan);
    counters = carver.take<uint32_t>(rows * kDigits);
    states = carver.take<KthKey<S>>(rows);
    tallies = carver.take<Tally>(chunks);
    lists.sizes = carver.take<int32_t>(chunks);
    lists.elements = carver.take<S>(chunks * capacity);
    lists.indices = carver.take<uint32_t>(chunks * capacity);
    lists.capacity = capacity;
  }

  static int64_t bytes(int64_t rows, const WinnersPlan& plan) {
    return plan.chunks > 1 ? WinnersWorkspace(nullptr, rows, plan).carver.used() : 0;
  }
};

// Whether rows stay in shared memory: where a multiprocessor has room for two. From 8.0 on it has what a block may have
// and 1 KiB more, and takes 1 KiB for each block.
template <typename S>
bool keeps_rows(int64_t n, std::size_t shared_limit) {
  constexpr std::size_t kReserved = 1024;
  const std::size_t block = sizeof(RadixShared<S>) + static_cast<std::size_t>(kept_row_bytes<S>(n));
  return 2 * (block + kReserved) <= shared_limit + kReserved;
}

// Any plan, number of threads (a multiple of 32), largest grid and shared memory that a block may have give the same
// bits.
template <typename S, typename LaunchKernel>
void launch_winners_rows(const WinnersParams& params, const WinnersPlan& plan, void* memory,
                         const LaunchKernel& launch_kernel, int threads = kWinnersThreads,
                         int64_t max_blocks = kMaxGridX, std::size_t shared_limit = kDefaultSharedBytes) {
  if (params.rows == 0 || params.k == 0) {
    return;
  }
  const dim3 block(static_cast<unsigned>(threads));
  const auto grid = [&](int64_t blocks) { return grid_for(blocks, 1, max_blocks); };
  if (plan.chunks == 1) {
    const bool keep = keeps_rows<S>(params.n, shared_limit);
    const std::size_t kept_bytes = keep ? static_cast<std::size_t>(kept_row_bytes<S>(params.n)) : 0;
    launch_kernel("k_winners", keep ? winners_row_kernel<S, true> : winners_row_kernel<S, false>, grid(params.rows),
                  block, sizeof(RadixShared<S>) + kept_bytes, params);
    return;
  }
  const WinnersWorkspace<S> workspace(memory, params.rows, plan);
  const WinnersLists<S>& lists = workspace.lists;
  const dim3 by_row = grid(params.rows);
  const dim3 by_chunk = grid(params.rows * plan.chunks);
  const auto pick = [&] {
    launch_kernel("k_winners", winners_pick_kernel<S>, by_row, block, kWinnersScanBytes, params.rows, workspace.states,
                  workspace.counters);
  };
  launch_kernel("k_winners", winners_start_kernel<S>, by_row, block, 0, params, plan, workspace.states,
                workspace.counters, lists.sizes);
  launch_kernel("k_winners", winners_histogram_kernel<S>, by_chunk, block, kWinnersHistogramBytes, params, plan,
                workspace.counters);
  pick();
  for (int digit = 1; digit < kKeyDigits<S>; ++digit) {
    launch_kernel("k_winners", winners_refine_kernel<S>, by_chunk, block, sizeof(RadixShared<S>), params, plan, lists,
                  workspace.states, workspace.counters);
    pick();
  }
  launch_kernel("k_winners", winners_count_kernel<S>, by_chunk, block, kWinnersScanBytes, params, plan, lists,
                workspace.states, workspace.tallies);
  launch_kernel("k_winners", winners_write_kernel<S>, by_chunk, block, kWinnersScanBytes, params, plan, lists,
                workspace.states, workspace.tallies);
}

template <typename S, typename LaunchKernel>
void launch_winner_keys_of(const void* values, int64_t count, int64_t* keys, const LaunchKernel& launch_kernel) {
  if (count > 0) {
    launch_kernel("k_winners", winner_keys_kernel<S>, grid_for(count, kWinnersThreads), dim3(kWinnersThreads), 0,
                  static_cast<const S*>(values), count, keys);
  }
}

}  // namespace torch_hrr::kernels
