// The connectome's kernels are bitwise the definition, one edge at a time, and the CPU's entries.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "kernels/assembly/connectome.cuh"
#include "kernels/registry.h"

namespace torch_hrr::cuda_on_host {
namespace {

using namespace torch_hrr::kernels;

// What the launchers of connectome.cu pass to the device, on a grid of their choice or of so many blocks.
auto on_host(const Schedule& schedule, unsigned blocks = 0) {
  return [schedule, blocks](const char* name, auto kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                            const auto& params) {
    host_launch(name, kernel, blocks != 0 ? dim3(blocks) : grid, block, shared_bytes, schedule, params);
  };
}

struct Problem {
  double p;
  int64_t n;
  int64_t row_count;
  int64_t batches;
};

// Densities of one and two words a gap, certain and impossible edges; columns that end inside a block and fill one.
std::vector<Problem> problems() {
  return {{0, 100, 3, 1},         {1e-5, 200'003, 5, 1}, {0.001, 131'072, 2, 2}, {0.001, 133'001, 3, 1},
          {0x1p-8, 65'537, 2, 1}, {0.01, 40'007, 3, 2},  {0.5, 1, 5, 3},         {0.5, 511, 9, 1},
          {0.5, 1031, 3, 3},      {1, 256, 3, 1},        {1, 700, 2, 2},         {0.3, 1000, 0, 2},
          {0.3, 0, 4, 2},         {0.3, 1000, 4, 0}};
}

struct Data {
  GapTables tables;
  std::vector<int64_t> rows;
  std::vector<int32_t> signs;
  std::vector<uint64_t> keys;

  explicit Data(const Problem& problem) {
    make_gap_tables(problem.p, tables);
    for (int64_t i = 0; i < problem.batches * problem.row_count; ++i) {
      rows.push_back(static_cast<int64_t>(mix64(static_cast<uint64_t>(i)) >> 33));
      signs.push_back(static_cast<int32_t>(i % 5) - 2);
    }
    if (rows.size() > 2) {
      rows[1] = INT32_MAX;
    }
    for (int64_t b = 0; b < problem.batches; ++b) {
      keys.push_back(connectome_key(5, static_cast<uint64_t>(b), 6));
    }
  }
};

// use(batch, index of the row, column)
template <typename Use>
void for_each_edge_of(const Problem& problem, const Data& data, const Use& use) {
  for (int64_t entry = 0; data.tables.empty == 0 && entry < problem.batches * problem.row_count; ++entry) {
    const auto row = data.rows[static_cast<std::size_t>(entry)];
    if (row < 0 || row > INT32_MAX) {
      continue;
    }
    const int64_t batch = entry / problem.row_count;
    for (int64_t block = 0; block < block_count(data.tables, problem.n); ++block) {
      const int64_t first = block * data.tables.width;
      const auto width = static_cast<int32_t>(std::min(data.tables.width, problem.n - first));
      for_each_edge(data.tables, philox_key(data.keys[static_cast<std::size_t>(batch)]), static_cast<uint32_t>(row),
                    static_cast<uint32_t>(block), width,
                    [&](int32_t column) { use(batch, entry - batch * problem.row_count, first + column); });
    }
  }
}

DeliverLaunch deliver_of(const Problem& problem, const Data& data, std::vector<int32_t>& counts) {
  DeliverLaunch params;
  params.gaps = DeviceGapTables(data.tables, &data.tables);
  params.keys = data.keys.data();
  params.rows = data.rows.data();
  params.batches = problem.batches;
  params.row_count = problem.row_count;
  params.n = problem.n;
  params.counts = counts.data();
  return params;
}

TEST(ConnectomeKernels, DeliverIsTheDefinitionAndTheCpu) {
  for (const Problem& problem : problems()) {
    const Data data(problem);
    const auto size = static_cast<std::size_t>(problem.batches * problem.n);
    std::vector<int32_t> plain(size, 4);
    std::vector<int32_t> with_signs(size, 4);
    for_each_edge_of(problem, data, [&](int64_t batch, int64_t r, int64_t column) {
      plain[static_cast<std::size_t>(batch * problem.n + column)] -= 3;
      with_signs[static_cast<std::size_t>(batch * problem.n + column)] +=
          data.signs[static_cast<std::size_t>(batch * problem.row_count + r)];
    });
    std::vector<int32_t> cpu(size, 4);
    for (int64_t b = 0; b < problem.batches; ++b) {
      const DeliverParams params{&data.tables,
                                 data.keys[static_cast<std::size_t>(b)],
                                 data.rows.data() + b * problem.row_count,
                                 problem.row_count,
                                 problem.n,
                                 cpu.data() + b * problem.n,
                                 -3};
      kernel_table<ConnectomeKernels>().deliver(params, 0, block_count(data.tables, problem.n));
    }
    ASSERT_EQ(cpu, plain);
    for (const Schedule& schedule : all_schedules(1)) {
      SCOPED_TRACE(schedule);
      for (const unsigned blocks : {0u, 1u, 3u}) {
        std::vector<int32_t> counts(size, 4);
        DeliverLaunch params = deliver_of(problem, data, counts);
        params.sign = -3;
        launch_deliver_with(params, on_host(schedule, blocks));
        ASSERT_EQ(counts, plain) << problem.p << " " << problem.n;
      }
      std::vector<int32_t> counts(size, 4);
      DeliverLaunch params = deliver_of(problem, data, counts);
      params.signs = data.signs.data();
      launch_deliver_with(params, on_host(schedule));
      ASSERT_EQ(counts, with_signs) << problem.p << " " << problem.n;
    }
  }
}

TEST(ConnectomeKernels, OneKeyServesAllBatches) {
  const Problem problem{0.5, 600, 3, 2};
  Data data(problem);
  data.keys = {77, 77};
  std::vector<int32_t> expected(1200);
  std::vector<int32_t> counts(1200);
  launch_deliver_with(deliver_of(problem, data, expected), on_host({}));
  DeliverLaunch params = deliver_of(problem, data, counts);
  params.keys = nullptr;
  params.key = 77;
  launch_deliver_with(params, on_host({}));
  EXPECT_EQ(counts, expected);
}

TEST(ConnectomeKernels, NeuronsOutsideTheRangeAreSkipped) {
  const Problem problem{0.5, 600, 6, 1};
  Data data(problem);
  data.rows = {-1, 7, int64_t{1} << 31, INT64_MIN, 8, INT64_MAX};
  std::vector<int32_t> expected(600);
  for_each_edge_of(problem, data,
                   [&](int64_t, int64_t, int64_t column) { ++expected[static_cast<std::size_t>(column)]; });
  std::vector<int32_t> counts(600);
  launch_deliver_with(deliver_of(problem, data, counts), on_host({}));
  EXPECT_EQ(counts, expected);
}

TEST(ConnectomeKernels, OnlyTheRowsThatThereAreAreDelivered) {
  const Problem problem{0.01, 40'007, 5, 3};
  const Data data(problem);
  const std::vector<int32_t> row_counts = {2, 0, 5};
  std::vector<int32_t> expected(static_cast<std::size_t>(problem.batches * problem.n));
  for_each_edge_of(problem, data, [&](int64_t batch, int64_t r, int64_t column) {
    expected[static_cast<std::size_t>(batch * problem.n + column)] +=
        r < row_counts[static_cast<std::size_t>(batch)] ? 1 : 0;
  });
  for (const unsigned blocks : {0u, 1u}) {
    std::vector<int32_t> counts(expected.size());
    DeliverLaunch params = deliver_of(problem, data, counts);
    params.row_counts = row_counts.data();
    launch_deliver_with(params, on_host({}, blocks));
    EXPECT_EQ(counts, expected);
  }
}

// Work beyond the grid is strided over: no more blocks copy tables than a GPU holds at once, and batches come first.
TEST(ConnectomeKernels, NoMoreBlocksThanAreResidentCopyTables) {
  struct Case {
    int64_t items, batches;
    unsigned x, y;
  };
  for (const Case& c : {Case{0, 1, 1, 1}, Case{1, 1, 1, 1}, Case{17, 1, 3, 1}, Case{1 << 20, 1, 1024, 1},
                        Case{1 << 20, 100, 10, 100}, Case{9, 100, 2, 100}, Case{1 << 20, 100'000, 1, 1024}}) {
    const dim3 grid = table_grid(c.items, c.batches);
    EXPECT_EQ(grid.x, c.x) << c.items << " " << c.batches;
    EXPECT_EQ(grid.y, c.y) << c.items << " " << c.batches;
    EXPECT_EQ(grid.z, 1u);
  }
}

// More work than the grid has warps, in both directions.
TEST(ConnectomeKernels, AFullGridStridesOverItsWork) {
  const Problem problem{0.5, 3, kTableBlocks * kConnectomeThreads / kWarpSize + 5, 1};
  const Problem batches{0.5, 7, 1, kTableBlocks + 3};
  for (const Problem& each : {problem, batches}) {
    const Data data(each);
    std::vector<int32_t> expected(static_cast<std::size_t>(each.batches * each.n));
    for_each_edge_of(each, data, [&](int64_t batch, int64_t, int64_t column) {
      ++expected[static_cast<std::size_t>(batch * each.n + column)];
    });
    std::vector<int32_t> counts(expected.size());
    launch_deliver_with(deliver_of(each, data, counts), on_host({}));
    EXPECT_EQ(counts, expected);
  }
}

TEST(ConnectomeKernels, StimulusCountsAreTheCpus) {
  for (const auto& [size, p] : {std::tuple<int64_t, double>{317, 0.01}, {1000, 0.5}, {5, 1}, {0, 0.3}}) {
    std::vector<uint64_t> thresholds(static_cast<std::size_t>(binomial_capacity(size, p)) + 1);
    StimulusLaunch params;
    make_binomial_table(size, p, thresholds.data(), params.table);
    const std::vector<uint64_t> keys = {3, ~uint64_t{0}};
    for (const int64_t n : {0, 1, 255, 300, 700}) {
      std::vector<int32_t> cpu(static_cast<std::size_t>(2 * n));
      for (int64_t b = 0; b < 2; ++b) {
        kernel_table<ConnectomeKernels>().stimulus_counts(params.table, keys[static_cast<std::size_t>(b)], 0, n,
                                                          cpu.data() + b * n);
      }
      params.keys = keys.data();
      params.batches = 2;
      params.n = n;
      for (const Schedule& schedule : all_schedules(1)) {
        SCOPED_TRACE(schedule);
        for (const unsigned blocks : {0u, 1u}) {
          std::vector<int32_t> counts = poisoned<int32_t>(cpu.size());
          params.counts = counts.data();
          launch_stimulus_counts_with(params, on_host(schedule, blocks));
          EXPECT_EQ(counts, cpu);
        }
      }
    }
  }
}

}  // namespace
}  // namespace torch_hrr::cuda_on_host
