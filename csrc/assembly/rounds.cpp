// One synchronous round after the other: sums, selection, potentiation, commit.
#include "csrc/assembly/rounds.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "csrc/assembly/column_blocks.h"
#include "kernels/assembly/tables.h"

namespace torch_hrr::assembly {
namespace {

using kernels::assembly_kernels;
using kernels::kEdgesPerChunk;
using kernels::kFixedBits;
using kernels::kFixedOne;

// An area's inputs in a round, and what they make of it.
struct Target {
  int32_t area = 0;
  std::vector<Fiber*> fibers;
  std::vector<Stimulus*> stimuli;
  std::vector<int64_t> winners;
};

class Rounds {
 public:
  Rounds(Brain& brain, bool threads, int64_t* needed) : brain_(brain), threads_(threads), needed_(needed) {
    for (int32_t a = 0; a < static_cast<int32_t>(brain.areas.size()); ++a) {
      Target target;
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
    for (Target& target : targets_) {
      choose(target);
    }
    for (Target& target : targets_) {
      add_slots(area_of(target), target.winners.data(), static_cast<int64_t>(target.winners.size()));
    }
    bool fits = true;
    for (Target& target : targets_) {
      for (Fiber* fiber : target.fibers) {
        fits = (!learns(*fiber) || learn_edges(*fiber)) && fits;
      }
    }
    if (!fits) {
      return false;
    }
    for (Target& target : targets_) {
      potentiate(target);
    }
    for (Target& target : targets_) {
      commit(target);
    }
    return true;
  }

 private:
  Area& area_of(const Target& target) {
    return brain_.areas[static_cast<size_t>(target.area)];
  }
  Area& source_of(const Fiber& fiber) {
    return brain_.areas[static_cast<size_t>(fiber.source)];
  }
  Area& target_of(const Fiber& fiber) {
    return brain_.areas[static_cast<size_t>(fiber.target)];
  }
  static bool learns(const Fiber& fiber) {
    return fiber.plastic && fiber.factor != 1;
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

  // Slots of the source's winners.
  const std::vector<int32_t>& firing(const Fiber& fiber) {
    const Area& source = source_of(fiber);
    slots_.clear();
    for (int64_t i = 0; i < *source.winner_count; ++i) {
      slots_.push_back(source.slot_of[source.winners[i]]);
    }
    return slots_;
  }

  // Brings a fiber's counts to its source's present winners: those that left are taken away, those that came are added.
  void deliver(Fiber& fiber) {
    if (fiber.connectome == nullptr) {
      return;
    }
    const Area& source = source_of(fiber);
    const int64_t n = target_of(fiber).n;
    const int64_t* const now = source.winners;
    const int64_t* const now_end = now + *source.winner_count;
    const int64_t* const before = fiber.delivered;
    const int64_t* const before_end = before + std::max<int64_t>(*fiber.delivered_count, 0);
    entered_.clear();
    left_.clear();
    std::set_difference(now, now_end, before, before_end, std::back_inserter(entered_));
    std::set_difference(before, before_end, now, now_end, std::back_inserter(left_));
    const bool afresh =
        *fiber.delivered_count < 0 || static_cast<int64_t>(entered_.size() + left_.size()) > *source.winner_count;
    if (afresh) {
      entered_.assign(now, now_end);
      left_.clear();
    }
    kernels::DeliverParams params;
    params.tables = fiber.connectome;
    params.key = fiber.key;
    params.n = n;
    params.counts = fiber.counts;
    for_column_blocks(*fiber.connectome, n, threads_, [&](int64_t first, int64_t last) {
      kernels::DeliverParams part = params;
      if (afresh) {
        const int64_t begin = first * part.tables->width;
        std::fill(part.counts + begin, part.counts + std::min(n, last * part.tables->width), 0);
      }
      for (const auto& [rows, sign] : {std::pair(&left_, -1), std::pair(&entered_, 1)}) {
        part.rows = rows->data();
        part.row_count = static_cast<int64_t>(rows->size());
        part.sign = sign;
        assembly_kernels().deliver(part, first, last);
      }
    });
    std::copy(now, now_end, fiber.delivered);
    *fiber.delivered_count = *source.winner_count;
  }

  // What the known edges of a fiber add to the base counts, by target slot.
  void add_excess(const Fiber& fiber, std::vector<int64_t>& excess) {
    const std::vector<int32_t>& rows = firing(fiber);
    assembly_kernels().add_excess(fiber.edges, rows.data(), static_cast<int64_t>(rows.size()),
                                  fiber.connectome != nullptr ? kFixedOne : 0, excess.data());
  }

  void choose(Target& target) {
    Area& area = area_of(target);
    for (Fiber* fiber : target.fibers) {
      deliver(*fiber);
    }
    if (area.fixed) {
      target.winners.assign(area.winners, area.winners + *area.winner_count);
      return;
    }
    const bool scaled =
        std::any_of(target.fibers.begin(), target.fibers.end(), [](const Fiber* f) { return f->scale != nullptr; });
    if (scaled || area.bias != nullptr || area.last_win != nullptr) {
      choose_densely(target, scaled);
    } else {
      choose_by_sums(target);
    }
  }

  // x_j is the sum of counts everywhere but at slots, where it can only be more. So a winner is one of the k largest by
  // counts alone, or a slot.
  void choose_by_sums(Target& target) {
    Area& area = area_of(target);
    const auto slots = static_cast<size_t>(area.slots[0]);
    std::vector<const int32_t*> sources;
    excess_.assign(slots, 0);
    for (const Fiber* fiber : target.fibers) {
      if (fiber->connectome != nullptr) {
        sources.push_back(fiber->counts);
      }
      add_excess(*fiber, excess_);
    }
    for (const Stimulus* stimulus : target.stimuli) {
      sources.push_back(stimulus->counts);
      for (size_t s = 0; s < slots; ++s) {
        if (stimulus->weight[s] != 0) {
          excess_[s] += kernels::fixed_point(stimulus->weight[s]) -
                        (static_cast<int64_t>(stimulus->counts[area.neuron_of[s]]) << kFixedBits);
        }
      }
    }
    for (size_t s = 0; s < slots; ++s) {
      int64_t count = 0;
      for (const int32_t* source : sources) {
        count += source[area.neuron_of[s]];
      }
      excess_[s] += count << kFixedBits;
    }
    // Enough slots: their k-th input is a bound that others have to reach.
    uint32_t least = 0;
    int64_t bound = INT64_MIN;
    if (static_cast<int64_t>(slots) >= area.k) {
      ordered_ = excess_;
      std::nth_element(ordered_.begin(), ordered_.begin() + (area.k - 1), ordered_.end(), std::greater<int64_t>());
      bound = ordered_[static_cast<size_t>(area.k - 1)];
      least = static_cast<uint32_t>(std::min<int64_t>((bound + kFixedOne - 1) >> kFixedBits, UINT32_MAX));
    }
    indices_.resize(static_cast<size_t>(area.k));
    sums_.resize(static_cast<size_t>(area.k));
    int64_t found = 0;
    if (sources.empty()) {
      // A graph of the user's own alone: everything without a slot has input 0, the lowest indices first.
      for (int64_t j = 0; j < area.n && found < area.k && bound <= 0; ++j) {
        indices_[static_cast<size_t>(found)] = static_cast<int32_t>(j);
        sums_[static_cast<size_t>(found++)] = 0;
      }
    } else {
      kernels::SumWinnersParams params;
      params.sources = sources.data();
      params.source_count = static_cast<int64_t>(sources.size());
      params.n = area.n;
      params.k = area.k;
      params.least = least;
      params.indices = indices_.data();
      params.sums = sums_.data();
      const Scratch scratch(assembly_kernels().sum_winners_scratch(area.k));
      found = assembly_kernels().sum_winners(params, scratch.memory);
    }
    candidates_.clear();
    for (int64_t i = 0; i < found; ++i) {
      const auto at = static_cast<size_t>(i);
      if (area.slot_of[indices_[at]] < 0) {
        candidates_.push_back({static_cast<int64_t>(sums_[at]) << kFixedBits, indices_[at]});
      }
    }
    for (size_t s = 0; s < slots; ++s) {
      if (excess_[s] >= bound) {
        candidates_.push_back({excess_[s], area.neuron_of[s]});
      }
    }
    const auto better = [](const Candidate& a, const Candidate& b) {
      return a.input != b.input ? a.input > b.input : a.neuron < b.neuron;
    };
    if (static_cast<int64_t>(candidates_.size()) > area.k) {
      std::nth_element(candidates_.begin(), candidates_.begin() + area.k, candidates_.end(), better);
      candidates_.resize(static_cast<size_t>(area.k));
    }
    target.winners.clear();
    for (const Candidate& candidate : candidates_) {
      target.winners.push_back(candidate.neuron);
    }
    std::sort(target.winners.begin(), target.winners.end());
  }

  // Inputs of every neuron one by one: normalised fibers, refracted areas, long-range inhibition. Where a fiber is
  // normalised, inputs are counted in units of 2^-40.
  void choose_densely(Target& target, bool scaled) {
    constexpr int kScaledBits = 16;
    Area& area = area_of(target);
    const auto n = static_cast<size_t>(area.n);
    const int shift = scaled ? kScaledBits : 0;
    inputs_.assign(n, 0);
    for (const Fiber* fiber : target.fibers) {
      excess_.assign(static_cast<size_t>(area.slots[0]), 0);
      add_excess(*fiber, excess_);
      for (size_t j = 0; j < n; ++j) {
        const int32_t slot = area.slot_of[j];
        const int64_t sum = (fiber->connectome != nullptr ? static_cast<int64_t>(fiber->counts[j]) << kFixedBits : 0) +
                            (slot >= 0 ? excess_[static_cast<size_t>(slot)] : 0);
        if (fiber->scale != nullptr) {
          inputs_[j] += static_cast<int64_t>(
              std::rint(static_cast<double>(sum) * fiber->scale[j] * static_cast<double>(1 << kScaledBits)));
        } else {
          inputs_[j] += sum << shift;
        }
      }
    }
    for (const Stimulus* stimulus : target.stimuli) {
      for (size_t j = 0; j < n; ++j) {
        const int32_t slot = area.slot_of[j];
        const bool touched = slot >= 0 && stimulus->weight[slot] != 0;
        inputs_[j] += (touched ? kernels::fixed_point(stimulus->weight[slot])
                               : static_cast<int64_t>(stimulus->counts[j]) << kFixedBits)
                      << shift;
      }
    }
    for (size_t j = 0; j < n && area.bias != nullptr; ++j) {
      inputs_[j] -= area.bias[j] << shift;
    }
    for (size_t j = 0; j < n && area.last_win != nullptr; ++j) {
      if (area.last_win[j] < area.refractory_period) {
        inputs_[j] -= area.penalties[area.last_win[j]] << shift;
      }
    }
    kernels::WinnersParams params;
    std::vector<int64_t> values(static_cast<size_t>(area.k));
    target.winners.resize(static_cast<size_t>(area.k));
    params.input = inputs_.data();
    params.values = values.data();
    params.indices = target.winners.data();
    params.rows = 1;
    params.n = area.n;
    params.k = area.k;
    params.row_stride = area.n;
    params.element = kernels::Element::kInt64;
    const Scratch scratch(assembly_kernels().winners_scratch(params));
    assembly_kernels().winners(params, 0, 1, scratch.memory);
  }

  // Makes the edges from the firing rows to every target slot known. False, and needed_ set, where they do not fit.
  bool learn_edges(Fiber& fiber) {
    if (fiber.connectome == nullptr) {
      return true;
    }
    const Area& source = source_of(fiber);
    const Area& target = target_of(fiber);
    const auto slots = static_cast<int32_t>(target.slots[0]);
    // Rows that know all but the newest slots look for those alone, in few columns; the others for all they lack.
    int32_t newest = 0;
    for (int64_t i = 0; i < *source.winner_count; ++i) {
      const int32_t known = fiber.known[source.slot_of[source.winners[i]]];
      newest = known < slots ? std::max(newest, known) : newest;
    }
    pairs_.clear();
    for (const bool up_to_date : {true, false}) {
      rows_.clear();
      int32_t least = slots;
      for (int64_t i = 0; i < *source.winner_count; ++i) {
        const int32_t known = fiber.known[source.slot_of[source.winners[i]]];
        if (known < slots && (known == newest) == up_to_date) {
          rows_.push_back(source.winners[i]);
          least = std::min(least, known);
        }
      }
      if (!rows_.empty()) {
        match(fiber, least, slots);
      }
    }
    std::sort(pairs_.begin(), pairs_.end());
    return insert(fiber, slots);
  }

  // Appends (source slot, target slot) of every edge from rows_ into target slots [least, slots) that its row lacks.
  void match(const Fiber& fiber, int32_t least, int32_t slots) {
    const Area& source = source_of(fiber);
    const Area& target = target_of(fiber);
    bits_.resize(static_cast<size_t>((target.n + 31) / 32), 0);
    for (int32_t s = least; s < slots; ++s) {
      bits_[static_cast<size_t>(target.neuron_of[s] / 32)] |= 1u << (target.neuron_of[s] % 32);
    }
    std::mutex mutex;
    for_column_blocks(*fiber.connectome, target.n, threads_, [&](int64_t first, int64_t last) {
      // Some rows at a time, so that pairs take little memory.
      constexpr int64_t kRows = 256;
      std::vector<int32_t> found(8192);
      std::vector<uint64_t> own;
      for (int64_t row = 0; row < static_cast<int64_t>(rows_.size()); row += kRows) {
        kernels::MatchParams params;
        params.tables = fiber.connectome;
        params.key = fiber.key;
        params.rows = rows_.data() + row;
        params.row_count = std::min<int64_t>(kRows, static_cast<int64_t>(rows_.size()) - row);
        params.n = target.n;
        params.bits = bits_.data();
        int64_t count = 0;
        for (;;) {
          params.pairs = found.data();
          params.capacity = static_cast<int64_t>(found.size() / 2);
          count = assembly_kernels().match(params, first, last);
          if (count <= params.capacity) {
            break;
          }
          found.resize(static_cast<size_t>(2 * count));
        }
        for (int64_t i = 0; i < count; ++i) {
          const int32_t from = source.slot_of[params.rows[found[static_cast<size_t>(2 * i)]]];
          const int32_t to = target.slot_of[found[static_cast<size_t>(2 * i + 1)]];
          if (to >= fiber.known[from]) {
            own.push_back(static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to));
          }
        }
      }
      const std::lock_guard<std::mutex> lock(mutex);
      pairs_.insert(pairs_.end(), own.begin(), own.end());
    });
    for (int32_t s = least; s < slots; ++s) {
      bits_[static_cast<size_t>(target.neuron_of[s] / 32)] = 0;
    }
  }

  // Puts the sorted pairs into the fiber's table, with weight 1, and marks the firing rows as knowing `slots`.
  bool insert(Fiber& fiber, int32_t slots) {
    const Area& source = source_of(fiber);
    int64_t chunks = *fiber.chunks;
    for (size_t i = 0; i < pairs_.size();) {
      const uint64_t row = pairs_[i] >> 32;
      const size_t first = i;
      while (i < pairs_.size() && pairs_[i] >> 32 == row) {
        ++i;
      }
      const int64_t before = fiber.edges.length[row];
      const int64_t after = before + static_cast<int64_t>(i - first);
      chunks += (after + kEdgesPerChunk - 1) / kEdgesPerChunk - (before + kEdgesPerChunk - 1) / kEdgesPerChunk;
    }
    needed_[&fiber - brain_.fibers.data()] = chunks;
    if (chunks > fiber.chunk_capacity) {
      return false;
    }
    for (const uint64_t pair : pairs_) {
      const auto row = static_cast<size_t>(pair >> 32);
      const int32_t place = fiber.edges.length[row]++ % kEdgesPerChunk;
      if (place == 0) {
        const auto chunk = static_cast<int32_t>((*fiber.chunks)++);
        fiber.edges.next[chunk] = fiber.edges.head[row];
        fiber.edges.head[row] = chunk;
      }
      const int64_t edge = static_cast<int64_t>(fiber.edges.head[row]) * kEdgesPerChunk + place;
      fiber.edges.target[edge] = static_cast<int32_t>(static_cast<uint32_t>(pair));
      fiber.edges.weight[edge] = 1;
    }
    for (int64_t i = 0; i < *source.winner_count; ++i) {
      fiber.known[source.slot_of[source.winners[i]]] = slots;
    }
    return true;
  }

  void potentiate(Target& target) {
    Area& area = area_of(target);
    wins_.assign(static_cast<size_t>(area.slots[0]), 0);
    for (const int64_t winner : target.winners) {
      wins_[static_cast<size_t>(area.slot_of[winner])] = 1;
    }
    for (Fiber* fiber : target.fibers) {
      if (learns(*fiber)) {
        const std::vector<int32_t>& rows = firing(*fiber);
        assembly_kernels().potentiate(fiber->edges, rows.data(), static_cast<int64_t>(rows.size()), wins_.data(),
                                      fiber->factor, fiber->largest);
      }
    }
    for (Stimulus* stimulus : target.stimuli) {
      if (!stimulus->plastic || stimulus->factor == 1) {
        continue;
      }
      for (const int64_t winner : target.winners) {
        float& weight = stimulus->weight[area.slot_of[winner]];
        const auto count = static_cast<float>(stimulus->counts[winner]);
        const float largest = std::min(count * stimulus->largest, kernels::kLargestWeight);
        weight = kernels::potentiated(weight != 0 ? weight : count, stimulus->factor, largest);
      }
    }
  }

  void commit(Target& target) {
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
        area.bias[winner] += area.bias_step;
      }
      if (area.last_win != nullptr) {
        area.last_win[winner] = 0;
      }
    }
    std::copy(target.winners.begin(), target.winners.end(), area.winners);
    *area.winner_count = static_cast<int64_t>(target.winners.size());
  }

  struct Candidate {
    int64_t input;
    int64_t neuron;
  };

  Brain& brain_;
  bool threads_;
  int64_t* needed_;
  std::vector<Target> targets_;
  // Memory that rounds share.
  std::vector<int64_t> entered_, left_, rows_, excess_, ordered_, inputs_;
  std::vector<int32_t> slots_, indices_;
  std::vector<uint32_t> sums_, bits_;
  std::vector<uint64_t> pairs_;
  std::vector<uint8_t> wins_;
  std::vector<Candidate> candidates_;
};

}  // namespace

int64_t run_rounds(Brain& brain, int64_t rounds, bool threads, int64_t* needed) {
  for (size_t f = 0; f < brain.fibers.size(); ++f) {
    needed[f] = 0;
  }
  Rounds state(brain, threads, needed);
  for (int64_t round = 0; round < rounds; ++round) {
    if (!state.run()) {
      return round;
    }
  }
  return rounds;
}

}  // namespace torch_hrr::assembly
