// One synchronous round after the other: sums, selection, potentiation, commit.
#include "kernels/assembly/rounds.h"

#include <algorithm>
#include <utility>

#include "kernels/assembly/area_selection.h"
#include "kernels/assembly/edge_search.h"
#include "kernels/assembly/kept_rows.h"
#include "kernels/assembly/projection.h"
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
        targets_.push_back(std::move(target));
      }
    }
  }

  // False where edges need more memory; nothing but caches has changed then.
  bool run() {
    for (Area& area : brain_.areas) {
      add_slots(area, area.winners, *area.winner_count);
    }
    for (const Fiber& fiber : brain_.fibers) {
      refresh_scales(fiber);
    }
    for (AreaRound& target : targets_) {
      selection_.choose(target);
    }
    for (AreaRound& target : targets_) {
      add_slots(area_of(target), target.winners.data(), static_cast<int64_t>(target.winners.size()));
    }
    if (!learn_edges()) {
      return false;
    }
    for (AreaRound& target : targets_) {
      potentiate(target);
    }
    for (AreaRound& target : targets_) {
      commit(target);
    }
    return true;
  }

 private:
  Area& area_of(const AreaRound& target) {
    return brain_.areas[static_cast<size_t>(target.area)];
  }
  Area& source_of(const Fiber& fiber) {
    return brain_.areas[static_cast<size_t>(fiber.source)];
  }

  static std::vector<LentRows> kept_rows(const Brain& brain) {
    constexpr int64_t kMostBytes = int64_t{64} << 20;
    constexpr int64_t kBytesPerNeuron = 256;
    std::vector<LentRows> kept;
    for (const Fiber& fiber : brain.fibers) {
      const Area& target = brain.areas[static_cast<size_t>(fiber.target)];
      const int64_t bytes =
          std::min(kMostBytes / static_cast<int64_t>(brain.fibers.size()), kBytesPerNeuron * target.n);
      kept.push_back(lend_rows(fiber, brain.areas[static_cast<size_t>(fiber.source)], target, bytes));
    }
    return kept;
  }

  // Where columns are divided by their sums before every round: those of the winners grew in the round before.
  void refresh_scales(const Fiber& fiber) {
    const Area& target = brain_.areas[static_cast<size_t>(fiber.target)];
    for (int64_t i = 0; fiber.sums != nullptr && i < *target.winner_count; ++i) {
      refresh_scale(fiber, target.winners[i]);
    }
  }

  // Files the edges that come into use; false, and no fiber has changed, where they do not fit.
  bool learn_edges() {
    bool fits = true;
    for (size_t f = 0; f < brain_.fibers.size(); ++f) {
      if (searches(brain_.fibers[f])) {
        needed_[f] = search_.find(f, pairs_[f]);
        fits = fits && needed_[f] <= brain_.fibers[f].chunk_capacity;
      }
    }
    for (size_t f = 0; fits && f < brain_.fibers.size(); ++f) {
      if (searches(brain_.fibers[f])) {
        search_.file(brain_.fibers[f], pairs_[f]);
      }
    }
    return fits;
  }
  static bool searches(const Fiber& fiber) {
    return fiber.connectome != nullptr && fiber.learns();
  }

  static void add_slots(Area& area, const int64_t* neurons, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      int32_t& slot = area.slot_of[neurons[i]];
      if (slot < 0) {
        slot = static_cast<int32_t>(area.slots[0]++);
        area.neuron_of[slot] = static_cast<int32_t>(neurons[i]);
        area.won[slot] = 0;
      }
    }
  }

  void potentiate(AreaRound& target) {
    Area& area = area_of(target);
    wins_.assign(static_cast<size_t>(area.slots[0]), 0);
    for (const int64_t winner : target.winners) {
      wins_[static_cast<size_t>(area.slot_of[winner])] = 1;
    }
    for (Fiber* fiber : target.fibers) {
      if (fiber->learns()) {
        const std::vector<int32_t> rows = firing_slots(source_of(*fiber));
        kernel_table<ProjectionKernels>().potentiate(fiber->edges, rows.data(), static_cast<int64_t>(rows.size()),
                                                     wins_.data(), fiber->factor, fiber->largest,
                                                     {fiber->sums, area.neuron_of});
      }
    }
    for (Stimulus* stimulus : target.stimuli) {
      for (size_t i = 0; stimulus->learns() && i < target.winners.size(); ++i) {
        const int64_t winner = target.winners[i];
        float& weight = stimulus->weight[area.slot_of[winner]];
        weight = potentiated_stimulus(*stimulus, stimulus->counts[winner], weight);
      }
    }
  }

  void commit(AreaRound& target) {
    Area& area = area_of(target);
    if (area.last_win != nullptr) {
      for (int64_t j = 0; j < area.n; ++j) {
        area.last_win[j] += area.last_win[j] < area.refractory_period ? 1 : 0;
      }
    }
    if (area.fixed) {
      return;
    }
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

  Brain& brain_;
  int64_t* needed_;
  std::vector<LentRows> kept_;  // by fiber
  Selection selection_;
  EdgeSearch search_;
  std::vector<AreaRound> targets_;
  std::vector<uint8_t> wins_;
  std::vector<std::vector<uint64_t>> pairs_;  // by fiber
};

}  // namespace

std::vector<int32_t> firing_slots(const Area& area) {
  std::vector<int32_t> slots;
  for (int64_t i = 0; i < *area.winner_count; ++i) {
    slots.push_back(area.slot_of[area.winners[i]]);
  }
  return slots;
}

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

int64_t run_rounds(Brain& brain, int64_t rounds, ParallelFor parallel, int64_t* needed) {
  for (size_t f = 0; f < brain.fibers.size(); ++f) {
    needed[f] = 0;
  }
  Rounds state(brain, parallel, needed);
  for (int64_t round = 0; round < rounds; ++round) {
    if (!state.run()) {
      return round;
    }
  }
  return rounds;
}

}  // namespace torch_hrr::kernels
