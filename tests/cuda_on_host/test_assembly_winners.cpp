// The kernels of k_winners against a stable sort: element types, ties, special values, layouts, chunks, blocks, grids.
#include "tests/cuda_on_host/assembly_testing.h"

#include "kernels/assembly/launch_winners.cuh"

namespace torch_hrr::kernels {
namespace {

using namespace assembly_testing;

constexpr int kThreads = 64;

WinnersPlan plan_of(int64_t n, int64_t chunk) {
  return {chunk, (n + chunk - 1) / chunk};
}

// Through the launcher; the workspace is exactly as large as it says and holds garbage.
template <typename S>
Winners run_winners(const WinnersProblem<S>& problem, const WinnersPlan& plan, const Schedule& schedule = {},
                    int threads = kThreads, int64_t max_blocks = kMaxGridX,
                    std::size_t shared_limit = kDefaultSharedBytes) {
  std::vector<S> values;
  std::vector<int64_t> indices;
  const WinnersParams params = problem.params(values, indices);
  auto workspace = poisoned<uint64_t>(static_cast<size_t>(WinnersWorkspace<S>::bytes(problem.rows, plan) / 8));
  launch_winners_rows<S>(params, plan, workspace.data(), HostLauncher{schedule}, threads, max_blocks, shared_limit);
  return winners_of(values, indices);
}

template <typename S>
class WinnersTypes : public testing::Test {};
TYPED_TEST_SUITE(WinnersTypes, ElementTypes);

TYPED_TEST(WinnersTypes, AreThoseOfAStableSort) {
  using S = TypeParam;
  const int64_t n = 333;
  for (const Kind kind : kKinds) {
    for (const int64_t k : {1, 2, 40, 166, 332, 333}) {
      const WinnersProblem<S> problem(kind, 2, n, k, 0, 0, static_cast<unsigned>(k));
      const Winners expected = problem.expected();
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", k " << k);
      EXPECT_EQ(run_winners(problem, plan_of(n, n)), expected) << "one block";
      EXPECT_EQ(run_winners(problem, plan_of(n, n), {}, kThreads, kMaxGridX, 0), expected) << "a row that is not kept";
      EXPECT_EQ(run_winners(problem, plan_of(n, 150)), expected) << "chunks";
    }
  }
}

TYPED_TEST(WinnersTypes, DoNotDependOnTheOrderOfThreadsAndBlocks) {
  using S = TypeParam;
  const int64_t n = 301;
  for (const Kind kind : {Kind::kNormal, Kind::kRelu, Kind::kSpecial}) {
    const WinnersProblem<S> problem(kind, 3, n, 100);
    const Winners expected = problem.expected();
    for (const Schedule& schedule : all_schedules(2)) {
      SCOPED_TRACE(schedule);
      EXPECT_EQ(run_winners(problem, plan_of(n, n), schedule, kThreads, 2), expected) << "one block";
      EXPECT_EQ(run_winners(problem, plan_of(n, 64), schedule, kThreads, 2), expected) << "chunks";
      const WinnersProblem<S> few(kind, 3, n, 4);
      EXPECT_EQ(run_winners(few, plan_of(n, 64), schedule, kThreads, 2), few.expected()) << "chunks with lists";
    }
  }
}

// Where the shared memory of a multiprocessor has room for two blocks to the byte.
TYPED_TEST(WinnersTypes, RowsAreKeptWhereTwoBlocksFit) {
  using S = TypeParam;
  WinnersParams params;
  params.rows = 3;
  params.n = 1001;
  params.k = 7;
  const std::size_t fixed = sizeof(RadixShared<S>);
  const std::size_t row = (1001 * sizeof(S) + 15) / 16 * 16;
  const std::size_t limit = 2 * (fixed + row) + 1024;
  for (const bool room : {false, true}) {
    bool launched = false;
    launch_winners_rows<S>(
        params, plan_of(1001, 1001), nullptr,
        [&](const char*, [[maybe_unused]] auto kernel, dim3, dim3, std::size_t shared_bytes, const auto&... arguments) {
          launched = true;
          if constexpr (sizeof...(arguments) == 1) {
            EXPECT_EQ(kernel, (room ? winners_row_kernel<S, true> : winners_row_kernel<S, false>));
          }
          EXPECT_EQ(shared_bytes, fixed + (room ? row : 0));
        },
        kThreads, kMaxGridX, limit - (room ? 0 : 1));
    EXPECT_TRUE(launched);
  }
}

// Runs of every length up to a few vectors, aligned and not, rows apart, over one another and backwards.
TYPED_TEST(WinnersTypes, LayoutsOfRows) {
  using S = TypeParam;
  for (const int64_t n : {1, 2, 7, 8, 9, 31, 65}) {
    for (const int64_t shift : {0, 1, 3}) {
      for (const int64_t gap : {int64_t{0}, int64_t{1}, int64_t{8}, -n}) {
        const WinnersProblem<S> problem(Kind::kNormal, 3, n, (n + 1) / 2, gap, shift);
        const Winners expected = problem.expected();
        SCOPED_TRACE(testing::Message() << "n " << n << " shift " << shift << " gap " << gap);
        EXPECT_EQ(run_winners(problem, plan_of(n, n)), expected);
        EXPECT_EQ(run_winners(problem, plan_of(n, 5), {}, 32), expected);
      }
    }
  }
  WinnersProblem<S> backwards(Kind::kNormal, 3, 50, 20);
  backwards.shift = 100;
  backwards.row_stride = -50;
  EXPECT_EQ(run_winners(backwards, plan_of(50, 50)), backwards.expected());
  EXPECT_EQ(run_winners(backwards, plan_of(50, 24)), backwards.expected());
}

TEST(Winners, ChunksBlocksAndGridsGiveTheSame) {
  for (const int64_t n : {77, 600}) {
    const WinnersProblem<float> problem(Kind::kRelu, 3, n, n / 3 * 2);
    const Winners expected = problem.expected();
    for (const int64_t chunk : {n / 11, int64_t{64}, n / 2, n - 1, n, 2 * n}) {
      for (const int threads : {32, 96, 160}) {
        for (const int64_t max_blocks : {int64_t{1}, int64_t{4}, kMaxGridX}) {
          EXPECT_EQ(run_winners(problem, plan_of(n, chunk), {Schedule::Order::kShuffled, 3}, threads, max_blocks),
                    expected)
              << n << " in chunks of " << chunk << ", " << threads << " threads, " << max_blocks << " blocks";
        }
      }
    }
  }
}

TEST(Winners, BlocksAsOnTheDevice) {
  const int64_t n = kOneBlockElements + 3;
  const WinnersProblem<float> problem(Kind::kNormal, 1, n, 1000);
  const WinnersPlan plan = winners_plan(1, n);
  EXPECT_EQ(plan.chunks, 5);
  EXPECT_EQ(run_winners(problem, plan, {}, kWinnersThreads), problem.expected());
  const WinnersProblem<float> shorter(Kind::kNormal, 1, 3000, 1000);
  EXPECT_EQ(run_winners(shorter, winners_plan(1, 3000), {}, kWinnersThreads), shorter.expected());
}

TEST(Winners, NoneOfNoRowsOrNoElements) {
  int launches = 0;
  const auto count = [&](auto&&...) { ++launches; };
  WinnersParams params;
  launch_winners_rows<float>(params, {}, nullptr, count);
  params.rows = 3;
  launch_winners_rows<float>(params, {}, nullptr, count);
  params.n = 5;
  launch_winners_rows<float>(params, {}, nullptr, count);
  EXPECT_EQ(launches, 0);
}

TEST(Winners, IndicesAlone) {
  const WinnersProblem<int64_t> problem(Kind::kNormal, 2, 200, 31);
  for (const int64_t chunk : {200, 48}) {
    std::vector<int64_t> values;
    std::vector<int64_t> indices;
    WinnersParams params = problem.params(values, indices);
    params.values = nullptr;
    const WinnersPlan plan = plan_of(problem.n, chunk);
    auto workspace = poisoned<uint64_t>(static_cast<size_t>(WinnersWorkspace<int64_t>::bytes(2, plan) / 8));
    launch_winners_rows<int64_t>(params, plan, workspace.data(), HostLauncher{}, kThreads);
    EXPECT_EQ(indices, problem.expected().indices);
  }
}

// Chunks cover the row, no more; their number follows the target, and short rows and many rows take one block.
TEST(Winners, PlansCoverTheRow) {
  for (const int64_t rows : {int64_t{1}, int64_t{3}, int64_t{32}, kTargetChunks - 1, kTargetChunks, int64_t{1} << 40}) {
    for (const int64_t n : {int64_t{1}, kOneBlockElements, kOneBlockElements + 1, int64_t{1000000}, int64_t{100000000},
                            int64_t{2147483647}}) {
      const WinnersPlan plan = winners_plan(rows, n);
      SCOPED_TRACE(testing::Message() << rows << " x " << n);
      EXPECT_GE(plan.chunk * plan.chunks, n);
      EXPECT_LT(plan.chunk * (plan.chunks - 1), n);
      EXPECT_TRUE(plan.chunks == 1 || plan.chunk % kMinChunkElements == 0);
      EXPECT_LE(plan.chunks, std::max<int64_t>(1, kTargetChunks / rows));
      EXPECT_TRUE((n > kOneBlockElements && rows < kTargetChunks) || plan.chunks == 1);
    }
  }
  EXPECT_EQ(winners_plan(1, 1000000).chunks, 245);
  EXPECT_EQ(winners_plan(32, 1000000).chunks, 31);
}

TYPED_TEST(WinnersTypes, KeysSortTheWinners) {
  using S = TypeParam;
  for (const Kind kind : kKinds) {
    const WinnersProblem<S> problem(kind, 1, 150, 120);
    std::vector<S> values;
    std::vector<int64_t> indices;
    const WinnersParams params = problem.params(values, indices);
    launch_winners_rows<S>(params, plan_of(150, 150), nullptr, HostLauncher{}, kThreads);
    auto keys = poisoned<int64_t>(120);
    host_launch("winner_keys_kernel", winner_keys_kernel<S>, dim3(1), dim3(kThreads), 0, Schedule{}, values.data(),
                int64_t{120}, keys.data());
    auto launched = poisoned<int64_t>(120);
    launch_winner_keys_of<S>(values.data(), 120, launched.data(), HostLauncher{});
    EXPECT_EQ(keys, launched);
    std::vector<int64_t> order(120);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return keys[i] > keys[j]; });
    std::vector<S> sorted_values;
    std::vector<int64_t> sorted_indices;
    for (const int64_t i : order) {
      sorted_values.push_back(values[i]);
      sorted_indices.push_back(indices[i]);
    }
    EXPECT_EQ(winners_of(sorted_values, sorted_indices), problem.expected(true)) << "kind " << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
