// Edges of the procedural connectome on the CPU: a register of rows at a time, block by block.
#include "kernels/assembly/connectome.h"

#include "kernels/philox_lanes.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

using LaneWords = PhiloxWords;

// sink(columns in the block, mask) for the edges of kPhiloxLanes rows, the first `live` of them, in lockstep; between
// two calls of step_done, which follow every Philox call, there are at most 4 calls of sink.
template <bool kTwoLevel, typename Sink, typename StepDone>
inline void for_each_edge_of_rows(const GapTables& tables, PhiloxKey key, const uint32_t* rows, int live,
                                  uint32_t block, uint32_t width, const Sink& sink, const StepDone& step_done) {
  const LaneWords none = LaneWords::broadcast(kGapNone);
  const LaneWords end = LaneWords::broadcast(width);
  const LaneWords fraction = LaneWords::broadcast(kGapFraction);
  const LaneWords one = LaneWords::broadcast(1);
  PhiloxLanes counter;
  __builtin_memcpy(&counter.word[2], rows, sizeof(LaneWords));
  counter.word[1] = LaneWords::broadcast(block);
  counter.word[3] = LaneWords::broadcast(kEdgeStream);
  // One column past the last edge, so that everything stays unsigned; rows beyond `live` begin at the end.
  LaneWords next = LaneWords::broadcast(0);
  for (int lane = live; lane < kPhiloxLanes; ++lane) {
    next.lanes[lane] = width;
  }
  bool running = true;
  for (uint32_t draw = 0; running; ++draw) {
    counter.word[0] = LaneWords::broadcast(draw);
    const PhiloxLanes words = philox4x32(counter, key);
#pragma GCC unroll 4
    for (int w = 0; w < 4; w += kTwoLevel ? 2 : 1) {
      const auto outcome_of = [&](const uint32_t* table, LaneWords word) {
        const LaneWords cell = word >> (32 - kGapBits);
        const LaneWords entry = gather(table, cell);
        return select((word & fraction) < (entry >> kGapBits), cell, entry & none);
      };
      const LaneWords outcome = outcome_of(tables.quotient, words.word[w]);
      LaneWords column;
      if constexpr (kTwoLevel) {
        next = next + (outcome << kGapBits);
        column = next + outcome_of(tables.remainder, words.word[w + 1]);
      } else {
        next = next + outcome;
        column = next;
      }
      const auto edge = outcome != none;
      next = select(edge, column + one, next);
      sink(column, less_mask(select(edge, column, end), end));
    }
    // A lane that is past the end stays there: what is added to it, at most 2^20 a step, is far from 2^32.
    running = less_mask(next, end) != 0;
    step_done();
  }
}

template <typename Sink, typename StepDone>
inline void for_each_edge_of_rows(const GapTables& tables, PhiloxKey key, const uint32_t* rows, int live,
                                  uint32_t block, uint32_t width, const Sink& sink, const StepDone& step_done) {
  if (tables.two_level != 0) {
    for_each_edge_of_rows<true>(tables, key, rows, live, block, width, sink, step_done);
  } else {
    for_each_edge_of_rows<false>(tables, key, rows, live, block, width, sink, step_done);
  }
}

// body(rows, how many, the first one's number) for every register of rows.
template <typename Body>
inline void for_each_group(const int64_t* rows, int64_t count, const Body& body) {
  for (int64_t first = 0; first < count; first += kPhiloxLanes) {
    const auto live = static_cast<int>(count - first < kPhiloxLanes ? count - first : kPhiloxLanes);
    uint32_t group[kPhiloxLanes] = {};
    for (int lane = 0; lane < live; ++lane) {
      group[lane] = static_cast<uint32_t>(rows[first + lane]);
    }
    body(group, live, first);
  }
}

// Columns are collected in a buffer first: generating and counting overlap badly otherwise.
void deliver(const DeliverParams& params, int64_t first_block, int64_t last_block) {
  if (params.tables->empty != 0) {
    return;
  }
  constexpr int kBuffer = 2048;
  uint32_t columns[kBuffer + 5 * kPhiloxLanes];
  const PhiloxKey key = philox_key(params.key);
  for (int64_t block = first_block; block < last_block; ++block) {
    int32_t* counts = params.counts + block * params.tables->width;
    const auto width = static_cast<uint32_t>(columns_of_block(*params.tables, params.n, block));
    uint32_t* end = columns;
    const auto flush = [&] {
      for (const uint32_t* column = columns; column != end; ++column) {
        counts[*column] += params.sign;
      }
      end = columns;
    };
    for_each_group(params.rows, params.row_count, [&](const uint32_t* rows, int live, int64_t) {
      for_each_edge_of_rows(
          *params.tables, key, rows, live, static_cast<uint32_t>(block), width,
          [&](LaneWords column, uint32_t edges) {
            compress_to(end, column, edges);
            end += __builtin_popcount(edges);
          },
          [&] {
            if (end - columns > kBuffer) {
              flush();
            }
          });
    });
    flush();
  }
}

int64_t match(const MatchParams& params, int64_t first_block, int64_t last_block) {
  if (params.tables->empty != 0) {
    return 0;
  }
  const PhiloxKey key = philox_key(params.key);
  int64_t found = 0;
  for (int64_t block = first_block; block < last_block; ++block) {
    const int64_t start = block * params.tables->width;
    const auto width = static_cast<uint32_t>(columns_of_block(*params.tables, params.n, block));
    const uint32_t* bits = params.bits + start / 32;
    uint32_t set = 0;
    for (int64_t word = 0; word < bit_words(width); ++word) {
      set |= bits[word];
    }
    if (set == 0) {
      continue;
    }
    const LaneWords end = LaneWords::broadcast(width);
    const LaneWords last = LaneWords::broadcast(width - 1);
    const LaneWords one = LaneWords::broadcast(1);
    for_each_group(params.rows, params.row_count, [&](const uint32_t* rows, int live, int64_t first) {
      for_each_edge_of_rows(
          *params.tables, key, rows, live, static_cast<uint32_t>(block), width,
          [&](LaneWords column, uint32_t edges) {
            // Columns behind the block's end are read as its last.
            const LaneWords inside = select(column < end, column, last);
            const LaneWords words = gather(bits, inside >> 5);
            const LaneWords bit = {(words.lanes >> (inside.lanes & 31)) & 1};
            for (uint32_t hits = equal_mask(bit, one) & edges; hits != 0; hits &= hits - 1) {
              const int lane = __builtin_ctz(hits);
              if (found < params.capacity) {
                params.pairs[2 * found] = static_cast<int32_t>(first + lane);
                params.pairs[2 * found + 1] = static_cast<int32_t>(start + column.lanes[lane]);
              }
              ++found;
            }
          },
          [] {});
    });
  }
  return found;
}

// stimulus_count of a register of columns at a time.
void stimulus_counts(const BinomialTable& table, uint64_t key, int64_t first, int64_t last, int32_t* counts) {
  const PhiloxKey words = philox_key(key);
  const LaneWords zero = LaneWords::broadcast(0);
  LaneWords columns;
  for (int lane = 0; lane < kPhiloxLanes; ++lane) {
    columns.lanes[lane] = static_cast<uint32_t>(first + lane);
  }
  // Columns are below 2^31: stimulus_counter's second word is 0.
  for (int64_t j = first; j < last; j += kPhiloxLanes, columns.lanes += kPhiloxLanes) {
    const PhiloxLanes counters = {{columns, zero, zero, LaneWords::broadcast(kStimulusStream)}};
    const PhiloxLanes blocks = philox4x32(counters, words);
    const auto live = static_cast<int>(last - j < kPhiloxLanes ? last - j : kPhiloxLanes);
    for (int lane = 0; lane < live; ++lane) {
      counts[j + lane] = binomial_count(table, join_words(blocks.word[0].lanes[lane], blocks.word[1].lanes[lane]));
    }
  }
}

}  // namespace

KERNEL_REGISTER(ConnectomeKernels, {deliver, match, stimulus_counts})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
