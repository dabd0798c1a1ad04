// The procedural connectome: a random directed graph of density p that is a function of a key alone and takes no
// memory.
//
// Every pair (row i, column j) is an edge with probability p, independently. Columns are cut into blocks of `width`;
// row i and block c own a Philox stream: counter words (draw, c, i, kEdgeStream), key connectome_key(seed, brain,
// fiber). The edges inside a block follow from its start by geometric gaps, P(gap = g) = p (1 - p)^(g - 1), each drawn
// from successive words of the stream by Walker's alias method over integer tables: no logarithm, the same bits
// everywhere.
//
// Tables have 2^10 cells. A word's upper 10 bits name a cell, its lower 22 bits are compared with the cell's threshold:
// below it the outcome is the cell, else the cell's alias (an entry is threshold 2^10 + alias). Probabilities are
// multiples of 2^-32; a density below 2^-43 gives no edges. Outcome v < 1023 is the gap v + 1; outcome 1023 means that
// no edge lies in the next 1023 columns, after which the process starts anew: a geometric gap has no memory. Where p <
// 2^-8 a gap is 1 + 1024 h + l, quotient h geometric with 1 - (1 - p)^1024 and remainder l below 1024 drawn from a
// second word; the two are independent.
//
// These constants and the layout of counters are frozen: tests hold golden rows.
#pragma once

#include <cstdint>

#include "kernels/macros.h"
#include "kernels/philox.h"

namespace torch_hrr::kernels {

constexpr int kGapBits = 10;
constexpr int kGapCells = 1 << kGapBits;
constexpr uint32_t kGapNone = kGapCells - 1;
constexpr uint32_t kGapFraction = (1u << (32 - kGapBits)) - 1;
constexpr uint32_t kEdgeStream = 0x65646765;      // word 3 of an edge's counter
constexpr uint32_t kStimulusStream = 0x7374696d;  // and of a stimulus's
constexpr double kLeastOneLevel = 0x1p-8;
// A block has about 256 edges or more, so that starting a stream costs little, unless it leaves the L2 cache.
constexpr double kEdgesPerBlock = 256;
constexpr int64_t kLeastWidth = 256;
constexpr int64_t kLargestWidth = int64_t{1} << 17;

// The tables of one density; plain data, copied to a GPU as it is.
struct GapTables {
  uint32_t quotient[kGapCells];   // of gaps, or of their quotients where `two_level` is set
  uint32_t remainder[kGapCells];  // of remainders
  int32_t two_level;
  int32_t empty;  // no edges
  int64_t width;  // of a column block
  double p;       // the density
};

// Fills the tables for a density in [0, 1]. Sums, products and comparisons of doubles alone: the same on every machine.
void make_gap_tables(double p, GapTables& tables);

// Column sums of a stimulus: S ~ Binomial(size, p) as first + #{m < count : thresholds[m] <= u} for a 64-bit word u.
// guide[b] is the first m that words with upper byte b have to look at.
struct BinomialTable {
  static constexpr int kGuides = 256;
  int64_t first = 0;
  int64_t count = 0;
  const uint64_t* thresholds = nullptr;
  int32_t guide[kGuides] = {};
};

// The numbers that a table may need: a bound for every size and p.
int64_t binomial_capacity(int64_t size, double p);
// Fills `thresholds` (binomial_capacity numbers) and the rest of the table.
void make_binomial_table(int64_t size, double p, uint64_t* thresholds, BinomialTable& table);

KERNEL_ISA_BEGIN

// The Philox key of a fiber, from the root of a brain's keys: mix64(seed) ^ brain.
KERNEL_HOST_DEVICE constexpr uint64_t key_of_root(uint64_t root, uint64_t fiber) {
  return mix64(mix64(root) ^ fiber);
}
// Injective in each argument for given others.
KERNEL_HOST_DEVICE constexpr uint64_t connectome_key(uint64_t seed, uint64_t brain, uint64_t fiber) {
  return key_of_root(mix64(seed) ^ brain, fiber);
}

KERNEL_HOST_DEVICE constexpr uint32_t gap_outcome(uint32_t entry, uint32_t word) {
  return (word & kGapFraction) < (entry >> kGapBits) ? word >> (32 - kGapBits) : entry & kGapNone;
}

KERNEL_HOST_DEVICE constexpr PhiloxBlock edge_counter(uint32_t draw, uint32_t block, uint32_t row) {
  return {{draw, block, row, kEdgeStream}};
}

// sink(column in the block) for every edge of one row and block, ascending: the definition, one edge at a time.
template <typename Sink>
KERNEL_HOST_DEVICE void for_each_edge(const GapTables& tables, PhiloxKey key, uint32_t row, uint32_t block,
                                      int32_t width, Sink&& sink) {
  int32_t position = -1;
  for (uint32_t draw = 0; position < width; ++draw) {
    const PhiloxBlock words = philox4x32(edge_counter(draw, block, row), key);
    for (int w = 0; w < 4; w += tables.two_level != 0 ? 2 : 1) {
      const uint32_t outcome = gap_outcome(tables.quotient[words.word[w] >> (32 - kGapBits)], words.word[w]);
      if (tables.two_level != 0) {
        const uint32_t low = words.word[w + 1];
        position += static_cast<int32_t>(outcome << kGapBits);
        if (outcome == kGapNone) {
          continue;
        }
        position += static_cast<int32_t>(gap_outcome(tables.remainder[low >> (32 - kGapBits)], low)) + 1;
      } else {
        position += static_cast<int32_t>(outcome);
        if (outcome == kGapNone) {
          continue;
        }
        position += 1;
      }
      if (position < width) {
        sink(position);
      }
    }
  }
}

// The counter whose words (0, 1) decide S of column j.
KERNEL_HOST_DEVICE constexpr PhiloxBlock stimulus_counter(int64_t column) {
  const auto j = static_cast<uint64_t>(column);
  return {{static_cast<uint32_t>(j), static_cast<uint32_t>(j >> 32), 0, kStimulusStream}};
}

// S of a uniform 64-bit word.
KERNEL_HOST_DEVICE int32_t binomial_count(const BinomialTable& table, uint64_t word) {
  int64_t m = table.guide[word >> 56];
  while (m < table.count && table.thresholds[m] <= word) {
    ++m;
  }
  return static_cast<int32_t>(table.first + m);
}

KERNEL_HOST_DEVICE int32_t stimulus_count(const BinomialTable& table, PhiloxKey key, int64_t column) {
  const PhiloxBlock words = philox4x32(stimulus_counter(column), key);
  return binomial_count(table, join_words(words.word[0], words.word[1]));
}

KERNEL_ISA_END

// Edges of rows that were drawn before, block by block. A row has a place; its list of a block are columns of the
// block, 16 bits each in blocks of at most kNarrowWidth columns and 32 bits in wider ones, of which those not below the
// block's width are no edges. From the density kLeastInBits on it is a bit for every column instead.
struct KeptEdges {
  static constexpr int32_t kNotDrawn = -1;  // lengths of lists that are drawn and kept at the next use
  static constexpr int32_t kTooLong = -2;   // and of those that are drawn at every use
  void* columns = nullptr;                  // [blocks, places, capacity]
  int32_t* lengths = nullptr;               // [blocks, places]
  int64_t places = 0;
  int64_t capacity = 0;     // of a list: a multiple of kListGrain; of bits, as many numbers of 16 bits
  int64_t first_block = 0;  // of those that are here

  KERNEL_HOST_DEVICE int64_t list(int64_t block, int64_t place) const {
    return (block - first_block) * places + place;
  }
};
constexpr int64_t kNarrowWidth = int64_t{1} << 15;
constexpr int64_t kListGrain = 16;

// Bits take at most one and a half times the memory of lists, mostly less, and 64 columns are seen at once.
constexpr double kLeastInBits = 0x1p-5;

inline int64_t bytes_of_column(const GapTables& tables) {
  return tables.width <= kNarrowWidth ? 2 : 4;
}

// Edges from rows into the column blocks [first, last): counts[j] += sign.
struct DeliverParams {
  const GapTables* tables = nullptr;
  uint64_t key = 0;
  const int64_t* rows = nullptr;
  int64_t row_count = 0;
  int64_t n = 0;  // columns
  int32_t* counts = nullptr;
  int32_t sign = 1;
  const KeptEdges* kept = nullptr;
  const int32_t* places = nullptr;  // [row_count] in `kept`, or -1: drawn and not kept
};

// The edges from rows[r] into the columns whose bit is set: pairs (r, column), in no particular order.
struct MatchParams {
  const GapTables* tables = nullptr;
  uint64_t key = 0;
  const int64_t* rows = nullptr;
  int64_t row_count = 0;
  int64_t n = 0;
  const uint32_t* bits = nullptr;  // bit_words(n)
  int32_t* pairs = nullptr;        // 2 a pair
  int64_t capacity = 0;            // pairs
  const KeptEdges* kept = nullptr;
  const int32_t* places = nullptr;
};

// Column blocks of n columns, and the columns of one of them, which is the last or full; Tables have a width.
template <typename Tables>
KERNEL_HOST_DEVICE int64_t block_count(const Tables& tables, int64_t n) {
  return (n + tables.width - 1) / tables.width;
}
template <typename Tables>
KERNEL_HOST_DEVICE int32_t columns_of_block(const Tables& tables, int64_t n, int64_t block) {
  const int64_t left = n - block * tables.width;
  return static_cast<int32_t>(left < tables.width ? left : tables.width);
}

// The CPU kernels: column blocks [first, last) of a connectome.
struct ConnectomeKernels {
  void (*deliver)(const DeliverParams&, int64_t first_block, int64_t last_block);
  // Returns the pairs found, of which it writes up to its capacity.
  int64_t (*match)(const MatchParams&, int64_t first_block, int64_t last_block);
  // counts[j] of a stimulus for columns [first, last).
  void (*stimulus_counts)(const BinomialTable&, uint64_t key, int64_t first, int64_t last, int32_t* counts);
};

// Words that hold a bit for each of n columns.
KERNEL_HOST_DEVICE constexpr int64_t bit_words(int64_t n) {
  return (n + 31) / 32;
}

}  // namespace torch_hrr::kernels
