// Integer tables of geometric gaps and binomial column sums, by operations that round alike on every machine.
#include "kernels/assembly/connectome.h"

#include <cmath>

namespace torch_hrr::kernels {
namespace {

// Walker's tables of probabilities masses[v] 2^-32, v < 1024, which sum to 2^32.
void make_alias_table(const uint64_t (&masses)[kGapCells], uint32_t (&table)[kGapCells]) {
  constexpr uint64_t kCell = uint64_t{1} << (32 - kGapBits);
  uint64_t left[kGapCells];
  int32_t poor[kGapCells];
  int32_t rich[kGapCells];
  int32_t poor_count = 0;
  int32_t rich_count = 0;
  for (int32_t v = 0; v < kGapCells; ++v) {
    left[v] = masses[v];
    table[v] = static_cast<uint32_t>(v);  // threshold 0 and itself as alias: the whole cell
    (left[v] < kCell ? poor[poor_count++] : rich[rich_count++]) = v;
  }
  while (poor_count > 0 && rich_count > 0) {
    const int32_t cell = poor[--poor_count];
    const int32_t donor = rich[rich_count - 1];
    table[cell] = static_cast<uint32_t>(left[cell]) << kGapBits | static_cast<uint32_t>(donor);
    left[donor] -= kCell - left[cell];
    if (left[donor] < kCell) {
      poor[poor_count++] = donor;
      --rich_count;
    }
  }
}

uint64_t to_mass(double probability) {
  return static_cast<uint64_t>(std::floor(probability * 0x1p32 + 0.5));
}

// Outcome v < 1023 has (1 - stay) stay^v, outcome 1023 the rest; rounded so that every sum of them is within 2^-33.
void make_geometric_table(double stay, uint32_t (&table)[kGapCells]) {
  uint64_t masses[kGapCells];
  uint64_t before = 0;
  double beyond = 1;
  for (uint32_t v = 0; v < kGapNone; ++v) {
    beyond *= stay;
    const uint64_t sum = to_mass(1 - beyond);
    masses[v] = sum - before;
    before = sum;
  }
  masses[kGapNone] = (uint64_t{1} << 32) - before;
  make_alias_table(masses, table);
}

// Outcome v < 1024 has stay^v (1 - stay) / (1 - stay^1024).
void make_remainder_table(double stay, uint32_t (&table)[kGapCells]) {
  double whole = 1;
  for (int i = 0; i < kGapCells; ++i) {
    whole *= stay;
  }
  uint64_t masses[kGapCells];
  uint64_t before = 0;
  double beyond = 1;
  for (int v = 0; v < kGapCells; ++v) {
    beyond *= stay;
    const uint64_t sum = v + 1 == kGapCells ? uint64_t{1} << 32 : to_mass((1 - beyond) / (1 - whole));
    masses[v] = sum - before;
    before = sum;
  }
  make_alias_table(masses, table);
}

constexpr double kNegligible = 0x1p-80;

int64_t mode_of(int64_t size, double p) {
  const auto mode = static_cast<int64_t>(std::floor((static_cast<double>(size) + 1) * p));
  return mode > size ? size : mode;
}

// Successive ratios of Binomial(size, p) from its mode on, until a term is negligible or the end is reached.
struct BinomialWalk {
  double size;
  double odds;  // p / (1 - p)

  double up(double m) const {
    return (size - m) / (m + 1) * odds;
  }
  double down(double m) const {
    return m / ((size - m + 1) * odds);
  }
};

// The range of values whose terms are not negligible beside the mode's.
void binomial_range(int64_t size, double p, int64_t& first, int64_t& last) {
  first = last = mode_of(size, p);
  const BinomialWalk walk{static_cast<double>(size), p / (1 - p)};
  double term = 1;
  while (last < size && term > kNegligible) {
    term *= walk.up(static_cast<double>(last++));
  }
  term = 1;
  while (first > 0 && term > kNegligible) {
    term *= walk.down(static_cast<double>(first--));
  }
}

}  // namespace

void make_gap_tables(double p, GapTables& tables) {
  tables = GapTables{};
  tables.p = p;
  // Below this density no word would ever give an edge.
  tables.empty = p < 0x1p-43 ? 1 : 0;
  tables.two_level = p < kLeastOneLevel ? 1 : 0;
  tables.width = kLeastWidth;
  while (tables.width < kLargestWidth && static_cast<double>(tables.width) * p < kEdgesPerBlock) {
    tables.width *= 2;
  }
  const double stay = 1 - p;
  if (tables.two_level == 0) {
    make_geometric_table(stay, tables.quotient);
    return;
  }
  double whole = 1;
  for (int i = 0; i < kGapCells; ++i) {
    whole *= stay;
  }
  make_geometric_table(whole, tables.quotient);
  if (tables.empty == 0) {
    make_remainder_table(stay, tables.remainder);
  }
}

int64_t binomial_capacity(int64_t size, double p) {
  if (p <= 0 || p >= 1 || size == 0) {
    return 0;
  }
  int64_t first = 0;
  int64_t last = 0;
  binomial_range(size, p, first, last);
  return last - first;
}

void make_binomial_table(int64_t size, double p, uint64_t* thresholds, BinomialTable& table) {
  table = BinomialTable{};
  table.thresholds = thresholds;
  if (p <= 0 || p >= 1 || size == 0) {
    table.first = p >= 1 ? size : 0;
    return;
  }
  int64_t last = 0;
  binomial_range(size, p, table.first, last);
  table.count = last - table.first;
  const BinomialWalk walk{static_cast<double>(size), p / (1 - p)};
  const int64_t mode = mode_of(size, p);
  // Terms relative to the mode's, summed from the small end of each side: value m is P(S = first + m) before scaling.
  const auto term_at = [&](int64_t value) {
    double term = 1;
    for (int64_t v = mode; v < value; ++v) {
      term *= walk.up(static_cast<double>(v));
    }
    for (int64_t v = mode; v > value; --v) {
      term *= walk.down(static_cast<double>(v));
    }
    return term;
  };
  double low = term_at(table.first);
  double total = 0;
  double term = low;
  for (int64_t value = table.first; value <= last; ++value) {
    total += term;
    term *= value < size ? walk.up(static_cast<double>(value)) : 0;
  }
  double sum = 0;
  term = low;
  for (int64_t m = 0; m < table.count; ++m) {
    sum += term;
    term *= walk.up(static_cast<double>(table.first + m));
    const double share = sum / total * 0x1p64;
    thresholds[m] = share >= 0x1p64 ? ~uint64_t{0} : static_cast<uint64_t>(share);
  }
  int32_t m = 0;
  for (int b = 0; b < BinomialTable::kGuides; ++b) {
    const uint64_t least = static_cast<uint64_t>(b) << 56;
    while (m < table.count && thresholds[m] <= least) {
      ++m;
    }
    table.guide[b] = m;
  }
}

}  // namespace torch_hrr::kernels
