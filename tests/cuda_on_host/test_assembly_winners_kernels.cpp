// Each kernel of k_winners launched by itself: what it leaves for the next one, whatever the schedule, block and grid.
#include "tests/cuda_on_host/assembly_testing.h"

#include <array>

#include "kernels/assembly/winners.cuh"

namespace torch_hrr::kernels {
namespace {

using namespace assembly_testing;

constexpr int64_t kRows = 3;
constexpr int64_t kN = 203;
constexpr int64_t kK = 70;
constexpr WinnersPlan kPlan{40, 6};

struct Shape {
  unsigned blocks;
  unsigned threads;
};
constexpr Shape kShapes[] = {{2, 32}, {25, 64}};

// visit(schedule, grid, block)
template <typename Visit>
void for_each_launch(const Visit& visit) {
  for (const Schedule& schedule : all_schedules(2)) {
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(testing::Message() << schedule << ", " << shape.blocks << " blocks of " << shape.threads);
      visit(schedule, dim3(shape.blocks), dim3(shape.threads));
    }
  }
}

template <typename S>
using State = KthKey<winners_key_t<S>>;

template <typename Key>
std::array<uint64_t, 4> numbers_of(const KthKey<Key>& state) {
  return {state.prefix, static_cast<uint64_t>(state.shift), state.need, state.match};
}

// A row's keys from the highest down.
template <typename S>
std::vector<winners_key_t<S>> descending_keys(const WinnersProblem<S>& problem, int64_t r) {
  std::vector<winners_key_t<S>> keys;
  for (int64_t j = 0; j < problem.n; ++j) {
    keys.push_back(winners_key(problem.row(r)[j]));
  }
  std::sort(keys.rbegin(), keys.rend());
  return keys;
}

// What is known of the k-th key of row r when all but its `shift` low bits are.
template <typename S>
State<S> known_state(const WinnersProblem<S>& problem, int64_t r, int32_t shift) {
  const auto keys = descending_keys(problem, r);
  State<S> state{static_cast<winners_key_t<S>>(keys[static_cast<size_t>(problem.k - 1)] >> shift), shift,
                 static_cast<uint32_t>(problem.k), 0};
  for (const auto key : keys) {
    state.need -= key >> shift > state.prefix ? 1 : 0;
    state.match += key >> shift == state.prefix ? 1 : 0;
  }
  return state;
}

template <typename S>
class WinnersKernels : public testing::Test {};
using KeyWidths = testing::Types<float, double, Half>;
TYPED_TEST_SUITE(WinnersKernels, KeyWidths);

TYPED_TEST(WinnersKernels, RowKernel) {
  using S = TypeParam;
  for (const Kind kind : {Kind::kAnyBits, Kind::kConstant}) {
    const WinnersProblem<S> problem(kind, kRows, kN, kK);
    for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
      std::vector<S> values;
      std::vector<int64_t> indices;
      host_launch("winners_row_kernel", winners_row_kernel<S>, grid, block, sizeof(RadixShared<winners_key_t<S>>),
                  schedule, problem.params(values, indices));
      EXPECT_EQ(winners_of(values, indices), problem.expected());
    });
  }
}

TYPED_TEST(WinnersKernels, StartKernel) {
  using S = TypeParam;
  const WinnersProblem<S> problem(Kind::kNormal, kRows, kN, kK);
  std::vector<S> values;
  std::vector<int64_t> indices;
  const WinnersParams params = problem.params(values, indices);
  for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
    auto states = poisoned<State<S>>(kRows);
    auto counters = poisoned<uint32_t>(kRows * kDigits);
    host_launch("winners_start_kernel", winners_start_kernel<S>, grid, block, 0, schedule, params, states.data(),
                counters.data());
    EXPECT_EQ(counters, std::vector<uint32_t>(kRows * kDigits));
    for (const State<S>& state : states) {
      EXPECT_EQ(numbers_of(state), (std::array<uint64_t, 4>{0, kKeyBits<S>, kK, kN}));
    }
  });
}

// Inputs of neurons: their keys differ neither in high bits nor in low ones, and rows that are alike nowhere.
TEST(WinnersKernels, NarrowKernel) {
  WinnersProblem<int64_t> problem(Kind::kNormal, kRows, kN, kK);
  for (int64_t j = 0; j < kN; ++j) {
    problem.memory[static_cast<size_t>(j)] = (j % 50) << 24;
    problem.memory[static_cast<size_t>(kN + j)] = -7;
  }
  const std::vector<uint64_t> expected = {uint64_t{63} << 24, 0, ~uint64_t{0}};
  problem.memory[static_cast<size_t>(2 * kN + 90)] = ~problem.memory[static_cast<size_t>(2 * kN)];
  std::vector<int64_t> values;
  std::vector<int64_t> indices;
  const WinnersParams params = problem.params(values, indices);
  for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
    auto states = poisoned<State<int64_t>>(kRows);
    auto counters = poisoned<uint32_t>(kRows * kDigits);
    host_launch("winners_start_kernel", winners_start_kernel<int64_t>, grid, block, 0, schedule, params, states.data(),
                counters.data());
    host_launch("winners_narrow_kernel", winners_narrow_kernel<int64_t>, grid, block, kWinnersScanBytes, schedule,
                params, kPlan, states.data());
    for (size_t r = 0; r < expected.size(); ++r) {
      EXPECT_EQ(states[r].differing, expected[r]);
      EXPECT_EQ(numbers_of(states[r]), (std::array<uint64_t, 4>{0, 64, kK, kN}));
    }
    // One digit tells all of the first row, and the second needs none.
    EXPECT_EQ(states[0].next_shift(), 24);
    EXPECT_EQ(states[0].next_digit(winners_key(int64_t{49} << 24)), 49u);
    EXPECT_TRUE(states[1].settled());
    EXPECT_EQ(states[2].next_shift(), 64 - kDigitBits);
  });
}

// The first digit of row 0 and the second of row 1; row 2 is settled and adds nothing.
TYPED_TEST(WinnersKernels, HistogramKernel) {
  using S = TypeParam;
  const WinnersProblem<S> problem(Kind::kNormal, kRows, kN, kK);
  std::vector<S> values;
  std::vector<int64_t> indices;
  const WinnersParams params = problem.params(values, indices);
  const int32_t second = kKeyBits<S> - kDigitBits;
  const int32_t third = second > kDigitBits ? second - kDigitBits : 0;
  const std::vector<State<S>> states = {
      {0, kKeyBits<S>, kK, kN}, known_state(problem, 1, second), known_state(problem, 2, 0)};
  ASSERT_FALSE(states[1].settled());
  std::vector<uint32_t> expected(kRows * kDigits);
  for (const auto key : descending_keys(problem, 0)) {
    ++expected[key >> second];
  }
  for (const auto key : descending_keys(problem, 1)) {
    if (key >> second == states[1].prefix) {
      ++expected[kDigits + (key >> third) % (1u << (second - third))];
    }
  }
  for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
    std::vector<uint32_t> counters(kRows * kDigits);
    host_launch("winners_histogram_kernel", winners_histogram_kernel<S>, grid, block, kWinnersHistogramBytes, schedule,
                params, kPlan, states.data(), counters.data());
    EXPECT_EQ(counters, expected);
  });
}

TYPED_TEST(WinnersKernels, PickKernel) {
  using S = TypeParam;
  const WinnersProblem<S> problem(Kind::kNormal, kRows, kN, kK);
  const int32_t second = kKeyBits<S> - kDigitBits;
  const State<S> settled = known_state(problem, 2, 0);
  std::vector<uint32_t> counts(kRows * kDigits);
  for (int64_t r = 0; r < 2; ++r) {
    for (const auto key : descending_keys(problem, r)) {
      ++counts[static_cast<size_t>(r * kDigits) + (key >> second)];
    }
  }
  for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
    std::vector<State<S>> states = {{0, kKeyBits<S>, kK, kN}, {0, kKeyBits<S>, kK, kN}, settled};
    std::vector<uint32_t> counters = counts;
    host_launch("winners_pick_kernel", winners_pick_kernel<winners_key_t<S>>, grid, block, kWinnersScanBytes, schedule,
                kRows, states.data(), counters.data());
    EXPECT_EQ(counters, std::vector<uint32_t>(kRows * kDigits));
    EXPECT_EQ(numbers_of(states[0]), numbers_of(known_state(problem, 0, second)));
    EXPECT_EQ(numbers_of(states[1]), numbers_of(known_state(problem, 1, second)));
    EXPECT_EQ(numbers_of(states[2]), numbers_of(settled));
  });
}

// From tallies of chunks to the winners, the k-th key known.
TYPED_TEST(WinnersKernels, CountScanAndWriteKernels) {
  using S = TypeParam;
  const WinnersProblem<S> problem(Kind::kRelu, kRows, kN, kN - 20);
  std::vector<S> values;
  std::vector<int64_t> indices;
  std::vector<State<S>> states;
  std::vector<Tally> counted;
  std::vector<Tally> scanned;
  for (int64_t r = 0; r < kRows; ++r) {
    states.push_back(known_state(problem, r, 0));
    Tally sum = 0;
    for (int64_t chunk = 0; chunk < kPlan.chunks; ++chunk) {
      Tally tally = 0;
      for (int64_t j = chunk * kPlan.chunk; j < std::min(kN, (chunk + 1) * kPlan.chunk); ++j) {
        const auto key = winners_key(problem.row(r)[j]);
        tally += key > states.back().prefix ? kAbove : key == states.back().prefix ? kEqual : 0;
      }
      counted.push_back(tally);
      scanned.push_back(sum);
      sum += tally;
    }
    // Some of the zeros win, in the middle of the row.
    ASSERT_LT(states.back().need, states.back().match);
  }
  for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
    const WinnersParams params = problem.params(values, indices);
    auto tallies = poisoned<Tally>(counted.size());
    host_launch("winners_count_kernel", winners_count_kernel<S>, grid, block, kWinnersScanBytes, schedule, params,
                kPlan, states.data(), tallies.data());
    EXPECT_EQ(tallies, counted);
    host_launch("winners_scan_kernel", winners_scan_kernel<Tally>, grid, block, kWinnersScanBytes, schedule, kRows,
                kPlan.chunks, tallies.data());
    EXPECT_EQ(tallies, scanned);
    host_launch("winners_write_kernel", winners_write_kernel<S>, grid, block, kWinnersScanBytes, schedule, params,
                kPlan, states.data(), tallies.data());
    EXPECT_EQ(winners_of(values, indices), problem.expected());
  });
}

// More chunks than threads, counts near 2^31 in both halves.
TEST(WinnersScan, CarriesBetweenTiles) {
  constexpr int64_t kChunks = 150;
  std::vector<Tally> tallies(2 * kChunks);
  for (size_t i = 0; i < tallies.size(); ++i) {
    tallies[i] = (14000000 + i) * kAbove + (14300000 - i) * kEqual;
  }
  std::vector<Tally> expected;
  for (int64_t r = 0; r < 2; ++r) {
    Tally sum = 0;
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
      expected.push_back(sum);
      sum += tallies[static_cast<size_t>(r * kChunks + chunk)];
    }
  }
  for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
    std::vector<Tally> scanned = tallies;
    host_launch("winners_scan_kernel", winners_scan_kernel<Tally>, grid, block, kWinnersScanBytes, schedule, int64_t{2},
                kChunks, scanned.data());
    EXPECT_EQ(scanned, expected);
  });
}

}  // namespace
}  // namespace torch_hrr::kernels
