// Edges of the procedural connectome on the CPU: a register of rows at a time, block by block.
#include "kernels/assembly/connectome.h"

#include <type_traits>

#include "kernels/numeric.h"
#include "kernels/philox_lanes.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

using LaneWords = PhiloxWords;

// Columns of a list that is not kept, before they are used in parts.
constexpr int64_t kScratchColumns = 640;
static_assert(kScratchColumns % kListGrain == 0 && kListGrain % kPhiloxLanes == 0);

// Rows that are drawn together, and where their lists lie.
template <typename Column>
struct Group {
  uint32_t rows[kPhiloxLanes] = {};
  int64_t numbers[kPhiloxLanes];
  Column* lists[kPhiloxLanes];
  int32_t* lengths[kPhiloxLanes];  // of lists that are kept, or null
  int64_t capacity;                // of every list
  int live = 0;
  Column scratch[kPhiloxLanes][kScratchColumns];

  void to_scratch() {
    for (int lane = 0; lane < kPhiloxLanes; ++lane) {
      lists[lane] = scratch[lane];
      lengths[lane] = nullptr;
    }
    capacity = kScratchColumns;
    live = 0;
  }
};

// use(row's number, columns, how many) for the edges of a group's rows in lockstep: once a row, or more often where
// lists are too long. Some of the columns may be `width`, which is no edge, and so are those up to the next multiple of
// 4, so that four may be read at once.
template <bool kTwoLevel, typename Column, typename Use>
inline void draw(const GapTables& tables, PhiloxKey key, uint32_t block, uint32_t width, Group<Column>& group,
                 const Use& use) {
  constexpr int kColumnsPerDraw = kTwoLevel ? 2 : 4;
  const LaneWords none = LaneWords::broadcast(kGapNone);
  const LaneWords end = LaneWords::broadcast(width);
  const LaneWords fraction = LaneWords::broadcast(kGapFraction);
  const LaneWords one = LaneWords::broadcast(1);
  const PhiloxRows words_of(LaneWords::load(group.rows), block, kEdgeStream, key);
  // One column past the last edge, so that everything stays unsigned; rows beyond `live` begin at the end.
  LaneWords next = LaneWords::broadcast(0);
  for (int lane = group.live; lane < kPhiloxLanes; ++lane) {
    next.lanes[lane] = width;
  }
  LaneWords length = LaneWords::broadcast(0);
  int64_t written = 0;  // columns of every list
  const auto use_lists = [&] {
    for (int lane = 0; lane < group.live; ++lane) {
      use(group.numbers[lane], group.lists[lane], static_cast<int64_t>(length.lanes[lane]));
    }
  };
  uint32_t draws = 0;
  for (bool running = true; running;) {
    if (written + kPhiloxLanes > group.capacity) {
      use_lists();
      for (int32_t* kept : group.lengths) {
        if (kept != nullptr) {
          *kept = KeptEdges::kTooLong;
        }
      }
      const int live = group.live;
      group.to_scratch();
      group.live = live;
      length = LaneWords::broadcast(0);
      written = 0;
    }
    LaneWords square[kPhiloxLanes];
    for (int first = 0; first < kPhiloxLanes; first += kColumnsPerDraw) {
      if (!running) {
        for (int i = first; i < kPhiloxLanes; ++i) {
          square[i] = end;
        }
        break;
      }
      const PhiloxLanes words = words_of(draws++);
#pragma GCC unroll 4
      for (int i = 0; i < kColumnsPerDraw; ++i) {
        const auto outcome_of = [&](const uint32_t* table, LaneWords word) {
          const LaneWords cell = word >> (32 - kGapBits);
          const LaneWords entry = gather(table, cell);
          return select((word & fraction) < (entry >> kGapBits), cell, entry & none);
        };
        const LaneWords outcome = outcome_of(tables.quotient, words.word[kTwoLevel ? 2 * i : i]);
        const auto edge = outcome != none;
        LaneWords column;
        if constexpr (kTwoLevel) {
          next = next + (outcome << kGapBits);
          column = next + outcome_of(tables.remainder, words.word[2 * i + 1]);
        } else {
          next = next + outcome;
          column = next;
        }
        // A lane that is past the end stays there: what is added to it, at most 2^20 a draw, is far from 2^32.
        length.lanes -= (LaneWords::Lanes)(next < end).lanes;
        next = select(edge, column + one, next);
        square[first + i] = select(edge, select(column < end, column, end), end);
      }
      running = less_mask(next, end) != 0;
    }
    transpose(square);
    for (int lane = 0; lane < kPhiloxLanes; ++lane) {
      store_as<Column>(square[lane], group.lists[lane] + written);
    }
    written += kPhiloxLanes;
  }
  for (int lane = 0; lane < group.live; ++lane) {
    if (group.lengths[lane] != nullptr) {
      *group.lengths[lane] = static_cast<int32_t>(length.lanes[lane]);
    }
  }
  use_lists();
}

// draw's use for every row of params (DeliverParams or MatchParams): rows that are kept are not drawn.
template <bool kTwoLevel, typename Column, typename Params, typename Use>
inline void for_each_list(const Params& params, int64_t block, uint32_t width, Group<Column>& group, const Use& use) {
  const PhiloxKey key = philox_key(params.key);
  group.to_scratch();
  const auto draw_group = [&] {
    draw<kTwoLevel>(*params.tables, key, static_cast<uint32_t>(block), width, group, use);
    group.to_scratch();
  };
  for (int64_t r = 0; r < params.row_count; ++r) {
    if (params.kept != nullptr && params.places[r] >= 0) {
      const int64_t list = params.kept->list(block, params.places[r]);
      // Places are in no order.
      const int64_t ahead = r + 2 < params.row_count ? params.places[r + 2] : -1;
      if (ahead >= 0) {
        const int64_t next = params.kept->list(block, ahead);
        const auto* const from = static_cast<const Column*>(params.kept->columns) + next * params.kept->capacity;
        const int64_t length = params.kept->lengths[next];
        for (int64_t i = 0; i < length; i += 64 / static_cast<int64_t>(sizeof(Column))) {
          __builtin_prefetch(from + i);
        }
      }
      auto* const columns = static_cast<Column*>(params.kept->columns) + list * params.kept->capacity;
      int32_t& length = params.kept->lengths[list];
      if (length >= 0) {
        use(r, columns, static_cast<int64_t>(length));
        continue;
      }
      if (length == KeptEdges::kNotDrawn) {
        group.lists[group.live] = columns;
        group.lengths[group.live] = &length;
        group.capacity = group.capacity < params.kept->capacity ? group.capacity : params.kept->capacity;
      }
    }
    group.rows[group.live] = static_cast<uint32_t>(params.rows[r]);
    group.numbers[group.live] = r;
    if (++group.live == kPhiloxLanes) {
      draw_group();
    }
  }
  if (group.live > 0) {
    draw_group();
  }
}

// Bits of a group's rows while they are drawn.
struct BitGroup {
  static constexpr int64_t kMostWords = static_cast<int64_t>(kEdgesPerBlock / kLeastInBits) / 64;
  Group<uint16_t> lists;
  int64_t numbers[kPhiloxLanes];
  uint64_t* kept[kPhiloxLanes];    // where a row's bits stay, or null
  int32_t* lengths[kPhiloxLanes];  // not below 0 once they are there
  uint64_t bits[kPhiloxLanes][kMostWords + 1];
};

constexpr int64_t long_words(int64_t width) {
  return (width + 63) / 64;
}

// use(row's number, its bits) for every row of params (DeliverParams or MatchParams), bits from `width` on 0.
template <typename Params, typename Use>
inline void for_each_bits(const Params& params, int64_t block, uint32_t width, BitGroup& group, const Use& use) {
  const PhiloxKey key = philox_key(params.key);
  const auto words = static_cast<size_t>(long_words(width));
  const auto draw_group = [&] {
    const int live = group.lists.live;
    __builtin_memset(group.bits, 0, static_cast<size_t>(live) * sizeof(group.bits[0]));
    draw<false>(*params.tables, key, static_cast<uint32_t>(block), width, group.lists,
                [&](int64_t lane, const uint16_t* columns, int64_t length) {
                  for (int64_t i = 0; i < length; ++i) {
                    group.bits[lane][columns[i] / 64] |= uint64_t{1} << (columns[i] % 64);
                  }
                });
    for (int lane = 0; lane < live; ++lane) {
      uint64_t* const bits = group.bits[lane];
      // What is no edge has the column `width`.
      bits[width / 64] &= ~(uint64_t{1} << (width % 64));
      if (group.kept[lane] != nullptr) {
        __builtin_memcpy(group.kept[lane], bits, words * sizeof(uint64_t));
        *group.lengths[lane] = 0;
      }
      use(group.numbers[lane], bits);
    }
    group.lists.to_scratch();
  };
  group.lists.to_scratch();
  for (int64_t r = 0; r < params.row_count; ++r) {
    uint64_t* kept = nullptr;
    int32_t* length = nullptr;
    if (params.kept != nullptr && params.places[r] >= 0) {
      const auto bits_at = [&](int64_t place) {
        const int64_t list = params.kept->list(block, place);
        return reinterpret_cast<uint64_t*>(static_cast<uint16_t*>(params.kept->columns) + list * params.kept->capacity);
      };
      // Places are in no order.
      const int64_t ahead = r + 2 < params.row_count ? params.places[r + 2] : -1;
      for (size_t word = 0; ahead >= 0 && word < words; word += 8) {
        __builtin_prefetch(bits_at(ahead) + word);
      }
      kept = bits_at(params.places[r]);
      length = &params.kept->lengths[params.kept->list(block, params.places[r])];
      if (*length >= 0) {
        use(r, static_cast<const uint64_t*>(kept));
        continue;
      }
    }
    const int lane = group.lists.live++;
    group.lists.rows[lane] = static_cast<uint32_t>(params.rows[r]);
    group.lists.numbers[lane] = lane;
    group.numbers[lane] = r;
    group.kept[lane] = kept;
    group.lengths[lane] = length;
    if (group.lists.live == kPhiloxLanes) {
      draw_group();
    }
  }
  if (group.lists.live > 0) {
    draw_group();
  }
}

template <typename Body>
inline void for_each_bit(uint64_t word, const Body& body) {
  for (; word != 0; word &= word - 1) {
    body(__builtin_ctzll(word));
  }
}

// bytes[i] += bit i of a word.
inline void add_bits(uint64_t word, uint8_t* bytes) {
#if defined(__AVX512F__)
  const __m512i sums = _mm512_loadu_si512(bytes);
  _mm512_storeu_si512(bytes, _mm512_mask_sub_epi8(sums, word, sums, _mm512_set1_epi8(-1)));
#elif defined(__AVX2__)
  const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  for (int half = 0; half < 2; ++half) {
    const __m256i eight = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int32_t>(word >> 32 * half)), spread);
    auto* const sums = reinterpret_cast<__m256i*>(bytes + 32 * half);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(eight, bit), bit);
    _mm256_storeu_si256(sums, _mm256_sub_epi8(_mm256_loadu_si256(sums), set));
  }
#else
  for_each_bit(word, [&](int i) { ++bytes[i]; });
#endif
}

// body(kTwoLevel, a column of its lists) as integral_constant and a number of the type, for the tables' density.
template <typename Body>
inline auto with_columns(const GapTables& tables, const Body& body) {
  if (tables.two_level != 0) {
    return body(std::true_type(), uint32_t());
  }
  return tables.width > kNarrowWidth ? body(std::false_type(), uint32_t()) : body(std::false_type(), uint16_t());
}

// count += change, where counts that a caller gave may be of anything: they wrap around.
inline void add_to(int32_t& count, int32_t change) {
  count = static_cast<int32_t>(static_cast<uint32_t>(count) + static_cast<uint32_t>(change));
}

// Sums of edges in bytes, which stay in the L1 cache, before they are added to counts.
class ByteCounts {
 public:
  ByteCounts(int32_t* counts, int64_t width, int32_t sign) : counts_(counts), width_(width), sign_(sign) {
    clear();
  }

  // No column comes more than once in the lists of a row.
  void add(const uint16_t* columns, int64_t length) {
    next_row();
    for (int64_t i = 0; i < length; i += 4) {
      uint64_t four;
      __builtin_memcpy(&four, columns + i, sizeof(four));
      ++bytes_[four & 0xffff];
      ++bytes_[four >> 16 & 0xffff];
      ++bytes_[four >> 32 & 0xffff];
      ++bytes_[four >> 48];
    }
  }
  void add(const uint64_t* bits) {
    next_row();
    for (int64_t word = 0; word < long_words(width_); ++word) {
      add_bits(bits[word], bytes_ + 64 * word);
    }
  }
  void flush() {
    for (int64_t j = 0; j < width_; ++j) {
      add_to(counts_[j], sign_ * static_cast<int32_t>(bytes_[j]));
    }
    lists_ = 0;
  }

 private:
  void clear() {
    __builtin_memset(bytes_, 0, static_cast<size_t>(64 * long_words(width_)));
  }
  void next_row() {
    if (lists_ == 255) {
      flush();
      clear();
    }
    ++lists_;
  }

  int32_t* counts_;
  int64_t width_;
  int32_t sign_;
  int lists_ = 0;
  uint8_t bytes_[kNarrowWidth + 1];
};

// From about so many edges a column on, a pass over all columns pays.
inline bool pays_in_bytes(const DeliverParams& params) {
  constexpr double kEdgesPerColumn = 0.4;
  return static_cast<double>(params.row_count) * params.tables->p >= kEdgesPerColumn;
}

void deliver_bits(const DeliverParams& params, int64_t block, BitGroup& group) {
  const auto width = static_cast<uint32_t>(columns_of_block(*params.tables, params.n, block));
  int32_t* const counts = params.counts + block * params.tables->width;
  if (pays_in_bytes(params)) {
    ByteCounts bytes(counts, width, params.sign);
    for_each_bits(params, block, width, group, [&](int64_t, const uint64_t* bits) { bytes.add(bits); });
    bytes.flush();
    return;
  }
  for_each_bits(params, block, width, group, [&](int64_t, const uint64_t* bits) {
    for (int64_t word = 0; word < long_words(width); ++word) {
      for_each_bit(bits[word], [&](int i) { add_to(counts[64 * word + i], params.sign); });
    }
  });
}

template <bool kTwoLevel, typename Column>
void deliver_block(const DeliverParams& params, int64_t block, Group<Column>& group) {
  const auto width = static_cast<uint32_t>(columns_of_block(*params.tables, params.n, block));
  int32_t* const counts = params.counts + block * params.tables->width;
  if constexpr (sizeof(Column) == 2) {
    if (pays_in_bytes(params)) {
      ByteCounts bytes(counts, width, params.sign);
      for_each_list<kTwoLevel>(params, block, width, group,
                               [&](int64_t, const Column* columns, int64_t length) { bytes.add(columns, length); });
      bytes.flush();
      return;
    }
  }
  for_each_list<kTwoLevel>(params, block, width, group, [&](int64_t, const Column* columns, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      if (columns[i] < width) {
        add_to(counts[columns[i]], params.sign);
      }
    }
  });
}

void deliver(const DeliverParams& params, int64_t first_block, int64_t last_block) {
  if (params.tables->empty != 0 || params.row_count == 0) {
    return;
  }
  if (params.tables->p >= kLeastInBits) {
    BitGroup group;
    for (int64_t block = first_block; block < last_block; ++block) {
      deliver_bits(params, block, group);
    }
    return;
  }
  with_columns(*params.tables, [&](auto two_level, auto column) {
    Group<decltype(column)> group;
    for (int64_t block = first_block; block < last_block; ++block) {
      deliver_block<two_level>(params, block, group);
    }
  });
}

// Which columns of a block are marked, a byte each; no mark for `width`.
template <typename Column>
struct Marks {
  const uint32_t* bits;
  uint32_t width;

  explicit Marks(const uint32_t* block_bits, uint32_t block_width) : bits(block_bits), width(block_width) {}
  uint32_t of(Column column) const {
    return column < width ? bits[column >> 5] >> (column & 31) & 1 : 0;
  }
  uint32_t of_any(const Column* columns) const {
    return of(columns[0]) | of(columns[1]) | of(columns[2]) | of(columns[3]);
  }
};
template <>
struct Marks<uint16_t> {
  uint8_t bytes[kNarrowWidth + 1];

  explicit Marks(const uint32_t* bits, uint32_t width) {
    __builtin_memset(bytes, 0, width + 1);
    for (int64_t word = 0; word < bit_words(width); ++word) {
      for (uint32_t left = bits[word]; left != 0; left &= left - 1) {
        bytes[32 * word + __builtin_ctz(left)] = 1;
      }
    }
  }
  uint32_t of(uint16_t column) const {
    return bytes[column];
  }
  uint32_t of_any(const uint16_t* columns) const {
    uint64_t four;
    __builtin_memcpy(&four, columns, sizeof(four));
    return bytes[four & 0xffff] | bytes[four >> 16 & 0xffff] | bytes[four >> 32 & 0xffff] | bytes[four >> 48];
  }
};

// The pairs of one block are written from `found` on; returns how many there are then.
int64_t match_bits(const MatchParams& params, int64_t block, BitGroup& group, int64_t found) {
  const int64_t start = block * params.tables->width;
  const auto width = static_cast<uint32_t>(columns_of_block(*params.tables, params.n, block));
  uint64_t marks[BitGroup::kMostWords] = {};
  __builtin_memcpy(marks, params.bits + start / 32, static_cast<size_t>(bit_words(width)) * sizeof(uint32_t));
  // Words with marks: new slots are few.
  int64_t marked[BitGroup::kMostWords];
  int64_t count = 0;
  for (int64_t word = 0; word < long_words(width); ++word) {
    marked[count] = word;
    count += marks[word] != 0 ? 1 : 0;
  }
  if (count == 0) {
    return found;
  }
  for_each_bits(params, block, width, group, [&](int64_t r, const uint64_t* bits) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t word = marked[i];
      for_each_bit(bits[word] & marks[word], [&](int bit) {
        if (found < params.capacity) {
          params.pairs[2 * found] = static_cast<int32_t>(r);
          params.pairs[2 * found + 1] = static_cast<int32_t>(start + 64 * word + bit);
        }
        ++found;
      });
    }
  });
  return found;
}

int64_t match(const MatchParams& params, int64_t first_block, int64_t last_block) {
  if (params.tables->empty != 0) {
    return 0;
  }
  int64_t found = 0;
  if (params.tables->p >= kLeastInBits) {
    BitGroup group;
    for (int64_t block = first_block; block < last_block; ++block) {
      found = match_bits(params, block, group, found);
    }
    return found;
  }
  with_columns(*params.tables, [&](auto two_level, auto column) {
    using Column = decltype(column);
    Group<Column> group;
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
      const Marks<Column> marks(bits, width);
      const auto check = [&](int64_t r, const Column* columns) {
        for (int i = 0; i < 4; ++i) {
          if (marks.of(columns[i]) != 0) {
            if (found < params.capacity) {
              params.pairs[2 * found] = static_cast<int32_t>(r);
              params.pairs[2 * found + 1] = static_cast<int32_t>(start + columns[i]);
            }
            ++found;
          }
        }
      };
      for_each_list<two_level>(params, block, width, group, [&](int64_t r, const Column* columns, int64_t length) {
        for (int64_t i = 0; i < length; i += 4) {
          if (marks.of_any(columns + i) != 0) {
            check(r, columns + i);
          }
        }
      });
    }
  });
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
