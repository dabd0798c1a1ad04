// One round's passes over counts and edges, against plain loops.
#include "kernels/assembly/projection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/assembly/projection.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
namespace {

struct Candidates {
  std::vector<int32_t> indices;
  std::vector<uint32_t> sums;
};

Candidates sum_winners(const std::vector<std::vector<int32_t>>& counts, int64_t k, uint32_t least) {
  std::vector<const int32_t*> sources;
  for (const auto& row : counts) {
    sources.push_back(row.data());
  }
  Candidates found{std::vector<int32_t>(static_cast<size_t>(k)), std::vector<uint32_t>(static_cast<size_t>(k))};
  SumWinnersParams params;
  params.sources = sources.data();
  params.source_count = static_cast<int64_t>(sources.size());
  params.n = static_cast<int64_t>(counts[0].size());
  params.k = k;
  params.least = least;
  params.indices = found.indices.data();
  params.sums = found.sums.data();
  std::vector<char> memory(static_cast<size_t>(kernel_table<ProjectionKernels>().sum_winners_scratch(k)) + 64);
  void* scratch = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  const auto number = static_cast<size_t>(kernel_table<ProjectionKernels>().sum_winners(params, scratch));
  found.indices.resize(number);
  found.sums.resize(number);
  return found;
}

Candidates expected(const std::vector<std::vector<int32_t>>& counts, int64_t k, uint32_t least) {
  const size_t n = counts[0].size();
  std::vector<uint32_t> sums(n, 0);
  for (const auto& row : counts) {
    for (size_t j = 0; j < n; ++j) {
      sums[j] += static_cast<uint32_t>(row[j]);
    }
  }
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return sums[static_cast<size_t>(a)] > sums[static_cast<size_t>(b)]; });
  Candidates found;
  for (const int32_t j : order) {
    if (static_cast<int64_t>(found.indices.size()) < k && sums[static_cast<size_t>(j)] >= least) {
      found.indices.push_back(j);
    }
  }
  std::sort(found.indices.begin(), found.indices.end());
  for (const int32_t j : found.indices) {
    found.sums.push_back(sums[static_cast<size_t>(j)]);
  }
  return found;
}

TEST(Projection, CandidatesAreTheLargestSums) {
  std::mt19937 generator(3);
  for (const int64_t n : {1, 15, 17, 1000, 5003, 70001}) {
    for (const size_t sources : {1u, 2u, 5u}) {
      std::poisson_distribution<int32_t> count(4);
      std::vector<std::vector<int32_t>> counts(sources, std::vector<int32_t>(static_cast<size_t>(n)));
      for (auto& row : counts) {
        std::generate(row.begin(), row.end(), [&] { return count(generator); });
      }
      for (const int64_t k : {int64_t{1}, std::min<int64_t>(n, 40), n}) {
        for (const uint32_t least : {0u, 1u, 8u, 20u, 100u}) {
          const Candidates found = sum_winners(counts, k, least);
          const Candidates exact = expected(counts, k, least);
          ASSERT_EQ(found.indices, exact.indices) << n << " " << sources << " " << k << " " << least;
          ASSERT_EQ(found.sums, exact.sums);
        }
      }
    }
  }
}

// Rows of 0, 1, 16, 17 and 40 edges: empty, one chunk, full chunks, and lists of them.
struct Table {
  std::vector<int32_t> head, length, next, target;
  std::vector<float> weight;
  std::vector<std::vector<std::pair<int32_t, float>>> rows;

  explicit Table(int32_t targets) {
    std::mt19937 generator(5);
    std::uniform_int_distribution<int32_t> any(0, targets - 1);
    std::uniform_real_distribution<float> size(1, 3);
    for (const int32_t edges : {0, 1, 16, 17, 40}) {
      head.push_back(-1);
      length.push_back(edges);
      rows.emplace_back();
      for (int32_t e = 0; e < edges; ++e) {
        if (e % kEdgesPerChunk == 0) {
          next.push_back(head.back());
          head.back() = static_cast<int32_t>(next.size()) - 1;
          target.resize(next.size() * kEdgesPerChunk, -1);
          weight.resize(target.size(), -1);
        }
        const auto place = static_cast<size_t>(head.back() * kEdgesPerChunk + e % kEdgesPerChunk);
        target[place] = any(generator);
        weight[place] = size(generator);
        rows.back().emplace_back(target[place], weight[place]);
      }
    }
  }
  EdgeTable edges() {
    return {head.data(), length.data(), next.data(), target.data(), weight.data()};
  }
};

TEST(Projection, ExcessIsTheSumOfWeightsInFixedPoint) {
  constexpr int32_t kTargets = 7;
  Table table(kTargets);
  const std::vector<int32_t> firing = {0, 4, 2, 3};
  for (const int64_t base : {int64_t{0}, kFixedOne}) {
    std::vector<int64_t> excess(kTargets, 5);
    std::vector<int64_t> exact(kTargets, 5);
    kernel_table<ProjectionKernels>().add_excess(table.edges(), firing.data(), 4, base, excess.data());
    for (const int32_t row : firing) {
      for (const auto& [target, weight] : table.rows[static_cast<size_t>(row)]) {
        exact[static_cast<size_t>(target)] += static_cast<int64_t>(static_cast<double>(weight) * 0x1p24) - base;
      }
    }
    EXPECT_EQ(excess, exact);
  }
}

TEST(Projection, EdgesNameWhatThereIs) {
  constexpr int32_t kTargets = 7;
  const std::vector<int32_t> firing = {0, 1, 4, 2, 3};
  const auto are_edges = [&](const auto& spoil) {
    Table table(kTargets);
    const auto chunks = static_cast<int64_t>(table.next.size());
    spoil(table, static_cast<size_t>(table.head[4]));
    return kernel_table<ProjectionKernels>().are_edges(table.edges(), firing.data(), 5, chunks, kTargets);
  };
  EXPECT_TRUE(are_edges([](Table&, size_t) {}));
  // Rows of 40 edges fill 8 places of their newest chunk.
  EXPECT_TRUE(are_edges([](Table& table, size_t newest) { table.target[newest * kEdgesPerChunk + 8] = kTargets; }));
  for (const int32_t target : {kTargets, -1, INT32_MAX}) {
    EXPECT_FALSE(are_edges([=](Table& table, size_t newest) { table.target[newest * kEdgesPerChunk + 7] = target; }));
    EXPECT_FALSE(are_edges([=](Table& table, size_t newest) {
      table.target[static_cast<size_t>(table.next[newest]) * kEdgesPerChunk + kEdgesPerChunk - 1] = target;
    }));
  }
  for (const float weight : {-1.0f, 0x1p25f, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(are_edges([=](Table& table, size_t newest) { table.weight[newest * kEdgesPerChunk] = weight; }));
  }
  EXPECT_FALSE(are_edges([](Table& table, size_t newest) { table.next[newest] = static_cast<int32_t>(newest); }));
  EXPECT_FALSE(are_edges([](Table& table, size_t newest) { table.next[newest] = INT32_MAX; }));
  EXPECT_FALSE(are_edges([](Table& table, size_t newest) { table.next[newest] = -1; }));
  EXPECT_FALSE(are_edges([](Table& table, size_t) { table.head[4] = INT32_MAX; }));
  for (const int32_t length : {-1, 0, 17, INT32_MAX}) {
    EXPECT_FALSE(are_edges([=](Table& table, size_t) { table.length[1] = length; }));
  }
  EXPECT_FALSE(are_edges([](Table& table, size_t) {
    table.head[4] = -1;
    table.length[4] = -1;
  }));
}

TEST(Projection, SumsOfColumnsGrowByWhatTheirEdgesGrow) {
  constexpr int32_t kTargets = 7;
  Table plain(kTargets);
  Table summed(kTargets);
  const std::vector<uint8_t> wins = {1, 0, 1, 1, 0, 0, 1};
  const std::vector<int32_t> firing = {3, 1, 4};
  const std::vector<int32_t> neuron_of = {6, 0, 5, 1, 4, 2, 3};
  std::vector<int64_t> sums(kTargets, 100);
  std::vector<int64_t> exact(kTargets, 100);
  const std::vector<float> before = summed.weight;
  const auto& kernels = kernel_table<ProjectionKernels>();
  kernels.potentiate(plain.edges(), firing.data(), 3, wins.data(), 1.5f, 4.0f, {});
  kernels.potentiate(summed.edges(), firing.data(), 3, wins.data(), 1.5f, 4.0f, {sums.data(), neuron_of.data()});
  EXPECT_EQ(plain.weight, summed.weight);
  for (size_t e = 0; e < before.size(); ++e) {
    const double more = static_cast<double>(summed.weight[e]) - static_cast<double>(before[e]);
    if (more != 0) {
      exact[static_cast<size_t>(neuron_of[static_cast<size_t>(summed.target[e])])] +=
          static_cast<int64_t>(more * 0x1p24);
    }
  }
  EXPECT_EQ(sums, exact);
  EXPECT_NE(sums, std::vector<int64_t>(kTargets, 100));
}

TEST(Projection, CandidatesReachTheBound) {
  std::mt19937 random(5);
  std::uniform_int_distribution<int32_t> counts(0, 9);
  std::uniform_real_distribution<double> scales(0, 1);
  for (const int64_t n : {1, 127, 128, 129, 3000}) {
    std::vector<int32_t> first(static_cast<size_t>(n));
    std::vector<int32_t> second(static_cast<size_t>(n));
    std::vector<double> scale(static_cast<size_t>(n));
    for (size_t j = 0; j < static_cast<size_t>(n); ++j) {
      first[j] = counts(random);
      second[j] = counts(random);
      scale[j] = scales(random);
    }
    const std::vector<const int32_t*> sources = {first.data(), second.data()};
    std::vector<int32_t> indices(static_cast<size_t>(n));
    for (const bool scaled : {true, false}) {
      const std::vector<const double*> factors = {scaled ? scale.data() : nullptr, nullptr};
      for (const double least : {-1.0, 9.0, 17.5, 100.0, 1e300}) {
        std::vector<int32_t> exact;
        for (size_t j = 0; j < static_cast<size_t>(n); ++j) {
          if (first[j] * (scaled ? scale[j] : 1) + second[j] >= least) {
            exact.push_back(static_cast<int32_t>(j));
          }
        }
        const int64_t found =
            kernel_table<ProjectionKernels>().candidates({sources.data(), factors.data(), 2, n, least, indices.data()});
        EXPECT_EQ(std::vector<int32_t>(indices.begin(), indices.begin() + found), exact) << n << " " << least;
      }
    }
  }
}

TEST(Projection, EdgesIntoWinnersGrowUpToTheLargestWeight) {
  constexpr int32_t kTargets = 7;
  Table table(kTargets);
  const std::vector<uint8_t> wins = {1, 0, 1, 1, 0, 0, 1};
  const std::vector<int32_t> firing = {3, 1, 4};
  const std::vector<float> before = table.weight;
  kernel_table<ProjectionKernels>().potentiate(table.edges(), firing.data(), 3, wins.data(), 1.5f, 4.0f, {});
  for (int32_t row = 0; row < 5; ++row) {
    const bool fires = row == 1 || row == 3 || row == 4;
    for (int32_t chunk = table.head[static_cast<size_t>(row)], left = table.length[static_cast<size_t>(row)];
         chunk >= 0; chunk = table.next[static_cast<size_t>(chunk)]) {
      const int32_t filled = (left - 1) % kEdgesPerChunk + 1;
      for (int32_t e = 0; e < kEdgesPerChunk; ++e) {
        const auto edge = static_cast<size_t>(chunk * kEdgesPerChunk + e);
        const bool grows = fires && e < filled && wins[static_cast<size_t>(table.target[edge])] != 0;
        EXPECT_EQ(table.weight[edge], grows ? std::min(before[edge] * 1.5f, 4.0f) : before[edge]);
      }
      left -= filled;
    }
  }
}

TEST(Projection, FixedPointIsExactFromAHalfOn) {
  for (const float weight : {0.5f, 1.0f, 1.05f, 2.0f / 3, 1234.5677f, kLargestWeight}) {
    EXPECT_EQ(static_cast<double>(fixed_point(weight)) / 0x1p24, static_cast<double>(weight));
  }
  EXPECT_EQ(fixed_point(0), 0);
}

}  // namespace
}  // namespace torch_hrr::kernels
