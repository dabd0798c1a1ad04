// Rounds of brains, by kernels in any schedule and by the CPU's engine, are bitwise the model on dense matrices.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/cuda_on_host/assembly_rounds_testing.h"

namespace torch_hrr::kernels::assembly_testing {
namespace {

// A test's own hands on a brain before a round: what fires, what learns, and caches that are gone.
template <typename Brain>
void set_model(Brain& brain, int64_t round) {
  for (FiberModel& fiber : brain.model.fibers) {
    fiber.plastic = round != 4;
  }
  brain.model.fibers[4].plastic = round == 5;
  brain.model.stimuli[0].plastic = round != 4;
}

TEST(RoundsKernels, EveryRoundIsTheDefinition) {
  constexpr int64_t kRounds = 7;
  constexpr int64_t kBrains = 2;
  // Sets that fire again after rounds in which they did not, one of them a single neuron.
  const std::vector<std::pair<int64_t, uint64_t>> fires = {{37, 1}, {20, 2}, {37, 3}, {1, 4},
                                                           {20, 2}, {37, 1}, {37, 3}};
  const Model model = every_kind();
  const std::vector<int64_t> fixed = some_neurons(model, 2, 13, 9);
  std::vector<std::vector<DenseBrain>> before;
  std::vector<std::vector<DenseBrain>> after(1);
  for (int64_t b = 0; b < kBrains; ++b) {
    after[0].emplace_back(model, b);
    after[0].back().areas[2].winners = fixed;
  }
  for (size_t round = 0; round < kRounds; ++round) {
    before.push_back(after.back());
    for (DenseBrain& brain : before.back()) {
      brain.areas[0].winners = some_neurons(model, 0, fires[round].first, fires[round].second);
    }
    after.push_back(before.back());
    for (DenseBrain& brain : after.back()) {
      set_model(brain, static_cast<int64_t>(round));
      brain.round();
    }
  }
  for (const RoundsHost& host : all_places()) {
    SCOPED_TRACE(text_of(host));
    Brains brains(model, kBrains, Memory(model));
    int32_t most_new_edges = 0;
    for (int64_t b = 0; b < kBrains; ++b) {
      brains.activate(2, b, fixed);
    }
    for (size_t round = 0; round < kRounds; ++round) {
      SCOPED_TRACE("round " + std::to_string(round));
      for (int64_t b = 0; b < kBrains; ++b) {
        brains.activate(0, b, some_neurons(model, 0, fires[round].first, fires[round].second));
      }
      for (FiberArrays& fiber : brains.fibers) {
        if (round == 3 && fiber.delivered_count[1] >= 0) {
          std::fill(fiber.counts.begin() + static_cast<int64_t>(fiber.counts.size() / 2), fiber.counts.end(), 77);
          fiber.delivered_count[1] = -1;
        }
      }
      set_model(brains, static_cast<int64_t>(round));
      const std::vector<int32_t> length = brains.fibers[0].length;
      const std::vector<int64_t> progress = brains.run(1, host);
      for (int64_t b = 0; b < kBrains; ++b) {
        const auto at = static_cast<size_t>(b);
        EXPECT_EQ(progress[at * (1 + model.fibers.size())], 0);
        expect_definition(brains, b, after[round + 1][at], before[round][at]);
      }
      ASSERT_FALSE(testing::Test::HasFailure());
      for (size_t row = 0; row < length.size(); ++row) {
        most_new_edges = std::max(most_new_edges, brains.fibers[0].length[row] - length[row]);
      }
    }
    EXPECT_GT(most_new_edges, 2 * kEdgesPerChunk);
  }
}

// A call of some rounds: brains before its last one, and after it.
struct Call {
  int64_t rounds;
  std::vector<DenseBrain> before;
  std::vector<DenseBrain> after;
};

std::vector<Call> calls_of(std::vector<DenseBrain> brains, const std::vector<int64_t>& rounds) {
  std::vector<Call> calls;
  for (const int64_t count : rounds) {
    for (DenseBrain& brain : brains) {
      brain.rounds(count - 1);
    }
    calls.push_back({count, brains, {}});
    for (DenseBrain& brain : brains) {
      brain.round();
    }
    calls.back().after = brains;
  }
  return calls;
}

// One- and two-level gaps into areas of several column blocks, more of them than lanes, with k_winners over several
// blocks; and two-level gaps into a small area.
TEST(RoundsKernels, WideAndSparseAreasAreTheDefinition) {
  constexpr size_t kRounds = 3;
  Model sparse;
  sparse.areas = {{150, 128}, {3000, 60}};
  sparse.fibers = {{0, 1, 0.0037}};
  sparse.stimuli = {{1, 4}};
  Model narrow_blocks;
  narrow_blocks.areas = {{12, 9}, {8500, 33}};
  narrow_blocks.fibers = {{0, 1, 1}};
  narrow_blocks.stimuli = {{1, 5000}};
  Model two_level;
  two_level.areas = {{22, 20}, {132'100, 3000}};
  two_level.fibers = {{0, 1, 0.0039}};
  two_level.stimuli = {{1, 3}};
  for (const Model& model : {sparse, narrow_blocks, two_level}) {
    SCOPED_TRACE(model.areas[1].n);
    const auto fires = [&](uint64_t round) { return some_neurons(model, 0, model.areas[0].k - 1, round % 2); };
    std::vector<DenseBrain> before;
    std::vector<DenseBrain> after;
    for (uint64_t round = 0; round < kRounds; ++round) {
      before.push_back(round == 0 ? DenseBrain(model, 0) : after.back());
      before.back().areas[0].winners = fires(round);
      after.push_back(before.back());
      after.back().round();
    }
    std::vector<RoundsHost> hosts = {cpu_host()};
    for (const Schedule& schedule : all_schedules(1)) {
      hosts.push_back(host_of(schedule));
      hosts.back().most_x = 7;
    }
    for (const RoundsHost& host : hosts) {
      SCOPED_TRACE(text_of(host));
      Brains brains(model, 1, Memory(model));
      for (size_t round = 0; round < kRounds; ++round) {
        brains.activate(0, 0, fires(round));
        brains.run(1, host);
        expect_definition(brains, 0, after[round], before[round]);
        ASSERT_FALSE(testing::Test::HasFailure());
      }
      EXPECT_GT(brains.fibers[0].chunks[0], 22);
    }
  }
}

// Columns that are divided by their sums before every round: of connectomes, of a graph of one's own, of fixed winners.
TEST(RoundsKernels, ColumnsOfPresentSumsAreTheDefinition) {
  Model model;
  model.areas = {{60, 20}, {120, 25}, {110, 23, true}};
  model.fibers = {{0, 1, 0.3, 0.5f}, {1, 1, 0.2, 0.3f, 2}, {1, 1, 0.3, 0.7f, kSaturation, true}, {1, 2, 0.3, 0.2f}};
  for (FiberModel& fiber : model.fibers) {
    fiber.every_round = true;
  }
  model.stimuli = {{1, 2}};
  constexpr int64_t kBrains = 2;
  std::vector<DenseBrain> first;
  for (int64_t b = 0; b < kBrains; ++b) {
    first.emplace_back(model, b);
    first.back().areas[0].winners = some_neurons(model, 0, 20, 1);
    first.back().areas[2].winners = some_neurons(model, 2, 23, 2);
  }
  const std::vector<Call> calls = calls_of(first, {1, 4, 2});
  for (const RoundsHost& host : all_places()) {
    SCOPED_TRACE(text_of(host));
    Brains brains(model, kBrains, Memory(model));
    for (int64_t b = 0; b < kBrains; ++b) {
      brains.activate(0, b, first[0].areas[0].winners);
      brains.activate(2, b, first[0].areas[2].winners);
    }
    for (const auto& [rounds, before, dense] : calls) {
      brains.run(rounds, host);
      for (int64_t b = 0; b < kBrains; ++b) {
        const auto at = static_cast<size_t>(b);
        expect_definition(brains, b, dense[at], before[at]);
        for (size_t f = 0; f < model.fibers.size(); ++f) {
          const auto n = static_cast<size_t>(model.target_of(f).n);
          for (size_t j = 0; j < n; ++j) {
            EXPECT_EQ(brains.fibers[f].sums[at * n + j], DenseBrain::column_sum(dense[at].weights[f], n, j));
          }
        }
      }
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

// Small counts, so that many neurons tie: in areas of equals alone, of slots that lead, and of several blocks, which
// are smaller where races are sought. Numbers beside the brains' places name their graphs and orders.
TEST(RoundsKernels, TiesByKeyAreTheDefinition) {
  Model model;
  model.areas = {{60, 20}, {120, 25}, {cuda_on_host::kFindsRaces ? 500 : 2500, 33}, {90, 90}};
  for (AreaModel& area : model.areas) {
    area.keyed_ties = true;
  }
  model.areas[3].keyed_ties = false;
  model.numbers = {-7, 3};
  model.fibers = {{0, 1, 0.1}, {1, 1, 0.05, 0.0f}, {0, 2, 0.02}, {2, 2, 0.01}, {1, 3, 0.1}};
  model.fibers[1].every_round = true;
  model.stimuli = {{1, 1}, {0, 0}};
  constexpr int64_t kBrains = 2;
  std::vector<DenseBrain> first;
  for (int64_t b = 0; b < kBrains; ++b) {
    first.emplace_back(model, b);
    first.back().areas[0].winners = some_neurons(model, 0, 20, 1);
  }
  const std::vector<Call> calls = calls_of(first, {1, 3});
  EXPECT_NE(calls.back().after[0].areas[0].winners, calls.back().after[1].areas[0].winners);
  for (const RoundsHost& host : all_places()) {
    SCOPED_TRACE(text_of(host));
    Brains brains(model, kBrains, Memory(model));
    for (int64_t b = 0; b < kBrains; ++b) {
      brains.activate(0, b, first[0].areas[0].winners);
    }
    for (const auto& [rounds, before, after] : calls) {
      brains.run(rounds, host);
      for (int64_t b = 0; b < kBrains; ++b) {
        expect_definition(brains, b, after[static_cast<size_t>(b)], before[static_cast<size_t>(b)]);
      }
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

// Weights at 2^24, terms at 2^59, with and without a scale, and biases at 2^61.
TEST(RoundsKernels, SaturatedRoundsAreTheDefinition) {
  Model model;
  model.areas = {{60, 20}, {120, 25, false, kLargestBias / 2 - 1}, {110, 23, false, 0, 4, int64_t{1} << 60}};
  model.fibers = {{0, 1, 0.3, 2e6f},
                  {0, 1, 0.1, 5e6f, kLargestWeight, false, true},
                  {0, 2, 0.3, 1e6f},
                  {2, 2, 0.3, 9e6f, kLargestWeight, true}};
  model.stimuli = {{1, 2, 3e6f}, {2, 1, 0.1f}};
  for (const RoundsHost& host : all_places()) {
    SCOPED_TRACE(text_of(host));
    Brains brains(model, 1, Memory(model));
    DenseBrain dense(model, 0);
    for (uint64_t round = 0; round < 9; ++round) {
      SCOPED_TRACE("round " + std::to_string(round));
      dense.areas[0].winners = some_neurons(model, 0, 20, round % 3 == 1 ? 1 : 0);
      brains.activate(0, 0, dense.areas[0].winners);
      const DenseBrain before = dense;
      dense.round();
      brains.run(1, host);
      expect_definition(brains, 0, dense, before);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
    const auto most = [](const auto& array) { return *std::max_element(array.begin(), array.end()); };
    EXPECT_EQ(most(brains.fibers[0].weight), kLargestWeight);
    EXPECT_EQ(most(brains.areas[1].bias), kLargestBias);
  }
}

// Rows enough to wake threads: one at a time draws the parts, the last one first.
TEST(RoundsOnTheCpu, PartsOfColumnsDoNotShow) {
  constexpr int64_t kRows = 80;
  Model model;
  model.areas = {{kRows, kRows}, {8500, 33}};
  model.fibers = {{0, 1, 1}, {1, 0, 0.4}};
  model.stimuli = {{1, 5000}};
  static int64_t parts;
  parts = 0;
  RoundsHost shared = cpu_host();
  shared.parallel = [](int64_t count, int64_t grain, const RangeBody& body) {
    for (int64_t end = count; end > 0; end -= grain) {
      std::thread(body, std::max<int64_t>(0, end - grain), end).join();
      ++parts;
    }
  };
  Brains brains(model, 1, Memory(model));
  brains.activate(0, 0, some_neurons(model, 0, kRows, 1));
  Brains expected = brains;
  DenseBrain dense(model, 0);
  dense.areas[0].winners = some_neurons(model, 0, kRows, 1);
  for (int round = 0; round < 3; ++round) {
    const DenseBrain before = dense;
    dense.round();
    expected.run(1, cpu_host());
    brains.run(1, shared);
    expect_definition(brains, 0, dense, before);
    expect_same(brains.bits_of(0), expected.bits_of(0));
  }
  EXPECT_GT(parts, 4);
}

TEST(RoundsKernels, BrainsOfABatchDoNotShowInEachOther) {
  const Model model = recurrent();
  const std::vector<int64_t> left = {0, 2, 5};
  std::vector<Call> last;
  for (int64_t b = 1; b < 3; ++b) {
    last.push_back(calls_of({DenseBrain(model, b)}, {(b == 2 ? 2 : 0) + left[static_cast<size_t>(b)]})[0]);
  }
  for (const RoundsHost& host : all_places()) {
    SCOPED_TRACE(text_of(host));
    Brains brains(model, 3, Memory(model));
    brains.run({1, 0, 2}, 2, host);
    const Brains before = brains;
    EXPECT_EQ(brains.run(left, 5, host)[0], 0);
    expect_same(brains.bits_of(0), before.bits_of(0));
    for (int64_t b = 1; b < 3; ++b) {
      const Call& call = last[static_cast<size_t>(b - 1)];
      expect_definition(brains, b, call.after[0], call.before[0]);
      Brains alone = before;
      std::vector<int64_t> only(3);
      only[static_cast<size_t>(b)] = left[static_cast<size_t>(b)];
      alone.run(only, 5, host);
      for (int64_t other = 0; other < 3; ++other) {
        expect_same(alone.bits_of(other), other == b ? brains.bits_of(b) : before.bits_of(other));
      }
    }
  }
}

TEST(RoundsKernels, RoundsOfOneLaunchAreThoseOfSeveral) {
  const Model model = every_kind();
  Brains expected(model, 2, Memory(model));
  for (int64_t b = 0; b < 2; ++b) {
    expected.activate(0, b, some_neurons(model, 0, 30, 1));
    expected.activate(2, b, some_neurons(model, 2, 13, 2));
  }
  const Brains before = expected;
  for (int64_t round = 0; round < 4; ++round) {
    expected.run(1, host_of({}));
  }
  for (const RoundsHost& host : all_places()) {
    SCOPED_TRACE(text_of(host));
    Brains brains = before;
    brains.run(3, host);
    // More rounds may be queued than are left.
    const std::vector<int64_t> progress = brains.run({1, 1}, 2, host);
    EXPECT_EQ(progress[0], 0);
    for (int64_t b = 0; b < 2; ++b) {
      expect_same(brains.bits_of(b), expected.bits_of(b));
    }
  }
}

Model of_one_size() {
  Model model = recurrent();
  model.areas[1] = model.areas[0];
  return model;
}

TEST(RoundsKernels, SmallAreasTakeFewLaunches) {
  constexpr int64_t kRounds = 3;
  // Areas of two sizes whose winners are chosen, and of one.
  for (const auto& [model, selections] : {std::pair(every_kind(), 2), std::pair(of_one_size(), 1)}) {
    for (const bool small : {true, false}) {
      RoundsHost host = host_of({});
      int64_t launches = 0;
      host.small = small;
      host.launches = &launches;
      Brains(model, 2, Memory(model)).run(kRounds, host);
      if (small) {
        EXPECT_EQ(launches, 2 + kRounds * (1 + selections));
      } else {
        EXPECT_GT(launches, 30 * kRounds);
      }
    }
  }
}

TEST(RoundsKernels, SmallIsWhatABlockCanDo) {
  std::vector<Area> areas(SmallRounds::kAreas + 1);
  for (Area& area : areas) {
    area.n = kSmallNeurons;
    area.k = 1;
  }
  Fiber fiber;
  GapTables tables;
  make_gap_tables(0.1, tables);
  fiber.connectome = &tables;
  std::vector<Fiber> fibers(SmallRounds::kFibers + 1, fiber);
  const std::vector<DeviceGapTables> gaps(fibers.size(), DeviceGapTables(tables, &tables));
  const std::vector<Stimulus> stimuli(SmallRounds::kStimuli + 1);
  const auto with = [&](int64_t area_count, int64_t fiber_count, int64_t stimulus_count) {
    RoundsLaunch params;
    params.areas = areas.data();
    params.area_count = area_count;
    params.fibers = fibers.data();
    params.gaps = gaps.data();
    params.fiber_count = fiber_count;
    params.stimuli = stimuli.data();
    params.stimulus_count = stimulus_count;
    return params;
  };
  EXPECT_TRUE(is_small(with(SmallRounds::kAreas, 0, SmallRounds::kStimuli)));
  RoundsLaunch many = with(1, 1, 0);
  many.brains = kSmallBrains;
  EXPECT_TRUE(is_small(many));
  many.brains = kSmallBrains + 1;
  EXPECT_FALSE(is_small(many));
  EXPECT_FALSE(is_small(with(SmallRounds::kAreas + 1, 0, 0)));
  EXPECT_FALSE(is_small(with(1, 0, SmallRounds::kStimuli + 1)));
  EXPECT_TRUE(is_small(with(1, SmallRounds::kFibers, 0)));
  EXPECT_FALSE(is_small(with(1, SmallRounds::kFibers + 1, 0)));
  // A fiber that does not learn draws rows that come and that leave.
  const int64_t most = kSmallDraws / (2 * block_count(gaps[0], kSmallNeurons));
  areas[0].k = most;
  EXPECT_TRUE(is_small(with(1, 1, 0)));
  areas[0].k = most + 1;
  EXPECT_FALSE(is_small(with(1, 1, 0)));
  areas[0].k = most / 2;
  fibers[0].factor = 2;
  EXPECT_TRUE(is_small(with(1, 1, 0)));
  areas[0].k = most / 2 + 1;
  EXPECT_FALSE(is_small(with(1, 1, 0)));
  // A graph of one's own is walked, not drawn.
  fibers[0].connectome = nullptr;
  areas[0].k = kSmallChunks * kEdgesPerChunk / kSmallNeurons;
  EXPECT_TRUE(is_small(with(1, 1, 0)));
  ++areas[0].k;
  EXPECT_FALSE(is_small(with(1, 1, 0)));
  areas[0].k = 1;
  areas[1].n = kSmallNeurons + 1;
  EXPECT_TRUE(is_small(with(1, 1, 0)));
  EXPECT_FALSE(is_small(with(2, 1, 0)));
}

// Brains after every one of some rounds with memory for all there can be.
std::vector<Brains> history(const Model& model, int64_t rounds) {
  std::vector<Brains> brains = {Brains(model, 2, Memory(model))};
  for (int64_t round = 0; round < rounds; ++round) {
    brains.push_back(brains.back());
    brains.back().run(1, host_of({}));
  }
  return brains;
}

// One chunk or slot less than brain 0 needs for a certain round, or just as many. Orders are tried by other tests.
std::vector<std::pair<RoundsHost, int64_t>> hosts_with_little_memory() {
  const std::vector<RoundsHost> hosts = all_hosts();
  return {{hosts.front(), 0}, {hosts.back(), 0}, {hosts.back(), 1}};
}

TEST(RoundsKernels, ABrainStopsBeforeARoundWhoseEdgesDoNotFit) {
  constexpr size_t kRounds = 6;
  const Model model = recurrent();
  const std::vector<Brains> expected = history(model, kRounds);
  const auto chunks = [&](size_t round, size_t f, size_t b) { return expected[round].fibers[f].chunks[b]; };
  auto hosts = hosts_with_little_memory();
  hosts.insert(hosts.end(), {{cpu_host(), 0}, {cpu_host(), 1}});
  for (const auto& [host, spare] : hosts) {
    SCOPED_TRACE(text_of(host));
    for (const size_t lacks : {0, 1, 2}) {
      SCOPED_TRACE("fiber " + std::to_string(lacks) + ", " + std::to_string(spare));
      Memory memory(model);
      const Memory enough = memory;
      memory.chunks[lacks] = chunks(4, lacks, 0) - 1 + spare;
      ASSERT_LT(chunks(3, lacks, 0), chunks(4, lacks, 0));
      Brains brains(model, 2, memory);
      const std::vector<int64_t> progress = brains.run(kRounds, host);
      std::vector<int64_t> left(2);
      brains.grow(enough);
      for (size_t b = 0; b < 2; ++b) {
        SCOPED_TRACE("brain " + std::to_string(b));
        size_t done = 0;
        while (done < kRounds && chunks(done + 1, lacks, b) <= memory.chunks[lacks]) {
          ++done;
        }
        left[b] = progress[b * 4];
        EXPECT_EQ(left[b], static_cast<int64_t>(kRounds - done));
        for (size_t f = 0; f < 3; ++f) {
          EXPECT_EQ(progress[b * 4 + 1 + f], chunks(std::min(done + 1, kRounds), f, b));
        }
        // Slots without wins and counts are caches.
        expect_same(brains.bits_of(static_cast<int64_t>(b)), expected[done].bits_of(static_cast<int64_t>(b)),
                    {"slots", "slot_of", "neuron_of", "won", "counts", "delivered", "delivered_count"});
        for (size_t a = 0; a < 2; ++a) {
          EXPECT_EQ(brains.areas[a].slots[2 * b + 1], expected[done].areas[a].slots[2 * b + 1]);
        }
      }
      brains.run(left, kRounds, host);
      for (int64_t b = 0; b < 2; ++b) {
        expect_same(brains.bits_of(b), expected[kRounds].bits_of(b));
      }
    }
  }
}

TEST(RoundsKernels, ABrainStopsBeforeARoundWhoseSlotsDoNotFit) {
  constexpr size_t kRounds = 5;
  const Model model = recurrent();
  const std::vector<Brains> expected = history(model, kRounds);
  const auto slots = [&](size_t round, size_t a, size_t b) { return expected[round].areas[a].slots[2 * b]; };
  for (const auto& [host, spare] : hosts_with_little_memory()) {
    SCOPED_TRACE(text_of(host));
    for (const size_t lacks : {0, 1}) {
      SCOPED_TRACE("area " + std::to_string(lacks) + ", " + std::to_string(spare));
      Memory memory(model);
      const Memory enough = memory;
      memory.slots[lacks] = slots(3, lacks, 0) - 1 + spare;
      ASSERT_LT(slots(2, lacks, 0), slots(3, lacks, 0));
      Brains brains(model, 2, memory);
      const std::vector<int64_t> progress = brains.run(kRounds, host);
      brains.grow(enough);
      for (size_t b = 0; b < 2; ++b) {
        size_t done = 0;
        while (done < kRounds && slots(done + 1, lacks, b) <= memory.slots[lacks]) {
          ++done;
        }
        EXPECT_EQ(progress[b * 4], static_cast<int64_t>(kRounds - done));
        expect_same(brains.bits_of(static_cast<int64_t>(b)), expected[done].bits_of(static_cast<int64_t>(b)),
                    {"slots", "slot_of", "neuron_of", "won", "counts", "delivered", "delivered_count"});
      }
      brains.run({progress[0], progress[4]}, kRounds, host);
      for (int64_t b = 0; b < 2; ++b) {
        expect_same(brains.bits_of(b), expected[kRounds].bits_of(b));
      }
    }
  }
}

// Winners that a caller set have to get slots before anything fires.
TEST(RoundsKernels, ABrainWhoseWinnersHaveNoSlotsDoesNothing) {
  const Model model = recurrent();
  Memory memory(model);
  memory.slots[0] = 20;
  for (const RoundsHost& host : all_hosts()) {
    SCOPED_TRACE(text_of(host));
    Brains brains(model, 2, memory);
    brains.activate(0, 1, some_neurons(model, 0, 21, 1));
    const Brains before = brains;
    const std::vector<int64_t> progress = brains.run({0, 3}, 3, host);
    EXPECT_EQ(progress, (std::vector<int64_t>{0, 0, 0, 0, 3, 0, 0, 0}));
    for (int64_t b = 0; b < 2; ++b) {
      expect_same(brains.bits_of(b), before.bits_of(b));
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels::assembly_testing
