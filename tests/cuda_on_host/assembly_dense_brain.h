// The model of areas, stimuli and Hebbian fibers on dense matrices: slow, plain, and exact to the last bit. Of the
// kernels' code it uses the definition of the connectome alone, one edge at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/assembly/connectome.h"

namespace torch_hrr::kernels::assembly_testing {

constexpr float kSaturation = 16777216;  // of a weight without a cap
constexpr uint64_t kTieId = 1000;        // that of area a is a more

struct AreaModel {
  int64_t n;
  int64_t k;
  bool fixed = false;
  int64_t bias_step = 0;  // 0: not refracted
  int32_t refractory_period = 0;
  int64_t inhibition = 0;  // penalty right after a win
  bool keyed_ties = false;
};

struct FiberModel {
  int32_t source;
  int32_t target;
  double p;
  float beta = 0.1f;
  float largest = kSaturation;
  bool own_graph = false;
  bool normalised = false;
  bool plastic = true;
  bool every_round = false;  // whether columns are divided by their present sums before every round
};

struct StimulusModel {
  int32_t target;
  int32_t most;  // synapses of a neuron
  float beta = 0.1f;
  float largest = kSaturation;
  bool plastic = true;
};

// What brains are made of; they differ by their index alone.
struct Model {
  std::vector<AreaModel> areas;
  std::vector<FiberModel> fibers;
  std::vector<StimulusModel> stimuli;
  uint64_t seed = 5;
  std::vector<int64_t> numbers;  // of the brains; empty: their places

  const AreaModel& source_of(size_t f) const {
    return areas[static_cast<size_t>(fibers[f].source)];
  }
  const AreaModel& target_of(size_t f) const {
    return areas[static_cast<size_t>(fibers[f].target)];
  }
  const AreaModel& target_of_stimulus(size_t s) const {
    return areas[static_cast<size_t>(stimuli[s].target)];
  }
  // A number of (what, brain, place) alone.
  uint64_t random(uint64_t what, int64_t b, int64_t place) const {
    return mix64(mix64(mix64(seed + what) + static_cast<uint64_t>(b)) + static_cast<uint64_t>(place)) >> 20;
  }
  int32_t stimulus_synapses(size_t s, int64_t b, int64_t j) const {
    return static_cast<int32_t>(random(100 + s, b, j) % static_cast<uint64_t>(stimuli[s].most + 1));
  }
  double scale_of(size_t f, int64_t b, int64_t j) const {
    return static_cast<double>(random(200 + f, b, j) % 1000) / 9000;
  }
  // What names a brain in keys.
  uint64_t number_of(int64_t b) const {
    return static_cast<uint64_t>(numbers.empty() ? b : numbers[static_cast<size_t>(b)]);
  }
  // Of equal inputs the neuron with the lower number wins.
  uint64_t tie_order(size_t a, int64_t b, int64_t j) const {
    if (!areas[a].keyed_ties) {
      return static_cast<uint64_t>(j);
    }
    const uint64_t key = connectome_key(seed, number_of(b), kTieId + a);
    uint64_t mixed = static_cast<uint64_t>(j);
    for (const uint64_t half : {key & 0xffffffff, key >> 32}) {
      mixed ^= half;
      mixed = ((mixed ^ (mixed >> 16)) * 0x7feb352d) & 0xffffffff;
      mixed = ((mixed ^ (mixed >> 15)) * 0x846ca68b) & 0xffffffff;
      mixed ^= mixed >> 16;
    }
    return mixed;
  }
  // [source n, target n], 0 without an edge: the connectome, one edge at a time, or a graph of the user's own. That has
  // edges into every fourth neuron alone: the others get their slots in rounds.
  std::vector<float> base_weights(size_t f, int64_t b) const {
    const FiberModel& fiber = fibers[f];
    const int64_t rows = source_of(f).n;
    const int64_t n = target_of(f).n;
    std::vector<float> weights(static_cast<size_t>(rows * n));
    GapTables tables;
    make_gap_tables(fiber.p, tables);
    const PhiloxKey key = philox_key(connectome_key(seed, number_of(b), f));
    for (int64_t i = 0; i < rows; ++i) {
      float* const row = weights.data() + i * n;
      if (fiber.own_graph) {
        for (int64_t j = 0; j < n; ++j) {
          const uint64_t draw = random(300 + f, b, i * n + j);
          const bool edge = j % 4 == 0 && static_cast<double>(draw % 4096) < fiber.p * 4096;
          row[j] = edge ? static_cast<float>(1 + (draw >> 12) % 999) / 300 : 0;
        }
      } else if (tables.empty == 0) {
        for (int64_t block = 0; block < block_count(tables, n); ++block) {
          const int64_t first = block * tables.width;
          for_each_edge(tables, key, static_cast<uint32_t>(i), static_cast<uint32_t>(block),
                        static_cast<int32_t>(std::min(tables.width, n - first)),
                        [&](int32_t column) { row[first + column] = 1; });
        }
      }
    }
    return weights;
  }
};

// One brain.
class DenseBrain {
 public:
  struct Area {
    std::vector<int64_t> winners;  // ascending
    std::vector<uint8_t> won;      // [n] ever
    std::vector<int64_t> wins;     // [n]
    std::vector<int64_t> age;      // [n] rounds since the last win
  };

  DenseBrain(const Model& made_of, int64_t brain) : model(made_of), index(brain) {
    for (const AreaModel& area : model.areas) {
      const auto n = static_cast<size_t>(area.n);
      areas.push_back(
          {{}, std::vector<uint8_t>(n), std::vector<int64_t>(n), std::vector<int64_t>(n, area.refractory_period)});
    }
    for (size_t f = 0; f < model.fibers.size(); ++f) {
      base.push_back(model.base_weights(f, index));
    }
    weights = base;
    for (size_t s = 0; s < model.stimuli.size(); ++s) {
      sums.emplace_back();
      for (int64_t j = 0; j < model.target_of_stimulus(s).n; ++j) {
        sums[s].push_back(static_cast<float>(model.stimulus_synapses(s, index, j)));
      }
    }
  }

  void rounds(int64_t count) {
    for (int64_t round = 0; round < count; ++round) {
      this->round();
    }
  }

  void round() {
    std::vector<std::vector<int64_t>> selected(areas.size());
    for (size_t a = 0; a < areas.size(); ++a) {
      if (is_target(a)) {
        selected[a] = model.areas[a].fixed ? areas[a].winners : largest_of(a);
      }
    }
    // All winners are those of the round before until here and in the plasticity.
    for (size_t a = 0; a < areas.size(); ++a) {
      learn(static_cast<int32_t>(a), selected[a]);
    }
    for (size_t a = 0; a < areas.size(); ++a) {
      if (!is_target(a)) {
        continue;
      }
      for (int64_t& age : areas[a].age) {
        ++age;
      }
      if (model.areas[a].fixed) {
        continue;
      }
      areas[a].winners = selected[a];
      for (const int64_t winner : selected[a]) {
        const auto j = static_cast<size_t>(winner);
        areas[a].won[j] = 1;
        ++areas[a].wins[j];
        areas[a].age[j] = 0;
      }
    }
  }

  bool is_target(size_t a) const {
    const auto fires_into = [&](const auto& from) { return from.target == static_cast<int32_t>(a); };
    return std::any_of(model.fibers.begin(), model.fibers.end(), fires_into) ||
           std::any_of(model.stimuli.begin(), model.stimuli.end(), fires_into);
  }

  // At most 2^61.
  int64_t bias_of(size_t a, size_t j) const {
    constexpr int64_t kLargest = int64_t{1} << 61;
    const int64_t step = model.areas[a].bias_step;
    return step > 0 && areas[a].wins[j] > kLargest / step ? kLargest : areas[a].wins[j] * step;
  }

  // Of weights [source n, n], in units of 2^-24.
  static int64_t column_sum(const std::vector<float>& weights, size_t n, size_t j) {
    int64_t sum = 0;
    for (size_t place = j; place < weights.size(); place += n) {
      sum += fixed(weights[place]);
    }
    return sum;
  }
  static double scale_of_sum(int64_t sum) {
    return sum > 0 ? 1 / (static_cast<double>(sum) / 16777216) : 0;
  }

  Model model;  // of which rates and what is fixed may change between rounds
  int64_t index;
  std::vector<Area> areas;
  std::vector<std::vector<float>> base;     // by fiber: [source n, target n]
  std::vector<std::vector<float>> weights;  // 0 without an edge
  std::vector<std::vector<float>> sums;     // by stimulus: [target n]

 private:
  static int64_t fixed(float weight) {
    return std::llrint(static_cast<double>(weight) * 16777216.0);
  }
  // Of a term of the input, in units of 2^-24 or 2^-40: at most 2^59.
  static int64_t term(int64_t sum, bool fine) {
    const int64_t unit = fine ? 65536 : 1;
    return std::min(sum, (int64_t{1} << 59) / unit) * unit;
  }

  std::vector<int64_t> inputs(size_t a) const {
    const AreaModel& area = model.areas[a];
    std::vector<int64_t> x(static_cast<size_t>(area.n));
    bool fine = false;
    for (const FiberModel& fiber : model.fibers) {
      fine = fine || (fiber.target == static_cast<int32_t>(a) && (fiber.normalised || fiber.every_round));
    }
    for (size_t f = 0; f < model.fibers.size(); ++f) {
      for (size_t j = 0; model.fibers[f].target == static_cast<int32_t>(a) && j < x.size(); ++j) {
        int64_t sum = 0;
        for (const int64_t i : areas[static_cast<size_t>(model.fibers[f].source)].winners) {
          sum += fixed(weights[f][static_cast<size_t>(i) * x.size() + j]);
        }
        if (model.fibers[f].normalised || model.fibers[f].every_round) {
          const double scale = model.fibers[f].every_round ? scale_of_sum(column_sum(weights[f], x.size(), j))
                                                           : model.scale_of(f, index, static_cast<int64_t>(j));
          x[j] += std::llrint(std::min(static_cast<double>(sum) * scale * 65536, 0x1p59));
        } else {
          x[j] += term(sum, fine);
        }
      }
    }
    for (size_t s = 0; s < model.stimuli.size(); ++s) {
      for (size_t j = 0; model.stimuli[s].target == static_cast<int32_t>(a) && j < x.size(); ++j) {
        x[j] += term(fixed(sums[s][j]), fine);
      }
    }
    for (size_t j = 0; j < x.size(); ++j) {
      x[j] -= term(bias_of(a, j), fine);
      if (areas[a].age[j] < area.refractory_period) {
        const int64_t left = area.refractory_period - areas[a].age[j];
        x[j] -= term(area.inhibition * left / area.refractory_period, fine);
      }
    }
    return x;
  }

  std::vector<int64_t> largest_of(size_t a) const {
    const std::vector<int64_t> x = inputs(a);
    std::vector<int64_t> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const int64_t own = x[static_cast<size_t>(i)];
      const int64_t other = x[static_cast<size_t>(j)];
      return own != other ? own > other : model.tie_order(a, index, i) < model.tie_order(a, index, j);
    });
    order.resize(static_cast<size_t>(model.areas[a].k));
    std::sort(order.begin(), order.end());
    return order;
  }

  void learn(int32_t target, const std::vector<int64_t>& selected) {
    for (size_t f = 0; f < model.fibers.size(); ++f) {
      const FiberModel& fiber = model.fibers[f];
      if (fiber.target != target || !fiber.plastic || fiber.beta == 0) {
        continue;
      }
      for (const int64_t i : areas[static_cast<size_t>(fiber.source)].winners) {
        for (const int64_t j : selected) {
          float& weight = weights[f][static_cast<size_t>(i * model.target_of(f).n + j)];
          weight = weight == 0 ? 0 : std::min(weight * (1 + fiber.beta), fiber.largest);
        }
      }
    }
    for (size_t s = 0; s < model.stimuli.size(); ++s) {
      const StimulusModel& stimulus = model.stimuli[s];
      for (const int64_t j : selected) {
        if (stimulus.target == target && stimulus.plastic) {
          // The cap is of a synapse, and never takes away what the stimulus has.
          const auto count = static_cast<float>(model.stimulus_synapses(s, index, j));
          const float cap = std::max(count, std::min(count * stimulus.largest, kSaturation));
          float& sum = sums[s][static_cast<size_t>(j)];
          sum = std::min(sum * (1 + stimulus.beta), cap);
        }
      }
    }
  }
};

}  // namespace torch_hrr::kernels::assembly_testing
