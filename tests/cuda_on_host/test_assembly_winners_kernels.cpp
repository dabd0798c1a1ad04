// Each kernel of k_winners launched by itself: what it leaves for the next one, whatever the schedule, block and grid.
#include "tests/cuda_on_host/assembly_testing.h"

#include <array>
#include <utility>

#include "kernels/assembly/launch_winners.cuh"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using namespace assembly_testing;

constexpr int64_t kRows = 3;
constexpr int64_t kN = 203;
constexpr int64_t kK = 70;
constexpr int64_t kFew = 20;
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
using State = KthKey<S>;

template <typename S>
std::array<uint64_t, 4> numbers_of(const KthKey<S>& state) {
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
using KeyWidths = cuda_on_host::TestedTypes<float, double, Half>;
TYPED_TEST_SUITE(WinnersKernels, KeyWidths);

TYPED_TEST(WinnersKernels, RowKernel) {
  using S = TypeParam;
  for (const Kind kind : {Kind::kAnyBits, Kind::kConstant}) {
    const WinnersProblem<S> problem(kind, kRows, kN, kK);
    for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
      for (const bool keep : {false, true}) {
        std::vector<S> values;
        std::vector<int64_t> indices;
        const int64_t kept_bytes = keep ? kept_row_bytes<S>(kN) : 0;
        host_launch("winners_row_kernel", keep ? winners_row_kernel<S, true> : winners_row_kernel<S, false>, grid,
                    block, sizeof(RadixShared<S>) + static_cast<size_t>(kept_bytes), schedule,
                    problem.params(values, indices));
        EXPECT_EQ(winners_of(values, indices), problem.expected());
      }
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
    std::vector<int32_t> sizes(kRows * kPlan.chunks);
    host_launch("winners_start_kernel", winners_start_kernel<S>, grid, block, 0, schedule, params, kPlan, states.data(),
                counters.data(), sizes.data());
    EXPECT_EQ(counters, std::vector<uint32_t>(kRows * kDigits));
    EXPECT_EQ(sizes, std::vector<int32_t>(kRows * kPlan.chunks, WinnersLists<S>::kNone));
    for (const State<S>& state : states) {
      EXPECT_EQ(numbers_of(state), (std::array<uint64_t, 4>{0, kKeyBits<S>, kK, kN}));
    }
  });
}

// The lists of a launch, none of them made.
template <typename S>
struct Lists {
  std::vector<int32_t> sizes;
  std::vector<S> elements;
  std::vector<uint32_t> indices;
  int64_t capacity;

  explicit Lists(int64_t elements_of_one)
      : sizes(kRows * kPlan.chunks, WinnersLists<S>::kNone),
        elements(poisoned<S>(static_cast<size_t>(kRows * kPlan.chunks * elements_of_one))),
        indices(poisoned<uint32_t>(elements.size())),
        capacity(elements_of_one) {}

  WinnersLists<S> view() {
    return {sizes.data(), elements.data(), indices.data(), capacity};
  }
};

// Whether each chunk has a list exactly where what may still win is few, in the row and in the chunk; it is that, in
// the order of the row.
template <typename S>
void expect_lists(const Lists<S>& lists, const WinnersProblem<S>& problem, const std::vector<State<S>>& states,
                  const std::vector<bool>& listed) {
  for (int64_t r = 0; r < kRows; ++r) {
    const State<S>& state = states[static_cast<size_t>(r)];
    for (int64_t chunk = 0; chunk < kPlan.chunks; ++chunk) {
      std::vector<uint64_t> elements;
      std::vector<uint32_t> indices;
      for (int64_t j = chunk * kPlan.chunk; j < std::min(kN, (chunk + 1) * kPlan.chunk); ++j) {
        if (winners_key(problem.row(r)[j]) >> state.shift >= state.prefix) {
          elements.push_back(bits_of(problem.row(r)[j]));
          indices.push_back(static_cast<uint32_t>(j));
        }
      }
      const int64_t at = r * kPlan.chunks + chunk;
      const auto count = static_cast<int64_t>(elements.size());
      const bool few =
          listed[static_cast<size_t>(r)] && count <= lists.capacity && 4 * (problem.k - state.need + state.match) <= kN;
      ASSERT_EQ(lists.sizes[static_cast<size_t>(at)], few ? count : WinnersLists<S>::kNone) << r << ", " << chunk;
      for (int64_t i = 0; few && i < count; ++i) {
        const auto place = static_cast<size_t>(at * lists.capacity + i);
        EXPECT_EQ(bits_of(lists.elements[place]), elements[static_cast<size_t>(i)]);
        EXPECT_EQ(lists.indices[place], indices[static_cast<size_t>(i)]);
      }
    }
  }
}

TYPED_TEST(WinnersKernels, HistogramKernel) {
  using S = TypeParam;
  const WinnersProblem<S> problem(Kind::kNormal, kRows, kN, kK);
  std::vector<S> values;
  std::vector<int64_t> indices;
  const WinnersParams params = problem.params(values, indices);
  std::vector<uint32_t> expected(kRows * kDigits);
  for (int64_t r = 0; r < kRows; ++r) {
    for (const auto key : descending_keys(problem, r)) {
      ++expected[static_cast<size_t>(r * kDigits) + (key >> (kKeyBits<S> - kDigitBits))];
    }
  }
  for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
    std::vector<uint32_t> counters(kRows * kDigits);
    host_launch("winners_histogram_kernel", winners_histogram_kernel<S>, grid, block, kWinnersHistogramBytes, schedule,
                params, kPlan, counters.data());
    EXPECT_EQ(counters, expected);
  });
}

// The second digit of rows 0 and 1; row 2 is settled and adds nothing. The second launch finds the lists of the first.
TYPED_TEST(WinnersKernels, RefineKernel) {
  using S = TypeParam;
  const WinnersProblem<S> problem(Kind::kNormal, kRows, kN, kFew);
  std::vector<S> values;
  std::vector<int64_t> indices;
  const WinnersParams params = problem.params(values, indices);
  const int32_t second = kKeyBits<S> - kDigitBits;
  const int32_t third = second > kDigitBits ? second - kDigitBits : 0;
  const std::vector<State<S>> states = {known_state(problem, 0, second), known_state(problem, 1, second),
                                        known_state(problem, 2, 0)};
  std::vector<uint32_t> expected(kRows * kDigits);
  for (int64_t r = 0; r < 2; ++r) {
    ASSERT_FALSE(states[static_cast<size_t>(r)].settled());
    for (const auto key : descending_keys(problem, r)) {
      if (key >> second == states[static_cast<size_t>(r)].prefix) {
        ++expected[static_cast<size_t>(r * kDigits) + (key >> third) % (1u << (second - third))];
      }
    }
  }
  for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
    for (const int64_t capacity : {2, 15, 40}) {
      Lists<S> lists(capacity);
      for (int launch = 0; launch < 2; ++launch) {
        std::vector<uint32_t> counters(kRows * kDigits);
        host_launch("winners_refine_kernel", winners_refine_kernel<S>, grid, block, sizeof(RadixShared<S>), schedule,
                    params, kPlan, lists.view(), states.data(), counters.data());
        EXPECT_EQ(counters, expected);
        expect_lists(lists, problem, states, {true, true, false});
      }
    }
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
    host_launch("winners_pick_kernel", winners_pick_kernel<S>, grid, block, kWinnersScanBytes, schedule, kRows,
                states.data(), counters.data());
    EXPECT_EQ(counters, std::vector<uint32_t>(kRows * kDigits));
    EXPECT_EQ(numbers_of(states[0]), numbers_of(known_state(problem, 0, second)));
    EXPECT_EQ(numbers_of(states[1]), numbers_of(known_state(problem, 1, second)));
    EXPECT_EQ(numbers_of(states[2]), numbers_of(settled));
  });
}

// From the k-th key to the winners, with lists and without: of a row of which all is left, and of one whose winners are
// few and in its last chunks.
TYPED_TEST(WinnersKernels, CountAndWriteKernels) {
  using S = TypeParam;
  for (const auto& [kind, k] : {std::pair{Kind::kRelu, kN - 20}, std::pair{Kind::kAscending, kFew}}) {
    const WinnersProblem<S> problem(kind, kRows, kN, k);
    std::vector<S> values;
    std::vector<int64_t> indices;
    std::vector<State<S>> states;
    std::vector<Tally> expected;
    for (int64_t r = 0; r < kRows; ++r) {
      states.push_back(known_state(problem, r, 0));
      for (int64_t chunk = 0; chunk < kPlan.chunks; ++chunk) {
        Tally tally = 0;
        for (int64_t j = chunk * kPlan.chunk; j < std::min(kN, (chunk + 1) * kPlan.chunk); ++j) {
          const auto key = winners_key(problem.row(r)[j]);
          tally += key > states.back().prefix ? kAbove : key == states.back().prefix ? kEqual : 0;
        }
        expected.push_back(tally);
      }
    }
    // Some of the k-th key's equals win, not all.
    ASSERT_LT(states[1].need, states[1].match);
    for_each_launch([&](const Schedule& schedule, dim3 grid, dim3 block) {
      for (const int64_t capacity : {3, 40}) {
        const WinnersParams params = problem.params(values, indices);
        Lists<S> lists(capacity);
        for (int launch = 0; launch < 2; ++launch) {
          auto tallies = poisoned<Tally>(expected.size());
          host_launch("winners_count_kernel", winners_count_kernel<S>, grid, block, kWinnersScanBytes, schedule, params,
                      kPlan, lists.view(), states.data(), tallies.data());
          EXPECT_EQ(tallies, expected);
        }
        expect_lists(lists, problem, states, {true, true, true});
        host_launch("winners_write_kernel", winners_write_kernel<S>, grid, block, kWinnersScanBytes, schedule, params,
                    kPlan, lists.view(), states.data(), expected.data());
        EXPECT_EQ(winners_of(values, indices), problem.expected());
      }
    });
  }
}

template <typename S>
class IntegerDigits : public testing::Test {};
using Integers = cuda_on_host::TestedTypes<int32_t, int64_t>;
TYPED_TEST_SUITE(IntegerDigits, Integers);

// Every digit is a range of keys with the same high bits, the ranges follow each other, and they begin and end with the
// least and the largest number.
TYPED_TEST(IntegerDigits, AreConsecutiveRangesOfKeys) {
  using S = TypeParam;
  using Key = winners_key_t<S>;
  using Digit = IntegerDigit<Key>;
  Key next = 0;
  for (uint32_t digit = 0; digit < 2 * Digit::kOfOneSign; ++digit) {
    const int32_t shift = Digit::shift_of(digit);
    const auto first = static_cast<Key>(Digit::prefix_of(digit) << shift);
    const auto last = static_cast<Key>(first + ((Key{1} << shift) - 1));
    ASSERT_EQ(first, next);
    ASSERT_EQ(Digit::of(first), digit);
    ASSERT_EQ(Digit::of(last), digit);
    next = static_cast<Key>(last + 1);
  }
  EXPECT_EQ(next, 0u);
  EXPECT_EQ(Digit::of(winners_key(S{31})) - Digit::of(winners_key(S{-32})), 63u);
}

// Neurons' inputs: once it is known that their low bits are alike, one digit after the first tells all of them.
TYPED_TEST(IntegerDigits, StopAtTheLowestBitThatDiffers) {
  using S = TypeParam;
  const auto key = winners_key(static_cast<S>(S{1000} << 14));
  State<S> state = unknown_key<S>(100, 50);
  state.lowest = 14;
  state = state.with_digit(state.next_digit(key), 10, 60);
  EXPECT_FALSE(state.settled());
  EXPECT_TRUE(state.matches(key));
  EXPECT_EQ(state.shift, 19);
  EXPECT_EQ(state.next_digit(key), 1000u % 32);
  state = state.with_digit(state.next_digit(key), 20, 35);
  EXPECT_TRUE(state.settled());
  EXPECT_EQ(numbers_of(state), (std::array<uint64_t, 4>{static_cast<uint64_t>(key >> 14), 14, 20, 35}));
}

}  // namespace
}  // namespace torch_hrr::kernels
