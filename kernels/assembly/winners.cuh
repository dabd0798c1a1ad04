// Kernels of k_winners: radix selection of the k-th key of a row from its highest digit down, then the winners by
// index.
//
// Every count is an integer, so no order of blocks, threads or atomics shows in the result. A row of one chunk is done
// by one block in one launch. The chunks of a longer row are divided among blocks, kernel after kernel:
//
//   start; narrow (of int64); for every digit: histogram (of the digit, over the keys that match all higher ones), pick
//   (the digit of the k-th key); count (elements above and equal to the k-th, by chunk), scan (over the chunks of a
//   row), write.
#pragma once

#include "kernels/assembly/radix_select.cuh"
#include "kernels/cuda/grid.cuh"

namespace torch_hrr::kernels {

constexpr int kWinnersThreads = 512;
constexpr int64_t kOneBlockElements = 16384;
constexpr int64_t kMinChunkElements = 4096;
constexpr int64_t kTargetChunks = 1024;  // of all rows together: two to four waves of blocks

// How rows are divided, as data of their number and length: chunks[r][c] is elements [c chunk, (c + 1) chunk).
struct WinnersPlan {
  int64_t chunk = 1;
  int64_t chunks = 1;
};

inline WinnersPlan winners_plan(int64_t rows, int64_t n) {
  WinnersPlan plan;
  plan.chunk = n;
  if (n > kOneBlockElements && rows < kTargetChunks) {
    const int64_t wanted = kTargetChunks / rows;
    const int64_t least = (n + wanted - 1) / wanted;
    plan.chunk = (least + kMinChunkElements - 1) / kMinChunkElements * kMinChunkElements;
    plan.chunks = (n + plan.chunk - 1) / plan.chunk;
  }
  return plan;
}

// The shared memory of the kernels that only scan.
constexpr std::size_t kWinnersScanBytes = kWarpSize * sizeof(Tally);

// A block a row does everything.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads) winners_row_kernel(WinnersParams params) {
  using Key = winners_key_t<S>;
  auto& shared = *dynamic_shared<RadixShared<Key>>();
  clear_counters(shared.counters);
  for (int64_t r = blockIdx.x; r < params.rows; r += gridDim.x) {
    const WinnersSpan<S> span(params, r, 0, params.n);
    KthKey<Key> kth = unknown_key<S>(params);
    if constexpr (kNarrowsKeys<S>) {
      kth.differing = block_or<Key>(differing_of_thread(span), shared.scan);
    }
    kth = find_kth_key(shared, kth, [&](const auto& sink) { span.visit_keys(sink); });
    // Its barriers keep the next row out of shared.kth until all threads have read this one.
    write_winners(params, r, span, kth, 0, shared.scan);
  }
}

// states[r] = nothing known, counters[r] = 0
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads)
    winners_start_kernel(WinnersParams params, KthKey<winners_key_t<S>>* states, uint32_t* counters) {
  for (int64_t r = blockIdx.x; r < params.rows; r += gridDim.x) {
    clear_counters(counters + r * kDigits);
    if (thread_rank() == 0) {
      states[r] = unknown_key<S>(params);
      if constexpr (kNarrowsKeys<S>) {
        states[r].differing = 0;
      }
    }
  }
}

// states[r] learns in which bits keys differ: a block for each chunk of each row.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads)
    winners_narrow_kernel(WinnersParams params, WinnersPlan plan, KthKey<winners_key_t<S>>* states) {
  static_assert(sizeof(winners_key_t<S>) == sizeof(unsigned long long));
  for (int64_t block = blockIdx.x; block < params.rows * plan.chunks; block += gridDim.x) {
    const int64_t r = block / plan.chunks;
    const WinnersSpan<S> span(params, r, block % plan.chunks * plan.chunk, plan.chunk);
    const auto differing = block_or(differing_of_thread(span), dynamic_shared<winners_key_t<S>>());
    if (thread_rank() == 0) {
      atomicOr(reinterpret_cast<unsigned long long*>(&states[r].differing), differing);
    }
  }
}

// counters[r][d] += digits of one chunk: a block for each chunk of each row.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads)
    winners_histogram_kernel(WinnersParams params, WinnersPlan plan, const KthKey<winners_key_t<S>>* states,
                             uint32_t* counters) {
  auto* const own = dynamic_shared<uint32_t>();
  clear_counters(own);
  block_sync();
  for (int64_t block = blockIdx.x; block < params.rows * plan.chunks; block += gridDim.x) {
    const int64_t r = block / plan.chunks;
    const KthKey<winners_key_t<S>> kth = states[r];
    if (kth.settled()) {
      continue;
    }
    const WinnersSpan<S> span(params, r, block % plan.chunks * plan.chunk, plan.chunk);
    count_digits(kth, own, [&](const auto& sink) { span.visit_keys(sink); });
    block_sync();
    for (int d = thread_rank(); d < kDigits; d += block_threads()) {
      if (own[d] > 0) {
        atomicAdd(&counters[r * kDigits + d], own[d]);
        own[d] = 0;
      }
    }
    block_sync();
  }
}
constexpr std::size_t kWinnersHistogramBytes = kDigits * sizeof(uint32_t);

// states[r] learns a digit from counters[r], which are 0 again for the next: a block a row.
template <typename Key>
__global__ void __launch_bounds__(kWinnersThreads)
    winners_pick_kernel(int64_t rows, KthKey<Key>* states, uint32_t* counters) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    if (!states[r].settled()) {
      pick_digit(counters + r * kDigits, states[r], dynamic_shared<Tally>());
    }
  }
}

// tallies[r][chunk] = the tally of one chunk
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads)
    winners_count_kernel(WinnersParams params, WinnersPlan plan, const KthKey<winners_key_t<S>>* states,
                         Tally* tallies) {
  for (int64_t block = blockIdx.x; block < params.rows * plan.chunks; block += gridDim.x) {
    const int64_t r = block / plan.chunks;
    const WinnersSpan<S> span(params, r, block % plan.chunks * plan.chunk, plan.chunk);
    const Tally total = block_sum(tally_of_thread(span, states[r]), dynamic_shared<Tally>());
    if (thread_rank() == 0) {
      tallies[block] = total;
    }
  }
}

// tallies[r][chunk] = the sum of tallies[r][earlier chunks], in place: a block a row.
template <typename T>
__global__ void __launch_bounds__(kWinnersThreads) winners_scan_kernel(int64_t rows, int64_t chunks, T* tallies) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    T before = 0;
    for (int64_t first = 0; first < chunks; first += block_threads()) {
      const int64_t chunk = first + thread_rank();
      const int64_t at = r * chunks + chunk;
      T total = 0;
      const T lower = block_exclusive_sum(chunk < chunks ? tallies[at] : T{0}, dynamic_shared<T>(), total);
      if (chunk < chunks) {
        tallies[at] = before + lower;
      }
      before += total;
    }
  }
}

// The winners of one chunk, after those of the chunks before it.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads)
    winners_write_kernel(WinnersParams params, WinnersPlan plan, const KthKey<winners_key_t<S>>* states,
                         const Tally* tallies) {
  for (int64_t block = blockIdx.x; block < params.rows * plan.chunks; block += gridDim.x) {
    const int64_t r = block / plan.chunks;
    const WinnersSpan<S> span(params, r, block % plan.chunks * plan.chunk, plan.chunk);
    write_winners(params, r, span, states[r], tallies[block], dynamic_shared<Tally>());
  }
}

// keys[i] orders as int64 what values[i] orders: a stable descending sort of the keys sorts the winners.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads) winner_keys_kernel(const S* values, int64_t count, int64_t* keys) {
  constexpr uint64_t kSign = kKeyBits<S> == 64 ? uint64_t{1} << 63 : 0;
  for_each_of_grid(count, [&](int64_t i) { keys[i] = static_cast<int64_t>(winners_key(values[i]) ^ kSign); });
}

}  // namespace torch_hrr::kernels
