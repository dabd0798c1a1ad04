// Batches of brains on the host: arrays of exactly the sizes that the kernels of rounds expect, and their launch.
#pragma once

#include "tests/cuda_on_host/shim.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/assembly/brain.h"
#include "kernels/assembly/rounds.h"
#include "tests/cuda_on_host/assembly_dense_brain.h"
#include "tests/cuda_on_host/rounds_host.h"

namespace torch_hrr::kernels::assembly_testing {

using cuda_on_host::all_schedules;
using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;
using cuda_on_host::Schedule;

// Slots of every area and chunks of every fiber that there is memory for.
struct Memory {
  std::vector<int64_t> slots;
  std::vector<int64_t> chunks;

  // For all there can be.
  explicit Memory(const Model& model) {
    for (const AreaModel& area : model.areas) {
      slots.push_back(area.n);
    }
    for (size_t f = 0; f < model.fibers.size(); ++f) {
      chunks.push_back(model.source_of(f).n * chunks_of(model.target_of(f).n));
    }
  }
};

struct AreaArrays {
  std::vector<int64_t> winners, winner_count, slots, bias, penalties;
  std::vector<int32_t> slot_of, neuron_of, last_win;
  std::vector<uint8_t> won;
};
struct FiberArrays {
  std::vector<GapTables> tables;  // one, as csrc uploads it
  std::vector<int32_t> counts, head, length, next, target, known;
  std::vector<int64_t> delivered, delivered_count, chunks;
  std::vector<float> weight;
  std::vector<double> scale;
  std::vector<int64_t> sums;
};
struct StimulusArrays {
  std::vector<int32_t> counts;
  std::vector<float> weight;
};

class Brains {
 public:
  Brains(const Model& made_of, int64_t brains, const Memory& has) : model(made_of), count(brains), memory(made_of) {
    memory.slots.assign(model.areas.size(), 0);
    memory.chunks.assign(model.fibers.size(), 0);
    areas.resize(model.areas.size());
    fibers.resize(model.fibers.size());
    stimuli.resize(model.stimuli.size());
    for (size_t a = 0; a < areas.size(); ++a) {
      make_area(model.areas[a], areas[a]);
    }
    for (size_t f = 0; f < fibers.size(); ++f) {
      fibers[f].tables.resize(1);
      make_gap_tables(model.fibers[f].p, fibers[f].tables[0]);
      fibers[f].counts = poisoned<int32_t>(size(model.fibers[f].own_graph ? 0 : model.target_of(f).n));
      fibers[f].delivered = poisoned<int64_t>(size(model.source_of(f).k));
      fibers[f].delivered_count.assign(size(1), -1);
      fibers[f].chunks.assign(size(1), 0);
    }
    for (size_t s = 0; s < stimuli.size(); ++s) {
      for (int64_t b = 0; b < count; ++b) {
        for (int64_t j = 0; j < model.target_of_stimulus(s).n; ++j) {
          stimuli[s].counts.push_back(model.stimulus_synapses(s, b, j));
        }
      }
    }
    grow(has);
    for (size_t f = 0; f < fibers.size(); ++f) {
      for (int64_t b = 0; b < count; ++b) {
        for (int64_t j = 0; model.fibers[f].normalised && j < model.target_of(f).n; ++j) {
          fibers[f].scale.push_back(model.scale_of(f, b, j));
        }
        if (model.fibers[f].every_round) {
          const std::vector<float> weights = model.base_weights(f, b);
          const auto n = static_cast<size_t>(model.target_of(f).n);
          for (size_t j = 0; j < n; ++j) {
            fibers[f].sums.push_back(DenseBrain::column_sum(weights, n, j));
            fibers[f].scale.push_back(DenseBrain::scale_of_sum(fibers[f].sums.back()));
          }
        }
        if (model.fibers[f].own_graph) {
          file_own_graph(f, b);
        }
      }
    }
  }

  // Makes slots and chunks that many; what is there stays.
  void grow(const Memory& has) {
    for (size_t a = 0; a < areas.size(); ++a) {
      areas[a].neuron_of = grown(areas[a].neuron_of, memory.slots[a], has.slots[a], -1);
      areas[a].won = grown(areas[a].won, memory.slots[a], has.slots[a], uint8_t{0xff});
    }
    for (size_t f = 0; f < fibers.size(); ++f) {
      const auto source = static_cast<size_t>(model.fibers[f].source);
      FiberArrays& fiber = fibers[f];
      fiber.head = grown(fiber.head, memory.slots[source], has.slots[source], -1);
      fiber.length = grown(fiber.length, memory.slots[source], has.slots[source], 0);
      fiber.known = grown(fiber.known, memory.slots[source], has.slots[source], 0);
      fiber.next = grown(fiber.next, memory.chunks[f], has.chunks[f], -7);
      fiber.target = grown(fiber.target, memory.chunks[f] * kEdgesPerChunk, has.chunks[f] * kEdgesPerChunk, -7);
      fiber.weight = grown(fiber.weight, memory.chunks[f] * kEdgesPerChunk, has.chunks[f] * kEdgesPerChunk, -7.0f);
    }
    for (size_t s = 0; s < stimuli.size(); ++s) {
      const auto target = static_cast<size_t>(model.stimuli[s].target);
      stimuli[s].weight = grown(stimuli[s].weight, memory.slots[target], has.slots[target], 0.0f);
    }
    memory = has;
  }

  // Sets the winners, ascending, of an area of one brain.
  void activate(size_t a, int64_t b, const std::vector<int64_t>& winners) {
    std::copy(winners.begin(), winners.end(), areas[a].winners.begin() + b * model.areas[a].k);
    areas[a].winner_count[static_cast<size_t>(b)] = static_cast<int64_t>(winners.size());
  }

  // Queues `rounds` for brains with `left` rounds each; returns their progress.
  std::vector<int64_t> run(const std::vector<int64_t>& left, int64_t rounds, const RoundsHost& host) {
    const size_t fields = 1 + fibers.size();
    auto progress = poisoned<int64_t>(size(static_cast<int64_t>(fields)));
    for (size_t b = 0; b < left.size(); ++b) {
      progress[b * fields] = left[b];
    }
    const std::vector<Area> all_areas = area_pointers();
    const std::vector<Fiber> all_fibers = fiber_pointers();
    const std::vector<Stimulus> all_stimuli = stimulus_pointers();
    if (host.on_cpu) {
      const Brain first{all_areas, all_fibers, all_stimuli};
      for (size_t b = 0; b < size(1); ++b) {
        Brain brain = first.of_brain(static_cast<int64_t>(b));
        int64_t* const own = progress.data() + b * fields;
        *own -= run_rounds(brain, std::min(rounds, *own), host.parallel, own + 1);
      }
      return progress;
    }
    std::vector<DeviceGapTables> gaps;
    for (size_t f = 0; f < fibers.size(); ++f) {
      gaps.push_back(model.fibers[f].own_graph ? DeviceGapTables()
                                               : DeviceGapTables(fibers[f].tables[0], fibers[f].tables.data()));
    }
    RoundsLaunch params;
    params.brains = count;
    params.rounds = rounds;
    params.areas = all_areas.data();
    params.area_count = static_cast<int64_t>(areas.size());
    params.fibers = all_fibers.data();
    params.gaps = gaps.data();
    params.fiber_count = static_cast<int64_t>(fibers.size());
    params.stimuli = all_stimuli.data();
    params.stimulus_count = static_cast<int64_t>(stimuli.size());
    params.progress = progress.data();
    const int64_t bytes = RoundsLauncher<RoundsHost>(params, nullptr, host).bytes();
    const auto units = static_cast<size_t>((bytes + 15) / 16);
    if (workspace_.size() != units) {
      workspace_ = poisoned<WorkspaceUnit>(units);
    }
    RoundsLauncher<RoundsHost>(params, workspace_.data(), host).run();
    return progress;
  }
  std::vector<int64_t> run(int64_t rounds, const RoundsHost& host) {
    return run(std::vector<int64_t>(size(1), rounds), rounds, host);
  }

  // All bits of one brain, by array.
  std::map<std::string, std::vector<unsigned char>> bits_of(int64_t b) const {
    std::map<std::string, std::vector<unsigned char>> bits;
    const auto add = [&](const std::string& name, const auto& array) {
      const size_t own = array.size() * sizeof(array[0]) / size(1);
      std::vector<unsigned char>& bytes = bits[name];
      bytes.resize(own);
      if (own > 0) {
        std::memcpy(bytes.data(), reinterpret_cast<const unsigned char*>(array.data()) + static_cast<size_t>(b) * own,
                    own);
      }
    };
    for (size_t a = 0; a < areas.size(); ++a) {
      const std::string of = " of area " + std::to_string(a);
      const AreaArrays& area = areas[a];
      add("winners" + of, area.winners);
      add("winner_count" + of, area.winner_count);
      add("slots" + of, area.slots);
      add("bias" + of, area.bias);
      add("slot_of" + of, area.slot_of);
      add("neuron_of" + of, area.neuron_of);
      add("last_win" + of, area.last_win);
      add("won" + of, area.won);
    }
    for (size_t f = 0; f < fibers.size(); ++f) {
      const std::string of = " of fiber " + std::to_string(f);
      const FiberArrays& fiber = fibers[f];
      add("counts" + of, fiber.counts);
      add("delivered" + of, fiber.delivered);
      add("delivered_count" + of, fiber.delivered_count);
      add("head" + of, fiber.head);
      add("length" + of, fiber.length);
      add("next" + of, fiber.next);
      add("target" + of, fiber.target);
      add("weight" + of, fiber.weight);
      add("known" + of, fiber.known);
      add("chunks" + of, fiber.chunks);
    }
    for (size_t s = 0; s < stimuli.size(); ++s) {
      add("weight of stimulus " + std::to_string(s), stimuli[s].weight);
    }
    return bits;
  }

  Model model;
  int64_t count;
  Memory memory;
  std::vector<AreaArrays> areas;
  std::vector<FiberArrays> fibers;
  std::vector<StimulusArrays> stimuli;

 private:
  // From the second launch on it holds what the one before left there.
  std::vector<WorkspaceUnit> workspace_;

  size_t size(int64_t per_brain) const {
    return static_cast<size_t>(count * per_brain);
  }

  void make_area(const AreaModel& area, AreaArrays& arrays) const {
    arrays.winners = poisoned<int64_t>(size(area.k));
    arrays.winner_count.assign(size(1), 0);
    arrays.slots.assign(size(2), 0);
    arrays.slot_of.assign(size(area.n), -1);
    arrays.bias.assign(size(area.bias_step != 0 ? area.n : 0), 0);
    arrays.last_win.assign(size(area.refractory_period != 0 ? area.n : 0), area.refractory_period);
    for (int32_t age = 0; age < area.refractory_period; ++age) {
      arrays.penalties.push_back(area.inhibition * (area.refractory_period - age) / area.refractory_period);
    }
  }

  template <typename T>
  std::vector<T> grown(const std::vector<T>& old, int64_t before, int64_t after, T fill) const {
    std::vector<T> array(size(after), fill);
    for (int64_t b = 0; b < count; ++b) {
      std::copy(old.begin() + b * before, old.begin() + (b + 1) * before, array.begin() + b * after);
    }
    return array;
  }

  // As a graph that is connected by hand: its neurons have slots from the start, the rows' chunks follow one another.
  void file_own_graph(size_t f, int64_t b);
  std::vector<Area> area_pointers();
  std::vector<Fiber> fiber_pointers();
  std::vector<Stimulus> stimulus_pointers();
};

inline void Brains::file_own_graph(size_t f, int64_t b) {
  const std::vector<float> weights = model.base_weights(f, b);
  const int64_t n = model.target_of(f).n;
  const std::vector<Area> all = area_pointers();
  const auto slot_of = [&](int32_t a, int64_t neuron) {
    const Area area = all[static_cast<size_t>(a)].of_brain(b);
    if (area.slot_of[neuron] < 0) {
      const auto slot = static_cast<int32_t>(area.slots[0]++);
      area.slot_of[neuron] = slot;
      area.neuron_of[slot] = static_cast<int32_t>(neuron);
      area.won[slot] = 0;
    }
    return area.slot_of[neuron];
  };
  const FiberModel& fiber = model.fibers[f];
  const Fiber own =
      fiber_pointers()[f].of_brain(b, all[static_cast<size_t>(fiber.source)], all[static_cast<size_t>(fiber.target)]);
  for (int64_t edge = 0; edge < static_cast<int64_t>(weights.size()); ++edge) {
    if (weights[static_cast<size_t>(edge)] == 0) {
      continue;
    }
    const int32_t row = slot_of(fiber.source, edge / n);
    const int32_t place = own.edges.length[row]++ % kEdgesPerChunk;
    if (place == 0) {
      own.edges.next[*own.chunks] = own.edges.head[row];
      own.edges.head[row] = static_cast<int32_t>((*own.chunks)++);
    }
    const int64_t at = static_cast<int64_t>(own.edges.head[row]) * kEdgesPerChunk + place;
    own.edges.target[at] = slot_of(fiber.target, edge % n);
    own.edges.weight[at] = weights[static_cast<size_t>(edge)];
  }
}

inline std::vector<Area> Brains::area_pointers() {
  const auto or_null = [](auto& array) { return array.empty() ? nullptr : array.data(); };
  std::vector<Area> all;
  for (size_t a = 0; a < areas.size(); ++a) {
    const AreaModel& made = model.areas[a];
    AreaArrays& arrays = areas[a];
    all.push_back({made.n, made.k, made.fixed, arrays.winners.data(), arrays.winner_count.data(), arrays.slot_of.data(),
                   arrays.neuron_of.data(), arrays.won.data(), arrays.slots.data(), memory.slots[a],
                   or_null(arrays.bias), made.bias_step, or_null(arrays.last_win), made.refractory_period,
                   arrays.penalties.data(), made.keyed_ties, mix64(model.seed), kTieId + a, or_null(model.numbers)});
  }
  return all;
}

inline std::vector<Fiber> Brains::fiber_pointers() {
  std::vector<Fiber> all;
  for (size_t f = 0; f < fibers.size(); ++f) {
    const FiberModel& made = model.fibers[f];
    FiberArrays& arrays = fibers[f];
    Fiber fiber;
    fiber.source = made.source;
    fiber.target = made.target;
    fiber.plastic = made.plastic;
    fiber.factor = 1 + made.beta;
    fiber.largest = made.largest;
    fiber.connectome = made.own_graph ? nullptr : arrays.tables.data();
    fiber.key_root = mix64(model.seed);
    fiber.id = f;
    fiber.numbers = model.numbers.empty() ? nullptr : model.numbers.data();
    fiber.counts = arrays.counts.data();
    fiber.delivered = arrays.delivered.data();
    fiber.delivered_count = arrays.delivered_count.data();
    fiber.edges = {arrays.head.data(), arrays.length.data(), arrays.next.data(), arrays.target.data(),
                   arrays.weight.data()};
    fiber.known = arrays.known.data();
    fiber.chunks = arrays.chunks.data();
    fiber.chunk_capacity = memory.chunks[f];
    fiber.scale = arrays.scale.empty() ? nullptr : arrays.scale.data();
    fiber.sums = arrays.sums.empty() ? nullptr : arrays.sums.data();
    all.push_back(fiber);
  }
  return all;
}

inline std::vector<Stimulus> Brains::stimulus_pointers() {
  std::vector<Stimulus> all;
  for (size_t s = 0; s < stimuli.size(); ++s) {
    const StimulusModel& made = model.stimuli[s];
    all.push_back(
        {made.target, made.plastic, 1 + made.beta, made.largest, stimuli[s].counts.data(), stimuli[s].weight.data()});
  }
  return all;
}

}  // namespace torch_hrr::kernels::assembly_testing
