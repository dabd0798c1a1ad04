// Which kernels and blocks k_winners takes, and how its workspace is divided; `launch_kernel` is a DeviceLauncher or a
// HostLauncher.
#pragma once

#include "kernels/assembly/winners.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/workspace.h"

namespace torch_hrr::kernels {

// Rows of several chunks: states[rows], tallies[rows][chunks], counters[rows][kDigits].
template <typename S>
struct WinnersWorkspace {
  using State = KthKey<winners_key_t<S>>;

  WorkspaceCarver carver;
  State* states;
  Tally* tallies;
  uint32_t* counters;

  WinnersWorkspace(void* memory, int64_t rows, const WinnersPlan& plan)
      : carver(memory),
        states(carver.take<State>(rows)),
        tallies(carver.take<Tally>(rows * plan.chunks)),
        counters(carver.take<uint32_t>(rows * kDigits)) {}

  static int64_t bytes(int64_t rows, const WinnersPlan& plan) {
    return plan.chunks > 1 ? WinnersWorkspace(nullptr, rows, plan).carver.used() : 0;
  }
};

// Any plan, number of threads (a multiple of 32) and largest grid give the same bits.
template <typename S, typename LaunchKernel>
void launch_winners_rows(const WinnersParams& params, const WinnersPlan& plan, void* memory,
                         const LaunchKernel& launch_kernel, int threads = kWinnersThreads,
                         int64_t max_blocks = kMaxGridX) {
  using Key = winners_key_t<S>;
  if (params.rows == 0 || params.k == 0) {
    return;
  }
  const dim3 block(static_cast<unsigned>(threads));
  const auto grid = [&](int64_t blocks) { return grid_for(blocks, 1, max_blocks); };
  if (plan.chunks == 1) {
    launch_kernel("k_winners", winners_row_kernel<S>, grid(params.rows), block, sizeof(RadixShared<Key>), params);
    return;
  }
  const WinnersWorkspace<S> workspace(memory, params.rows, plan);
  const dim3 by_row = grid(params.rows);
  const dim3 by_chunk = grid(params.rows * plan.chunks);
  launch_kernel("k_winners", winners_start_kernel<S>, by_row, block, 0, params, workspace.states, workspace.counters);
  if constexpr (kNarrowsKeys<S>) {
    launch_kernel("k_winners", winners_narrow_kernel<S>, by_chunk, block, kWinnersScanBytes, params, plan,
                  workspace.states);
  }
  for (int known_bits = 0; known_bits < kKeyBits<S>; known_bits += kDigitBits) {
    launch_kernel("k_winners", winners_histogram_kernel<S>, by_chunk, block, kWinnersHistogramBytes, params, plan,
                  workspace.states, workspace.counters);
    launch_kernel("k_winners", winners_pick_kernel<Key>, by_row, block, kWinnersScanBytes, params.rows,
                  workspace.states, workspace.counters);
  }
  launch_kernel("k_winners", winners_count_kernel<S>, by_chunk, block, kWinnersScanBytes, params, plan,
                workspace.states, workspace.tallies);
  launch_kernel("k_winners", winners_scan_kernel<Tally>, by_row, block, kWinnersScanBytes, params.rows, plan.chunks,
                workspace.tallies);
  launch_kernel("k_winners", winners_write_kernel<S>, by_chunk, block, kWinnersScanBytes, params, plan,
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
