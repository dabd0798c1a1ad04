// One synchronous round after the other: sums, selection, potentiation, commit.
#include "kernels/assembly/rounds.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kernels/assembly/area_selection.h"
#include "kernels/assembly/edge_search.h"
#include "kernels/assembly/kept_rows.h"
#include "kernels/assembly/projection.h"
#include "kernels/assembly/round_script.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
namespace {

class Rounds {
 public:
  Rounds(Brain& brain, ParallelFor parallel, int64_t* needed)
      : brain_(brain),
        needed_(needed),
        kept_(kept_rows(brain)),
        selection_(brain, kept_, parallel),
        search_(brain, kept_, parallel),
        pairs_(brain.fibers.size()) {
    brain.firing.assign(brain.areas.size(), {});
    listed_.resize(brain.areas.size());
    for (const Area& area : brain.areas) {
      checked_.emplace_back(static_cast<size_t>(area.capacity));
    }
    for (int32_t a = 0; a < static_cast<int32_t>(brain.areas.size()); ++a) {
      AreaRound target;
      target.area = a;
      for (Fiber& fiber : brain.fibers) {
        if (fiber.target == a) {
          target.fibers.push_back(&fiber);
        }
      }
      for (Stimulus& stimulus : brain.stimuli) {
        if (stimulus.target == a) {
          target.stimuli.push_back(&stimulus);
        }
      }
      if (!target.fibers.empty() || !target.stimuli.empty()) {
        const Area& area = area_of(target);
        target.winners.assign(area.winners, area.winners + (area.fixed ? *area.winner_count : 0));
        targets_.push_back(std::move(target));
      }
    }
  }

  void add_slots_of_winners() {
    for (Area& area : brain_.areas) {
      add_slots(area, area.winners, *area.winner_count);
    }
  }
  // Up to the winners.
  const std::vector<AreaRound>& choose() {
    list_firing();
    run_first_half(*this);
    return targets_;
  }
  // False where edges need more memory; nothing but caches has changed then.
  bool run() {
    choose();
    return run_second_half(*this);
  }

  // The phases of round_script.h.
  static const Fiber& fiber_of(const Fiber& fiber) {
    return fiber;
  }
  Area& area_of(const AreaRound& target) {
    return brain_.areas[static_cast<size_t>(target.area)];
  }
  static void barrier() {}
  std::vector<Fiber>& fibers() {
    return brain_.fibers;
  }
  std::vector<AreaRound>& targets() {
    return targets_;
  }
  const std::vector<Stimulus>& stimuli() const {
    return brain_.stimuli;
  }
  void refresh_scales(const Fiber& fiber) {
    const Area& target = brain_.areas[static_cast<size_t>(fiber.target)];
    for (int64_t i = 0; i < *target.winner_count; ++i) {
      refresh_scale(fiber, target.winners[i]);
    }
  }
  void choose(AreaRound& target) {
    selection_.choose(target);
  }
  void add_slots(AreaRound& target) {
    Area& area = area_of(target);
    add_slots(area, target.winners.data(), static_cast<int64_t>(target.winners.size()));
    target.wins.assign(static_cast<size_t>(area.slots[0]), 0);
    for (const int64_t winner : target.winners) {
      target.wins[static_cast<size_t>(area.slot_of[winner])] = 1;
    }
  }
  bool search() {
    bool fits = true;
    for (size_t f = 0; f < brain_.fibers.size(); ++f) {
      if (brain_.fibers[f].searches()) {
        needed_[f] = search_.find(f, pairs_[f]);
        fits = fits && needed_[f] <= brain_.fibers[f].chunk_capacity;
      }
    }
    return fits;
  }
  void file(Fiber& fiber) {
    search_.file(fiber, pairs_[static_cast<size_t>(&fiber - brain_.fibers.data())]);
  }
  void potentiate_fiber(const AreaRound& target, const Fiber& fiber) {
    const std::vector<int32_t>& rows = brain_.firing[static_cast<size_t>(fiber.source)].slots;
    kernel_table<ProjectionKernels>().potentiate(fiber.edges, rows.data(), static_cast<int64_t>(rows.size()),
                                                 target.wins.data(), fiber.factor, fiber.largest,
                                                 {fiber.sums, area_of(target).neuron_of});
  }
  void potentiate_stimulus(const AreaRound& target, const Stimulus& stimulus) {
    for (const int64_t winner : target.winners) {
      float& weight = stimulus.weight[area_of(target).slot_of[winner]];
      weight = potentiated_stimulus(stimulus, stimulus.counts[winner], weight);
    }
  }
  void age(const AreaRound& target) {
    const Area& area = area_of(target);
    for (int64_t j = 0; j < area.n; ++j) {
      area.last_win[j] += area.last_win[j] < area.refractory_period ? 1 : 0;
    }
  }
  void commit(AreaRound& target) {
    Area& area = area_of(target);
    for (const int64_t winner : target.winners) {
      uint8_t& won = area.won[area.slot_of[winner]];
      area.slots[1] += won == 0 ? 1 : 0;
      won = 1;
      if (area.bias != nullptr) {
        area.bias[winner] = std::min(area.bias[winner] + area.bias_step, kLargestBias);
      }
      if (area.last_win != nullptr) {
        area.last_win[winner] = 0;
      }
    }
    std::copy(target.winners.begin(), target.winners.end(), area.winners);
    *area.winner_count = static_cast<int64_t>(target.winners.size());
  }

 private:
  static std::vector<LentRows> kept_rows(const Brain& brain) {
    std::vector<LentRows> kept;
    for (const Fiber& fiber : brain.fibers) {
      const Area& target = brain.areas[static_cast<size_t>(fiber.target)];
      kept.push_back(lend_rows(fiber, brain.areas[static_cast<size_t>(fiber.source)], target,
                               bytes_to_keep(target.n, static_cast<int64_t>(brain.fibers.size()))));
    }
    return kept;
  }

  // The slots of winners, and, of those that fire for the first time, their edges: later rounds add what is right.
  void list_firing() {
    for (size_t a = 0; a < brain_.areas.size(); ++a) {
      const Area& area = brain_.areas[a];
      std::vector<int32_t>& slots = brain_.firing[a].slots;
      // Most rounds fire the winners of the round before.
      if (std::equal(listed_[a].begin(), listed_[a].end(), area.winners, area.winners + *area.winner_count)) {
        continue;
      }
      listed_[a].assign(area.winners, area.winners + *area.winner_count);
      ++brain_.firing[a].changes;
      slots.clear();
      fresh_.clear();
      for (int64_t i = 0; i < *area.winner_count; ++i) {
        slots.push_back(area.slot_of[area.winners[i]]);
        if (std::exchange(checked_[a][static_cast<size_t>(slots.back())], 1) == 0) {
          fresh_.push_back(slots.back());
        }
      }
      for (const Fiber& fiber : brain_.fibers) {
        if (!fresh_.empty() && fiber.source == static_cast<int32_t>(a)) {
          check_edges(fiber);
        }
      }
    }
  }
  void check_edges(const Fiber& fiber) const {
    const int64_t slots = brain_.areas[static_cast<size_t>(fiber.target)].slots[0];
    const bool known = std::all_of(fresh_.begin(), fresh_.end(),
                                   [&](int32_t row) { return fiber.known[row] >= 0 && fiber.known[row] <= slots; });
    if (!known || !kernel_table<ProjectionKernels>().are_edges(
                      fiber.edges, fresh_.data(), static_cast<int64_t>(fresh_.size()), *fiber.chunks, slots)) {
      throw std::out_of_range(
          "rows of edges must name their chunks and slots of the target, with weights of 0 to 2^24");
    }
  }

  static void add_slots(Area& area, const int64_t* neurons, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      int32_t& slot = area.slot_of[neurons[i]];
      if (slot >= area.slots[0] || (slot < 0 && area.slots[0] == area.capacity)) {
        throw std::out_of_range("slot_of must name slots in use, each neuron another");
      }
      // Winners ascend unless two slots are of one neuron.
      if ((slot >= 0 && area.neuron_of[slot] != neurons[i]) || (i > 0 && neurons[i] <= neurons[i - 1])) {
        throw std::out_of_range("neuron_of must name the neurons of slots");
      }
      if (slot < 0) {
        slot = static_cast<int32_t>(area.slots[0]++);
        area.neuron_of[slot] = static_cast<int32_t>(neurons[i]);
        area.won[slot] = 0;
      }
    }
  }

  Brain& brain_;
  int64_t* needed_;
  std::vector<LentRows> kept_;  // by fiber
  Selection selection_;
  EdgeSearch search_;
  std::vector<AreaRound> targets_;
  std::vector<std::vector<uint64_t>> pairs_;   // by fiber
  std::vector<std::vector<int64_t>> listed_;   // by area, the winners whose slots are in `firing`
  std::vector<std::vector<uint8_t>> checked_;  // by area and slot
  std::vector<int32_t> fresh_;
};

}  // namespace

Brain Brain::of_brain(int64_t b) const {
  Brain own;
  for (const Area& area : areas) {
    own.areas.push_back(area.of_brain(b));
  }
  for (const Fiber& fiber : fibers) {
    own.fibers.push_back(
        fiber.of_brain(b, areas[static_cast<size_t>(fiber.source)], areas[static_cast<size_t>(fiber.target)]));
  }
  for (const Stimulus& stimulus : stimuli) {
    own.stimuli.push_back(stimulus.of_brain(b, areas[static_cast<size_t>(stimulus.target)]));
  }
  return own;
}

void choose_winners(Brain& brain, ParallelFor parallel, const ChoiceBody& body) {
  std::vector<int64_t> needed(brain.fibers.size());
  Rounds state(brain, parallel, needed.data());
  state.add_slots_of_winners();
  const std::vector<AreaRound>& targets = state.choose();
  for (const AreaRound& target : targets) {
    const Area& area = brain.areas[static_cast<size_t>(target.area)];
    const std::vector<int64_t>& winners = target.winners;
    // Fewer, or one twice, where slots and neurons do not name each other.
    if (!area.fixed && (static_cast<int64_t>(winners.size()) != area.k ||
                        std::adjacent_find(winners.begin(), winners.end()) != winners.end())) {
      throw std::out_of_range("neuron_of must name the neurons of slots");
    }
  }
  for (const AreaRound& target : targets) {
    if (!brain.areas[static_cast<size_t>(target.area)].fixed) {
      body(target.area, target.winners, target.inputs);
    }
  }
}

int64_t run_rounds(Brain& brain, int64_t rounds, ParallelFor parallel, int64_t* needed) {
  for (size_t f = 0; f < brain.fibers.size(); ++f) {
    needed[f] = 0;
  }
  if (rounds == 0) {
    return 0;
  }
  Rounds state(brain, parallel, needed);
  // Winners that were set from outside may have no slots yet.
  state.add_slots_of_winners();
  for (int64_t round = 0; round < rounds; ++round) {
    if (!state.run()) {
      return round;
    }
  }
  return rounds;
}

}  // namespace torch_hrr::kernels
