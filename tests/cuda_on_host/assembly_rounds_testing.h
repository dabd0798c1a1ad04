// Brains for the tests of rounds, the devices that run them, and the comparison with the dense model.
#pragma once

#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_on_host/assembly_brain.h"
#include "tests/cuda_on_host/assembly_dense_brain.h"
#include "tests/cuda_on_host/sanitizers.h"

namespace torch_hrr::kernels::assembly_testing {

// The edges of one brain's fiber as its table holds them: -1 where it has none.
inline std::vector<float> table_of(const Brains& brains, size_t f, int64_t b) {
  const FiberModel& made = brains.model.fibers[f];
  const int64_t n = brains.model.target_of(f).n;
  const int64_t capacity = brains.memory.slots[static_cast<size_t>(made.source)];
  const int64_t into_capacity = brains.memory.slots[static_cast<size_t>(made.target)];
  const AreaArrays& source = brains.areas[static_cast<size_t>(made.source)];
  const AreaArrays& target = brains.areas[static_cast<size_t>(made.target)];
  const FiberArrays& fiber = brains.fibers[f];
  std::vector<float> found(static_cast<size_t>(brains.model.source_of(f).n * n), -1);
  int64_t chunks = 0;
  for (int64_t s = 0; s < source.slots[static_cast<size_t>(2 * b)]; ++s) {
    const auto row = static_cast<size_t>(b * capacity + s);
    int64_t left = fiber.length[row];
    for (int32_t chunk = fiber.head[row]; chunk >= 0;) {
      ++chunks;
      const int64_t filled = left % kEdgesPerChunk != 0 ? left % kEdgesPerChunk : kEdgesPerChunk;
      left -= filled;
      for (int64_t e = 0; e < filled; ++e) {
        const auto edge = static_cast<size_t>((b * brains.memory.chunks[f] + chunk) * kEdgesPerChunk + e);
        const int32_t slot = fiber.target[edge];
        EXPECT_TRUE(slot >= 0 && slot < target.slots[static_cast<size_t>(2 * b)]) << "slot " << slot;
        const int64_t column = target.neuron_of[static_cast<size_t>(b * into_capacity + slot)];
        float& weight = found[static_cast<size_t>(source.neuron_of[row] * n + column)];
        EXPECT_EQ(weight, -1) << "twice: " << source.neuron_of[row] << " " << column;
        weight = fiber.weight[edge];
      }
      chunk = fiber.next[static_cast<size_t>(b * brains.memory.chunks[f] + chunk)];
    }
    EXPECT_EQ(left, 0);
  }
  EXPECT_EQ(chunks, fiber.chunks[static_cast<size_t>(b)]);
  return found;
}

inline void expect_area(const Brains& brains, size_t a, int64_t b, const DenseBrain& dense) {
  SCOPED_TRACE("area " + std::to_string(a));
  const AreaModel& made = brains.model.areas[a];
  const AreaArrays& area = brains.areas[a];
  const auto at = static_cast<size_t>(b);
  const auto own = area.winners.begin() + b * made.k;
  EXPECT_EQ(std::vector<int64_t>(own, own + area.winner_count[at]), dense.areas[a].winners);
  const std::vector<uint8_t>& won = dense.areas[a].won;
  EXPECT_EQ(area.slots[2 * at + 1], std::count(won.begin(), won.end(), 1));
  int64_t with_slot = 0;
  int64_t wrong = 0;
  for (int64_t j = 0; j < made.n; ++j) {
    const auto neuron = static_cast<size_t>(b * made.n + j);
    const int32_t slot = area.slot_of[neuron];
    const auto place = static_cast<size_t>(b * brains.memory.slots[a] + slot);
    const uint8_t expected = won[static_cast<size_t>(j)];
    with_slot += slot >= 0 ? 1 : 0;
    wrong += slot < 0 ? expected : area.neuron_of[place] != j || area.won[place] != expected;
    if (made.bias_step != 0) {
      wrong += area.bias[neuron] != dense.bias_of(a, static_cast<size_t>(j));
    }
    if (made.refractory_period != 0) {
      const int64_t age = dense.areas[a].age[static_cast<size_t>(j)];
      wrong += area.last_win[neuron] != std::min<int64_t>(age, made.refractory_period);
    }
  }
  EXPECT_EQ(wrong, 0) << "neurons";
  EXPECT_EQ(with_slot, area.slots[2 * at]);
}

inline void expect_fiber(const Brains& brains, size_t f, int64_t b, const DenseBrain& dense, const DenseBrain& before) {
  SCOPED_TRACE("fiber " + std::to_string(f));
  const FiberModel& made = brains.model.fibers[f];
  const FiberArrays& fiber = brains.fibers[f];
  const int64_t rows = brains.model.source_of(f).n;
  const int64_t n = brains.model.target_of(f).n;
  const auto source = static_cast<size_t>(made.source);
  const auto target = static_cast<size_t>(made.target);
  const std::vector<float> found = table_of(brains, f, b);
  int64_t wrong = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const int32_t row = brains.areas[source].slot_of[static_cast<size_t>(b * rows + i)];
    const int32_t known = row < 0 ? 0 : fiber.known[static_cast<size_t>(b * brains.memory.slots[source] + row)];
    for (int64_t j = 0; j < n; ++j) {
      const auto edge = static_cast<size_t>(i * n + j);
      const int32_t slot = brains.areas[target].slot_of[static_cast<size_t>(b * n + j)];
      const bool listed = dense.base[f][edge] != 0 && (made.own_graph || (slot >= 0 && slot < known));
      wrong += listed ? found[edge] != dense.weights[f][edge]
                      : found[edge] != -1 || dense.weights[f][edge] != dense.base[f][edge];
    }
  }
  EXPECT_EQ(wrong, 0) << "edges";
  if (made.own_graph) {
    return;
  }
  for (const int64_t i : before.areas[source].winners) {
    const auto row = static_cast<size_t>(brains.areas[source].slot_of[static_cast<size_t>(b * rows + i)]);
    if (made.plastic && made.beta != 0) {
      EXPECT_EQ(fiber.known[static_cast<size_t>(b * brains.memory.slots[source]) + row],
                brains.areas[target].slots[static_cast<size_t>(2 * b)]);
    }
  }
  if (brains.model.areas[target].fixed) {
    EXPECT_EQ(fiber.delivered_count[static_cast<size_t>(b)], -1);
    return;
  }
  const auto delivered = fiber.delivered.begin() + b * brains.model.areas[source].k;
  EXPECT_EQ(std::vector<int64_t>(delivered, delivered + fiber.delivered_count[static_cast<size_t>(b)]),
            before.areas[source].winners);
  for (int64_t j = 0; j < n; ++j) {
    int32_t count = 0;
    for (const int64_t i : before.areas[source].winners) {
      count += dense.base[f][static_cast<size_t>(i * n + j)] != 0 ? 1 : 0;
    }
    wrong += fiber.counts[static_cast<size_t>(b * n + j)] != count;
  }
  EXPECT_EQ(wrong, 0) << "counts";
}

// Brain b is `dense`, `before` which it was in front of its last round.
inline void expect_definition(const Brains& brains, int64_t b, const DenseBrain& dense, const DenseBrain& before) {
  SCOPED_TRACE("brain " + std::to_string(b));
  for (size_t a = 0; a < brains.areas.size(); ++a) {
    expect_area(brains, a, b, dense);
  }
  for (size_t f = 0; f < brains.fibers.size(); ++f) {
    expect_fiber(brains, f, b, dense, before);
  }
  for (size_t s = 0; s < brains.stimuli.size(); ++s) {
    const auto target = static_cast<size_t>(brains.model.stimuli[s].target);
    const int64_t n = brains.model.areas[target].n;
    int64_t wrong = 0;
    for (int64_t j = 0; j < n; ++j) {
      const int32_t slot = brains.areas[target].slot_of[static_cast<size_t>(b * n + j)];
      const auto place = static_cast<size_t>(b * brains.memory.slots[target] + slot);
      const float weight = slot < 0 ? 0 : brains.stimuli[s].weight[place];
      const auto count = static_cast<float>(brains.stimuli[s].counts[static_cast<size_t>(b * n + j)]);
      wrong += (weight != 0 ? weight : count) != dense.sums[s][static_cast<size_t>(j)];
    }
    EXPECT_EQ(wrong, 0) << "synapses of stimulus " << s;
  }
}

using Bits = std::map<std::string, std::vector<unsigned char>>;

inline void expect_same(const Bits& bits, const Bits& expected, const std::vector<std::string>& but = {}) {
  ASSERT_EQ(bits.size(), expected.size());
  for (const auto& [name, bytes] : expected) {
    const auto begins = [&name = name](const std::string& prefix) { return name.rfind(prefix + " of ", 0) == 0; };
    EXPECT_TRUE(std::any_of(but.begin(), but.end(), begins) || bits.at(name) == bytes) << name;
  }
}

inline RoundsHost host_of(const Schedule& schedule, unsigned threads = 64) {
  RoundsHost host;
  host.schedule = schedule;
  host.threads = threads;
  return host;
}

// All schedules, blocks as on the device, and one block for everything; each the short way of small areas, and launch
// by launch.
inline std::vector<RoundsHost> all_hosts() {
  std::vector<RoundsHost> hosts;
  // Races show in any order: other builds try the orders.
  if (!cuda_on_host::kFindsRaces) {
    for (const Schedule& schedule : all_schedules(1)) {
      hosts.push_back(host_of(schedule));
    }
  }
  hosts.push_back(host_of({Schedule::Order::kShuffled, 2}, cuda_on_host::kFindsRaces ? 128 : 1024));
  hosts.push_back(host_of({Schedule::Order::kShuffled, 3}, 32));
  hosts.back().most_x = 1;
  hosts.back().most_y = 1;
  for (size_t h = hosts.size(); h > 0; --h) {
    hosts.push_back(hosts[h - 1]);
    hosts.back().small = false;
  }
  return hosts;
}

inline RoundsHost cpu_host() {
  RoundsHost host;
  host.on_cpu = true;
  return host;
}

// The hosts of kernels, and the CPU's engine.
inline std::vector<RoundsHost> all_places() {
  std::vector<RoundsHost> places = all_hosts();
  places.push_back(cpu_host());
  return places;
}

inline std::string text_of(const RoundsHost& host) {
  if (host.on_cpu) {
    return "the CPU's engine";
  }
  std::ostringstream text;
  text << host.schedule << ", " << host.threads << " threads, at most " << host.most_x << " blocks"
       << (host.small ? ", the short way" : ", launch by launch");
  return text.str();
}

inline std::vector<int64_t> some_neurons(const Model& model, size_t a, int64_t count, uint64_t what) {
  std::vector<int64_t> order(static_cast<size_t>(model.areas[a].n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return std::pair(model.random(what, 0, i), i) < std::pair(model.random(what, 0, j), j);
  });
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

// Winners that tests set, refracted winners, fixed winners and plain ones, with every kind of fiber between them.
inline Model every_kind() {
  Model model;
  model.areas = {
      {150, 37}, {333, 41, false, 3 * kFixedOne / 2, 5, 5 * kFixedOne}, {90, 20, true, 0, 3, kFixedOne}, {260, 33}};
  model.fibers = {{0, 1, 0.3, 0.2f},
                  {1, 1, 0.3, 0.1f, 1.3f},
                  {2, 1, 0.5, 0.1f, 3, true, true},
                  {0, 2, 0.5, 0.3f},
                  {1, 3, 0.05, 0.3f, kLargestWeight, false, false, false},
                  {3, 3, 0.4, 0.4f},
                  {2, 3, 0.4, 0.2f, kLargestWeight, true},
                  {3, 1, 0},
                  {0, 1, 0.1, 0.5f, kLargestWeight, false, true},
                  {2, 2, 1, 0}};
  model.stimuli = {{1, 9, 0.25f, 2}, {2, 5, 3e7f}, {3, 12}, {3, 4, 0.5f, 8, false}, {1, 3, 0.5f, 0.5f}};
  return model;
}

// Two areas that excite each other and themselves.
inline Model recurrent() {
  Model model;
  model.areas = {{200, 37}, {180, 35}};
  model.fibers = {{0, 0, 0.3, 0.3f}, {0, 1, 0.2, 0.3f}, {1, 0, 0.5, 0.3f}};
  model.stimuli = {{0, 6}, {1, 6}};
  return model;
}

}  // namespace torch_hrr::kernels::assembly_testing
