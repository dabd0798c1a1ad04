// The procedural connectome on the CPU: its vectors against the definition, its tables against the laws, golden rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

#include "kernels/assembly/connectome.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
namespace {

// Both sides of the density where a gap takes two words, and of the one below which there are no edges.
const double kDensities[] = {0,      0x1p-44, 0x1.fffffp-44, 0x1p-43, 1e-9,  1e-5, 1e-3, 0x1.fffffffffffffp-9,
                             0x1p-8, 0.01,    0.3,           0.5,     0.999, 1};

GapTables tables_of(double p) {
  GapTables tables;
  make_gap_tables(p, tables);
  return tables;
}

std::vector<int64_t> spread_rows(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  for (int64_t r = 0; r < count; ++r) {
    rows[static_cast<size_t>(r)] = static_cast<int64_t>(mix64(static_cast<uint64_t>(r)) >> 33);
  }
  return rows;
}

// use(r, column) for every edge from rows into columns below n, one at a time.
template <typename Use>
void for_each_edge_of(const GapTables& tables, uint64_t key, const std::vector<int64_t>& rows, int64_t n,
                      const Use& use) {
  if (tables.empty != 0) {
    return;
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    for (int64_t block = 0; block < block_count(tables, n); ++block) {
      const int64_t first = block * tables.width;
      const auto width = static_cast<int32_t>(std::min(tables.width, n - first));
      for_each_edge(tables, philox_key(key), static_cast<uint32_t>(rows[r]), static_cast<uint32_t>(block), width,
                    [&](int32_t column) { use(r, first + column); });
    }
  }
}

// Sizes that leave the last block whole, one column long, one short of whole, and an odd width.
std::vector<int64_t> sizes_for(const GapTables& tables) {
  return {1, 37, tables.width - 1, tables.width, tables.width + 1, 2 * tables.width + tables.width / 3};
}

class Connectome : public ::testing::TestWithParam<double> {};

TEST_P(Connectome, DeliversTheEdgesOfTheDefinition) {
  const GapTables tables = tables_of(GetParam());
  const uint64_t key = connectome_key(1, 2, 3);
  for (const int64_t n : sizes_for(tables)) {
    for (const int64_t row_count : {0, 1, 3, 4, 5, 16, 17, 40}) {
      const std::vector<int64_t> rows = spread_rows(row_count);
      std::vector<int32_t> expected(static_cast<size_t>(n), 7);
      for_each_edge_of(tables, key, rows, n,
                       [&](size_t, int64_t column) { expected[static_cast<size_t>(column)] += 3; });
      std::vector<int32_t> counts(static_cast<size_t>(n), 7);
      const int64_t blocks = block_count(tables, n);
      // Columns outside the range of blocks stay as they are.
      const DeliverParams params{&tables, key, rows.data(), row_count, n, counts.data(), 3};
      kernel_table<ConnectomeKernels>().deliver(params, blocks / 2, blocks);
      for (int64_t j = 0; j < (blocks / 2) * tables.width; ++j) {
        ASSERT_EQ(counts[static_cast<size_t>(j)], 7);
      }
      kernel_table<ConnectomeKernels>().deliver(params, 0, blocks / 2);
      ASSERT_EQ(counts, expected) << "n " << n << ", rows " << row_count;
      DeliverParams back = params;
      back.sign = -3;
      kernel_table<ConnectomeKernels>().deliver(back, 0, blocks);
      ASSERT_EQ(counts, std::vector<int32_t>(static_cast<size_t>(n), 7));
    }
  }
}

TEST_P(Connectome, MatchesTheEdgesIntoMarkedColumns) {
  const GapTables tables = tables_of(GetParam());
  const uint64_t key = connectome_key(4, 5, 6);
  using Pair = std::tuple<int32_t, int32_t>;
  for (const int64_t n : sizes_for(tables)) {
    for (const int one_in : {1, 3, 1000}) {
      const std::vector<int64_t> rows = spread_rows(21);
      std::vector<uint32_t> bits(static_cast<size_t>((n + 31) / 32), 0);
      for (int64_t j = 0; j < n; ++j) {
        if (mix64(static_cast<uint64_t>(j)) % static_cast<uint64_t>(one_in) == 0) {
          bits[static_cast<size_t>(j / 32)] |= 1u << (j % 32);
        }
      }
      std::vector<Pair> expected;
      for_each_edge_of(tables, key, rows, n, [&](size_t r, int64_t column) {
        if ((bits[static_cast<size_t>(column / 32)] >> (column % 32) & 1) != 0) {
          expected.emplace_back(static_cast<int32_t>(r), static_cast<int32_t>(column));
        }
      });
      std::sort(expected.begin(), expected.end());
      const auto whole = static_cast<int64_t>(expected.size());
      for (const int64_t capacity : {whole + 5, whole, whole / 2, int64_t{0}}) {
        std::vector<int32_t> pairs(static_cast<size_t>(2 * capacity + 2), -9);
        const MatchParams params{&tables, key, rows.data(), 21, n, bits.data(), pairs.data(), capacity};
        ASSERT_EQ(kernel_table<ConnectomeKernels>().match(params, 0, block_count(tables, n)), whole);
        const int64_t written = std::min(capacity, whole);
        std::vector<Pair> found;
        for (int64_t i = 0; i < written; ++i) {
          found.emplace_back(pairs[static_cast<size_t>(2 * i)], pairs[static_cast<size_t>(2 * i + 1)]);
        }
        std::sort(found.begin(), found.end());
        ASSERT_TRUE(std::includes(expected.begin(), expected.end(), found.begin(), found.end()));
        ASSERT_EQ(std::adjacent_find(found.begin(), found.end()), found.end());
        ASSERT_TRUE(std::all_of(pairs.begin() + 2 * written, pairs.end(), [](int32_t value) { return value == -9; }));
      }
    }
  }
}

// Lists of too little memory, which are drawn again and used in parts, and of enough, or bits; rows with a place and
// without.
TEST_P(Connectome, KeptRowsAreUsedAsTheyWouldBeDrawn) {
  const GapTables tables = tables_of(GetParam());
  const uint64_t key = connectome_key(7, 8, 9);
  constexpr int64_t kRows = 270;
  const std::vector<int64_t> rows = spread_rows(kRows);
  const int64_t n = tables.width + tables.width / 3;
  const int64_t blocks = block_count(tables, n);
  std::vector<uint32_t> bits(static_cast<size_t>(bit_words(n)), 0x00100401);
  bits.back() &= n % 32 == 0 ? ~0u : (1u << (n % 32)) - 1;
  std::vector<int32_t> expected(static_cast<size_t>(n), 0);
  int64_t marked = 0;
  for_each_edge_of(tables, key, rows, n, [&](size_t, int64_t column) {
    ++expected[static_cast<size_t>(column)];
    marked += bits[static_cast<size_t>(column / 32)] >> (column % 32) & 1;
  });
  const bool in_bits = tables.p >= kLeastInBits;
  const int64_t bits_of_block = tables.width / 16;
  for (const int64_t capacity : in_bits ? std::vector{bits_of_block} : std::vector{kListGrain, 64 * kListGrain}) {
    constexpr int64_t kPlaces = 300;
    std::vector<uint64_t> columns(static_cast<size_t>(blocks * kPlaces * capacity * bytes_of_column(tables) / 8));
    std::vector<int32_t> lengths(static_cast<size_t>(blocks * kPlaces), KeptEdges::kNotDrawn);
    const KeptEdges kept{columns.data(), lengths.data(), kPlaces, capacity};
    std::vector<int32_t> places(kRows);
    for (int32_t r = 0; r < kRows; ++r) {
      places[static_cast<size_t>(r)] = r % 5 == 0 ? -1 : kRows - r;
    }
    for (const bool drawn : {false, true}) {
      // The second time only some of the blocks' lists are there.
      std::vector<int32_t> counts(static_cast<size_t>(n), 0);
      const DeliverParams deliver{&tables, key, rows.data(), kRows, n, counts.data(), 1, &kept, places.data()};
      kernel_table<ConnectomeKernels>().deliver(deliver, 0, blocks);
      ASSERT_EQ(counts, expected) << "capacity " << capacity << (drawn ? ", again" : "");
      std::vector<int32_t> pairs(static_cast<size_t>(2 * marked));
      const MatchParams match{&tables,     key,          rows.data(), kRows, n,
                              bits.data(), pairs.data(), marked,      &kept, places.data()};
      ASSERT_EQ(kernel_table<ConnectomeKernels>().match(match, 0, blocks), marked);
      for (int64_t i = 0; i < marked; ++i) {
        const int32_t r = pairs[static_cast<size_t>(2 * i)];
        const int32_t column = pairs[static_cast<size_t>(2 * i + 1)];
        ASSERT_NE(bits[static_cast<size_t>(column / 32)] >> (column % 32) & 1, 0u);
        ASSERT_TRUE(r >= 0 && r < kRows);
      }
      // Every edge once.
      std::vector<uint64_t> seen;
      for (int64_t i = 0; i < 2 * marked; i += 2) {
        seen.push_back(static_cast<uint64_t>(pairs[static_cast<size_t>(i)]) << 32 |
                       static_cast<uint32_t>(pairs[static_cast<size_t>(i + 1)]));
      }
      std::sort(seen.begin(), seen.end());
      ASSERT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
      std::fill(lengths.begin(), lengths.begin() + 2 * kPlaces / 3, KeptEdges::kNotDrawn);
    }
    if (tables.empty == 0) {
      const bool fits =
          std::none_of(lengths.begin(), lengths.end(), [](int32_t l) { return l == KeptEdges::kTooLong; });
      EXPECT_EQ(fits, in_bits || capacity > kListGrain || GetParam() < 1e-4);
    }
  }
}

TEST_P(Connectome, EdgesAscendAndDoNotDependOnTheNumberOfColumns) {
  const GapTables tables = tables_of(GetParam());
  if (tables.empty != 0) {
    return;
  }
  for (const uint32_t row : {0u, 1u, 0x7fffffffu}) {
    const auto edges = [&](int32_t width) {
      std::vector<int32_t> columns;
      for_each_edge(tables, philox_key(9), row, 2, width, [&](int32_t column) { columns.push_back(column); });
      return columns;
    };
    const std::vector<int32_t> whole = edges(static_cast<int32_t>(tables.width));
    ASSERT_TRUE(std::is_sorted(whole.begin(), whole.end(), std::less_equal<>()));
    for (const int32_t width : {1, 100, static_cast<int32_t>(tables.width - 1)}) {
      const auto cut = std::lower_bound(whole.begin(), whole.end(), width);
      ASSERT_EQ(edges(width), std::vector<int32_t>(whole.begin(), cut));
    }
  }
}

// What a table's thresholds and aliases give to each outcome, in units of 2^-32.
std::vector<uint64_t> masses_of(const uint32_t (&table)[kGapCells]) {
  constexpr uint64_t kCell = uint64_t{1} << (32 - kGapBits);
  std::vector<uint64_t> masses(kGapCells, 0);
  for (uint32_t cell = 0; cell < kGapCells; ++cell) {
    const uint64_t threshold = table[cell] >> kGapBits;
    masses[cell] += threshold;
    masses[table[cell] & kGapNone] += kCell - threshold;
  }
  return masses;
}

TEST_P(Connectome, TablesHoldTheGeometricLaw) {
  const GapTables tables = tables_of(GetParam());
  const auto check = [](const std::vector<uint64_t>& masses, long double rounding, auto law) {
    EXPECT_EQ(std::accumulate(masses.begin(), masses.end(), uint64_t{0}), uint64_t{1} << 32);
    for (int v = 0; v < kGapCells; ++v) {
      // Both ends of the interval are rounded to 2^-32, and the power that tells them apart to 2^-53.
      const long double mass = static_cast<long double>(masses[static_cast<size_t>(v)]) * 0x1p-32L;
      EXPECT_NEAR(mass, law(v), 0x1.01p-32L + rounding) << v;
    }
  };
  const long double stay = 1 - static_cast<long double>(GetParam());
  const long double leap = tables.two_level != 0 ? std::pow(stay, 1024.0L) : stay;
  check(masses_of(tables.quotient), 0, [&](int v) {
    return v == static_cast<int>(kGapNone) ? std::pow(leap, 1023.0L) : (1 - leap) * std::pow(leap, v);
  });
  if (tables.two_level != 0 && tables.empty == 0) {
    check(masses_of(tables.remainder), 0x1p-53L / (1 - leap),
          [&](int v) { return (1 - stay) * std::pow(stay, v) / (1 - leap); });
  }
}

INSTANTIATE_TEST_SUITE_P(Densities, Connectome, ::testing::ValuesIn(kDensities));

TEST(Connectome, BlocksHoldEnoughEdgesAndArePowersOfTwo) {
  for (const double p : kDensities) {
    const GapTables tables = tables_of(p);
    EXPECT_EQ(tables.width & (tables.width - 1), 0);
    EXPECT_GE(tables.width, kLeastWidth);
    EXPECT_LE(tables.width, kLargestWidth);
    EXPECT_TRUE(tables.width == kLargestWidth || static_cast<double>(tables.width) * p >= kEdgesPerBlock);
    EXPECT_EQ(tables.two_level != 0, p < 0x1p-8);
    EXPECT_EQ(tables.empty != 0, p < 0x1p-43);
  }
}

// Enough streams that the rarest density of the list above has edges at all.
TEST(Connectome, DeliversTheRareEdgesOfTheDefinition) {
  const GapTables tables = tables_of(1e-9);
  const int64_t n = 20 * tables.width + 11;
  const std::vector<int64_t> rows = spread_rows(2000);
  std::vector<int32_t> expected(static_cast<size_t>(n), 0);
  int edges = 0;
  for_each_edge_of(tables, 17, rows, n, [&](size_t, int64_t column) {
    ++expected[static_cast<size_t>(column)];
    ++edges;
  });
  EXPECT_GE(edges, 1);
  EXPECT_LE(edges, 20);  // 5.2 on average
  std::vector<int32_t> counts(static_cast<size_t>(n), 0);
  const DeliverParams params{&tables, 17, rows.data(), 2000, n, counts.data(), 1};
  kernel_table<ConnectomeKernels>().deliver(params, 0, block_count(tables, n));
  EXPECT_EQ(counts, expected);
}

TEST(Connectome, KeysDifferInEveryArgument) {
  std::vector<uint64_t> keys;
  for (const uint64_t a : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
    keys.insert(keys.end(), {connectome_key(a, 5, 7), connectome_key(5, a, 7), connectome_key(5, 7, a)});
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(connectome_key(0, 0, 0), 0x238275bc38fcbe91u);
}

// FNV-1a of the columns, row by row.
uint64_t hash_of_rows(double p, uint64_t key, int64_t rows, int64_t n) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int64_t row = 0; row < rows; ++row) {
    for_each_edge_of(tables_of(p), key, {row}, n, [&](size_t, int64_t column) {
      hash = (hash ^ static_cast<uint64_t>(row * n + column)) * 0x100000001b3u;
    });
  }
  return hash;
}

// Frozen: a saved brain has no edges in its file, it draws them anew.
TEST(Connectome, HasTheGoldenRows) {
  const auto row = [](double p, int64_t i, int64_t n) {
    std::vector<int64_t> columns;
    for_each_edge_of(tables_of(p), connectome_key(0, 0, 0), {i}, n, [&](size_t, int64_t j) { columns.push_back(j); });
    return columns;
  };
  EXPECT_EQ(row(0.5, 0, 40),
            (std::vector<int64_t>{3, 8, 9, 13, 14, 15, 17, 18, 19, 21, 22, 24, 26, 28, 29, 31, 32, 36, 37}));
  EXPECT_EQ(row(0.01, 1, 1000), (std::vector<int64_t>{141, 155, 315, 330, 632, 655, 715, 943, 980}));
  EXPECT_EQ(row(0.001, 2, 10000), (std::vector<int64_t>{242, 851, 1352, 4895, 7975}));
  EXPECT_EQ(row(1e-5, 3, 500000), (std::vector<int64_t>{104538, 178042, 186207, 241560, 249117, 279195, 314502}));
  EXPECT_EQ(row(1, 4, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(hash_of_rows(0.5, connectome_key(1, 0, 0), 20, 1000), 0x8bd1b4769c50f540u);
  EXPECT_EQ(hash_of_rows(0.01, connectome_key(~uint64_t{0}, 3, 5), 20, 100000), 0x6a5d465a2fe1f208u);
  EXPECT_EQ(hash_of_rows(0.001, connectome_key(uint64_t{1} << 32, 0, 1), 20, 500000), 0x18939bd2c64af0b7u);
  EXPECT_EQ(hash_of_rows(1e-5, connectome_key(7, 1, ~uint64_t{0}), 20, 1000000), 0x8b8609599a0e7e72u);
}

struct MadeBinomial {
  std::vector<uint64_t> thresholds;
  BinomialTable table;

  MadeBinomial(int64_t size, double p) : thresholds(static_cast<size_t>(binomial_capacity(size, p)) + 1, 0xabcd) {
    make_binomial_table(size, p, thresholds.data(), table);
    EXPECT_EQ(thresholds.back(), 0xabcdu) << "wrote beyond the capacity";
    EXPECT_LE(table.count, binomial_capacity(size, p));
  }
};

// P(S <= s) for s from first to last, of successive terms from the mode in long double.
std::vector<long double> exact_sums(int64_t size, double p, int64_t first, int64_t last) {
  const long double odds = static_cast<long double>(p) / (1 - static_cast<long double>(p));
  const auto mode = std::clamp(static_cast<int64_t>((static_cast<long double>(size) + 1) * p), first, last);
  std::vector<long double> terms(static_cast<size_t>(last - first + 1));
  terms[static_cast<size_t>(mode - first)] = 1;
  for (int64_t s = mode + 1; s <= last; ++s) {
    terms[static_cast<size_t>(s - first)] = terms[static_cast<size_t>(s - first - 1)] *
                                            static_cast<long double>(size - s + 1) / static_cast<long double>(s) * odds;
  }
  for (int64_t s = mode - 1; s >= first; --s) {
    terms[static_cast<size_t>(s - first)] = terms[static_cast<size_t>(s - first + 1)] *
                                            static_cast<long double>(s + 1) / static_cast<long double>(size - s) / odds;
  }
  const long double total = std::accumulate(terms.begin(), terms.end(), 0.0L);
  std::vector<long double> sums(terms.size());
  std::partial_sum(terms.begin(), terms.end(), sums.begin());
  for (long double& sum : sums) {
    sum /= total;
  }
  return sums;
}

// Every step from the mode rounds a few times, and the sums add as many terms.
TEST(Stimulus, TablesHoldTheBinomialLaw) {
  for (const int64_t size : {1, 2, 10, 317, 1000, 100000, 1000000, 1000000000}) {
    for (const double p : {1e-6, 0.001, 0.01, 0.3, 0.5, 0.9, 0.999}) {
      const MadeBinomial made(size, p);
      const BinomialTable& table = made.table;
      const std::vector<long double> sums = exact_sums(size, p, table.first, table.first + table.count);
      ASSERT_TRUE(std::is_sorted(made.thresholds.begin(), made.thresholds.begin() + table.count));
      long double worst = 0;
      for (int64_t m = 0; m < table.count; ++m) {
        const long double threshold = static_cast<long double>(made.thresholds[static_cast<size_t>(m)]) * 0x1p-64L;
        worst = std::max(worst, std::fabs(threshold - sums[static_cast<size_t>(m)]));
      }
      EXPECT_LT(worst, 0x1p-53L * static_cast<long double>(4 + table.count)) << size << " " << p;
    }
  }
}

// Small ones against the formula itself: n! / (m! (n - m)!) p^m (1 - p)^(n - m).
TEST(Stimulus, SmallTablesAreTheFormula) {
  for (const int64_t size : {1, 2, 5, 12}) {
    for (const double p : {0.001, 0.25, 0.5, 0.97}) {
      const MadeBinomial made(size, p);
      long double sum = 0;
      for (int64_t s = 0; s < size; ++s) {
        long double term = 1;
        for (int64_t i = 0; i < s; ++i) {
          term *= static_cast<long double>(size - i) / static_cast<long double>(i + 1);
        }
        sum += term * std::pow(static_cast<long double>(p), s) * std::pow(1 - static_cast<long double>(p), size - s);
        const int64_t m = s - made.table.first;
        const long double threshold = m < 0 ? 0
                                      : m < made.table.count
                                          ? static_cast<long double>(made.thresholds[static_cast<size_t>(m)]) * 0x1p-64L
                                          : 1;
        EXPECT_NEAR(threshold, sum, 0x1p-50L) << size << " " << p << " " << s;
      }
    }
  }
}

TEST(Stimulus, CountsAreTheInverseOfTheTable) {
  for (const double p : {0.001, 0.01, 0.5, 0.999}) {
    const MadeBinomial made(1000, p);
    const PhiloxKey key = philox_key(11);
    std::vector<int32_t> counts(3000, -1);
    kernel_table<ConnectomeKernels>().stimulus_counts(made.table, 11, 100, 2900, counts.data());
    for (int64_t j = 0; j < 3000; ++j) {
      const PhiloxBlock words = philox4x32({{static_cast<uint32_t>(j), 0, 0, kStimulusStream}}, key);
      const uint64_t u = join_words(words.word[0], words.word[1]);
      const auto above = std::upper_bound(made.thresholds.begin(), made.thresholds.begin() + made.table.count, u);
      const int64_t expected = made.table.first + (above - made.thresholds.begin());
      ASSERT_EQ(counts[static_cast<size_t>(j)], j < 100 || j >= 2900 ? -1 : expected);
    }
  }
}

TEST(Stimulus, CountsFollowTheBinomialLaw) {
  const int64_t size = 317;
  const double p = 0.01;
  const MadeBinomial made(size, p);
  const std::vector<long double> sums = exact_sums(size, p, 0, size);
  constexpr int kColumns = 200000;
  std::vector<int32_t> counts(kColumns);
  kernel_table<ConnectomeKernels>().stimulus_counts(made.table, connectome_key(3, 0, 1), 0, kColumns, counts.data());
  // Classes 0 to 9 and the rest: 10 degrees of freedom, whose chi-square is above 35.6 once in 10^4.
  double chi_square = 0;
  for (int s = 0; s <= 10; ++s) {
    const auto is_in = [s](int32_t count) { return s < 10 ? count == s : count >= 10; };
    const auto seen = static_cast<double>(std::count_if(counts.begin(), counts.end(), is_in));
    const auto upto = [&](int last) { return last < 0 ? 0 : static_cast<double>(sums[static_cast<size_t>(last)]); };
    const double expected = kColumns * ((s < 10 ? upto(s) : 1) - upto(s - 1));
    chi_square += (seen - expected) * (seen - expected) / expected;
  }
  EXPECT_LT(chi_square, 35.6);
  EXPECT_GT(chi_square, 1.0);
}

TEST(Stimulus, EdgesOfTheRange) {
  const auto constant = [](int64_t size, double p) {
    const MadeBinomial made(size, p);
    EXPECT_EQ(made.table.count, 0);
    EXPECT_EQ(binomial_capacity(size, p), 0);
    std::vector<int32_t> counts(100, -1);
    kernel_table<ConnectomeKernels>().stimulus_counts(made.table, 1, 0, 100, counts.data());
    EXPECT_EQ(counts, std::vector<int32_t>(100, counts[0]));
    return counts[0];
  };
  EXPECT_EQ(constant(0, 0.5), 0);
  EXPECT_EQ(constant(0, 1), 0);
  EXPECT_EQ(constant(50, 0), 0);
  EXPECT_EQ(constant(50, 1), 50);
  EXPECT_EQ(constant(2147483647, 1), 2147483647);
}

}  // namespace
}  // namespace torch_hrr::kernels
