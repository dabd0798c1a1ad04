// Kernels of k_winners: radix selection of the k-th key of a row from its highest digit down, then the winners by
// index.
//
// Every count is an integer, so no order of blocks, threads or atomics shows in the result. A row of one chunk is done
// by one block in one launch; it is read once where shared memory has room for it. The chunks of a longer row are
// divided among blocks, kernel after kernel:
//
//   start; histogram (of the first digit), pick (the digit of the k-th key); for every further digit: refine (the
//   histogram over the keys that match all higher digits), pick; count (elements above and equal to the k-th, by
//   chunk), write.
//
// Once the elements that may still win are a quarter of the row or fewer, refine or count lists those of each chunk,
// and the kernels after it read the lists: of a row with few winners two reads.
#pragma once

#include "kernels/assembly/radix_select.cuh"
#include "kernels/cuda/grid.cuh"

namespace torch_hrr::kernels {

constexpr int kWinnersThreads = 512;
constexpr int kWinnersBlocks = 3;  // of a multiprocessor: 40 registers a thread
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

// Elements of a chunk that are listed at most.
inline int64_t winners_list_capacity(const WinnersPlan& plan) {
  return plan.chunk / 4;
}

// The shared memory of the kernels that only scan.
constexpr std::size_t kWinnersScanBytes = kWarpSize * sizeof(Tally);

// Bytes of a row in the shared memory of winners_row_kernel.
template <typename S>
constexpr int64_t kept_row_bytes(int64_t n) {
  return (n * static_cast<int64_t>(sizeof(S)) + 15) / 16 * 16;
}

// Copies the span, the begin of a row, to `kept`, where each thread meets the elements again that it copied. Returns
// the bits in which this thread's keys differ from the row's first.
template <typename S>
KERNEL_DEVICE winners_key_t<S> keep_row(WinnersSpan<S>& span, S* kept) {
  const auto first_key = winners_key(span.row[0]);
  winners_key_t<S> differing = 0;
  for (int64_t first = span.first_of_thread(); first < span.end; first += span.step()) {
    const auto run = span.load(first);
    *reinterpret_cast<ElementRun<S, WinnersSpan<S>::kRun>*>(kept + first) = run;
    const int size = span.size_of_run(first);
#pragma unroll
    for (int i = 0; i < span.kRun; ++i) {
      differing |= i < size ? winners_key(run.elements[i]) ^ first_key : 0;
    }
  }
  span.row = kept;
  span.aligned = true;
  return differing;
}

// Kept rows of elements of two bytes would spill at 40 registers: two blocks.
template <typename S, bool kKeep>
constexpr int kWinnersRowBlocks = kKeep && sizeof(S) == 2 ? 2 : kWinnersBlocks;

// A block a row does everything; with kKeep from shared memory.
template <typename S, bool kKeep>
__global__ void __launch_bounds__(kWinnersThreads, kWinnersRowBlocks<S, kKeep>)
    winners_row_kernel(WinnersParams params) {
  auto& shared = *dynamic_shared<RadixShared<S>>();
  clear_counters(shared.counters);
  for (int64_t r = blockIdx.x; r < params.rows; r += gridDim.x) {
    WinnersSpan<S> span(params, r, 0, params.n);
    KthKey<S> kth = unknown_key<S>(params.n, params.k);
    if constexpr (kKeep) {
      const auto differing = keep_row(span, reinterpret_cast<S*>(&shared + 1));
      // Inputs of neurons leave half of their 64 bits alone.
      if constexpr (std::is_integral_v<S>) {
        const auto all = block_or(differing, reinterpret_cast<winners_key_t<S>*>(shared.scan));
        kth.lowest = all == 0 ? kKeyBits<S> : lowest_bit(all);
      }
    }
    kth = find_kth_key(shared, kth, [&](const auto& sink) { span.visit_keys(sink); });
    // Its barriers keep the next row out of shared.kth until all threads have read this one.
    write_winners(params, r, span, kth, 0, shared.scan);
  }
}

// The elements of each chunk of each row that may still win, in their order, where they are few.
template <typename S>
struct WinnersLists {
  static constexpr int32_t kNone = -1;

  int32_t* sizes;  // [rows][chunks], kNone while a chunk has no list
  S* elements;     // [rows][chunks][capacity]
  uint32_t* indices;
  int64_t capacity;

  KERNEL_DEVICE WinnersSpan<S> span(int64_t block) const {
    WinnersSpan<S> span(elements + block * capacity, 0, sizes[block]);
    span.indices = indices + block * capacity;
    return span;
  }
};

template <typename S>
KERNEL_DEVICE WinnersSpan<S> span_of_chunk(const WinnersParams& params, const WinnersPlan& plan, int64_t block) {
  return {params, block / plan.chunks, block % plan.chunks * plan.chunk, plan.chunk};
}

// Whether what may still win would fit into the lists if all chunks had the same share.
template <typename S>
KERNEL_DEVICE bool is_worth_listing(const WinnersParams& params, const KthKey<S>& kth) {
  return params.k - kth.need + kth.match <= params.n / 4;
}

// Lists what of a chunk may still win, if it is few, and calls count(key) for all of it. Returns the chunk's tally.
template <typename S, typename Count>
KERNEL_DEVICE Tally list_chunk(const WinnersParams& params, const WinnersPlan& plan, const WinnersLists<S>& lists,
                               int64_t block, const KthKey<S>& kth, Tally* scan, const Count& count) {
  S* const elements = lists.elements + block * lists.capacity;
  uint32_t* const indices = lists.indices + block * lists.capacity;
  const Tally tally = put_winners(span_of_chunk<S>(params, plan, block), kth, params.n, 0, scan,
                                  [&](int64_t place, int64_t index, S element) {
                                    if (place < lists.capacity) {
                                      elements[place] = element;
                                      indices[place] = static_cast<uint32_t>(index);
                                    }
                                    count(winners_key(element));
                                  });
  const int64_t size = above_of(tally) + equal_of(tally);
  if (thread_rank() == 0 && size <= lists.capacity) {
    lists.sizes[block] = static_cast<int32_t>(size);
  }
  return tally;
}

// counters += own, which are 0 again on return.
KERNEL_DEVICE void add_counters(uint32_t* own, uint32_t* counters) {
  for (int d = thread_rank(); d < kDigits; d += block_threads()) {
    if (own[d] > 0) {
      atomicAdd(&counters[d], own[d]);
      own[d] = 0;
    }
  }
}

// states[r] = nothing known, counters[r] = 0, no lists
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads)
    winners_start_kernel(WinnersParams params, WinnersPlan plan, KthKey<S>* states, uint32_t* counters,
                         int32_t* list_sizes) {
  for (int64_t r = blockIdx.x; r < params.rows; r += gridDim.x) {
    clear_counters(counters + r * kDigits);
    for (int64_t chunk = thread_rank(); chunk < plan.chunks; chunk += block_threads()) {
      list_sizes[r * plan.chunks + chunk] = WinnersLists<S>::kNone;
    }
    if (thread_rank() == 0) {
      states[r] = unknown_key<S>(params.n, params.k);
    }
  }
}

// counters[r][d] += first digits of one chunk: a block for each chunk of each row.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads)
    winners_histogram_kernel(WinnersParams params, WinnersPlan plan, uint32_t* counters) {
  auto* const own = dynamic_shared<uint32_t>();
  clear_counters(own);
  block_sync();
  const KthKey<S> unknown = unknown_key<S>(params.n, params.k);
  for (int64_t block = blockIdx.x; block < params.rows * plan.chunks; block += gridDim.x) {
    const WinnersSpan<S> span = span_of_chunk<S>(params, plan, block);
    count_digits(unknown, own, [&](const auto& sink) { span.visit_keys(sink); });
    block_sync();
    add_counters(own, counters + block / plan.chunks * kDigits);
    block_sync();
  }
}
constexpr std::size_t kWinnersHistogramBytes = kDigits * sizeof(uint32_t);

// counters[r][d] += next digits of one chunk, from its list or into one.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads, kWinnersBlocks)
    winners_refine_kernel(WinnersParams params, WinnersPlan plan, WinnersLists<S> lists, const KthKey<S>* states,
                          uint32_t* counters) {
  auto& shared = *dynamic_shared<RadixShared<S>>();
  clear_counters(shared.counters);
  block_sync();
  for (int64_t block = blockIdx.x; block < params.rows * plan.chunks; block += gridDim.x) {
    const int64_t r = block / plan.chunks;
    const KthKey<S> kth = states[r];
    if (kth.settled()) {
      continue;
    }
    DigitCounter<S> counter{kth, shared.counters};
    const auto count = [&](auto key) { counter.add(key); };
    const bool listed = lists.sizes[block] != lists.kNone;
    if (!listed && is_worth_listing(params, kth)) {
      list_chunk(params, plan, lists, block, kth, shared.scan, count);
    } else {
      (listed ? lists.span(block) : span_of_chunk<S>(params, plan, block)).visit_keys(count);
    }
    counter.flush();
    block_sync();
    add_counters(shared.counters, counters + r * kDigits);
    block_sync();
  }
}

// states[r] learns a digit from counters[r], which are 0 again for the next: a block a row.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads)
    winners_pick_kernel(int64_t rows, KthKey<S>* states, uint32_t* counters) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    if (!states[r].settled()) {
      pick_digit(counters + r * kDigits, states[r], dynamic_shared<Tally>());
    }
  }
}

// tallies[r][chunk] = the tally of one chunk, from its list or with one.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads, kWinnersBlocks)
    winners_count_kernel(WinnersParams params, WinnersPlan plan, WinnersLists<S> lists, const KthKey<S>* states,
                         Tally* tallies) {
  auto* const scan = dynamic_shared<Tally>();
  for (int64_t block = blockIdx.x; block < params.rows * plan.chunks; block += gridDim.x) {
    const KthKey<S> kth = states[block / plan.chunks];
    Tally tally = 0;
    const bool listed = lists.sizes[block] != lists.kNone;
    if (!listed && is_worth_listing(params, kth)) {
      tally = list_chunk(params, plan, lists, block, kth, scan, [](auto) {});
    } else {
      const WinnersSpan<S> span = listed ? lists.span(block) : span_of_chunk<S>(params, plan, block);
      span.visit_keys([&](auto key) { tally += kth.tally(key); });
      tally = block_sum(tally, scan);
    }
    if (thread_rank() == 0) {
      tallies[block] = tally;
    }
  }
}

// The winners of one chunk, after those of the chunks before it.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads, kWinnersBlocks)
    winners_write_kernel(WinnersParams params, WinnersPlan plan, WinnersLists<S> lists, const KthKey<S>* states,
                         const Tally* tallies) {
  auto* const scan = dynamic_shared<Tally>();
  for (int64_t block = blockIdx.x; block < params.rows * plan.chunks; block += gridDim.x) {
    const int64_t r = block / plan.chunks;
    Tally before = 0;
    for (int64_t earlier = r * plan.chunks + thread_rank(); earlier < block; earlier += block_threads()) {
      before += tallies[earlier];
    }
    before = block_sum(before, scan);
    const WinnersSpan<S> span =
        lists.sizes[block] == lists.kNone ? span_of_chunk<S>(params, plan, block) : lists.span(block);
    write_winners(params, r, span, states[r], before, scan);
  }
}

// keys[i] orders as int64 what values[i] orders: a stable descending sort of the keys sorts the winners.
template <typename S>
__global__ void __launch_bounds__(kWinnersThreads) winner_keys_kernel(const S* values, int64_t count, int64_t* keys) {
  constexpr uint64_t kSign = kKeyBits<S> == 64 ? uint64_t{1} << 63 : 0;
  for_each_of_grid(count, [&](int64_t i) { keys[i] = static_cast<int64_t>(winners_key(values[i]) ^ kSign); });
}

}  // namespace torch_hrr::kernels
