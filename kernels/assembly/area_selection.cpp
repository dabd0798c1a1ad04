// Inputs by counts that follow the winners, and the selection over them.
#include "kernels/assembly/area_selection.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <new>
#include <stdexcept>

#include "kernels/assembly/column_blocks.h"
#include "kernels/assembly/winners.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {

// Brings a fiber's counts to its source's present winners: those that left are taken away, those that came are added.
void Selection::deliver(Fiber& fiber) {
  if (fiber.connectome == nullptr) {
    return;
  }
  const Area& source = area_of(fiber.source);
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
  if (entered_.empty() && left_.empty() && !afresh) {
    return;
  }
  KeptRows& kept = kept_of(fiber);
  // Until all is done counts are of no rows in particular.
  *fiber.delivered_count = -1;
  if (!left_.empty()) {
    add_rows(fiber, left_, -1, kept.find(left_), /*afresh=*/false);
  }
  add_rows(fiber, entered_, 1, kept.admit(source, entered_), afresh);
  std::copy(now, now_end, fiber.delivered);
  *fiber.delivered_count = *source.winner_count;
}

// Adds the edges of rows, times a sign, to the fiber's counts or, afresh, to zeros.
void Selection::add_rows(const Fiber& fiber, const std::vector<int64_t>& rows, int32_t sign, const int32_t* places,
                         bool afresh) {
  DeliverParams params;
  params.tables = fiber.connectome;
  params.key = fiber.key();
  params.rows = rows.data();
  params.row_count = static_cast<int64_t>(rows.size());
  params.n = area_of(fiber.target).n;
  params.counts = fiber.counts;
  params.sign = sign;
  params.kept = kept_of(fiber).edges();
  params.places = places;
  const int64_t begin = area_of(fiber.target).first;
  const int64_t streams = params.row_count * block_count(*params.tables, params.n - begin);
  for_column_blocks(*params.tables, begin, params.n, streams, parallel_, [&](int64_t first, int64_t last) {
    if (afresh) {
      const int64_t width = params.tables->width;
      std::fill(params.counts + first * width, params.counts + std::min(params.n, last * width), 0);
    }
    kernel_table<ConnectomeKernels>().deliver(params, first, last);
  });
}

// excess_ = what the known edges of a fiber add to the base counts, by target slot.
void Selection::add_excess(const Fiber& fiber, size_t slots) {
  excess_.assign(slots, 0);
  const std::vector<int32_t>& rows = brain_.firing[static_cast<size_t>(fiber.source)].slots;
  kernel_table<ProjectionKernels>().add_excess(fiber.edges, rows.data(), static_cast<int64_t>(rows.size()),
                                               fiber.connectome != nullptr ? kFixedOne : 0, excess_.data());
}

// Memory for a kernel, 64-byte aligned, until the next call.
void* Selection::scratch(int64_t bytes) {
  if (scratch_bytes_ < bytes) {
    scratch_bytes_ = (bytes + 63) / 64 * 64;
    scratch_.reset(std::aligned_alloc(64, static_cast<size_t>(scratch_bytes_)));
    if (scratch_ == nullptr) {
      throw std::bad_alloc();
    }
  }
  return scratch_.get();
}

void Selection::choose(AreaRound& target) {
  Area& area = area_of(target.area);
  for (Fiber* fiber : target.fibers) {
    deliver(*fiber);
  }
  const bool scaled =
      std::any_of(target.fibers.begin(), target.fibers.end(), [](const Fiber* f) { return f->scale != nullptr; });
  // With fewer slots than winners there is no bound that spares scaled inputs or ties by key.
  const bool needs_bound = scaled || area.keyed_ties;
  if (area.bias != nullptr || area.last_win != nullptr || (needs_bound && area.slots[0] < area.k)) {
    choose_densely(target, scaled);
  } else {
    choose_by_bound(target, scaled);
  }
}

// x_j is the sum of counts everywhere but at slots, where it can only be more. So a winner is one of the k largest by
// counts alone, or a slot.
void Selection::choose_by_bound(AreaRound& target, bool scaled) {
  Area& area = area_of(target.area);
  const auto slots = static_cast<size_t>(area.slots[0]);
  const int shift = scaled ? kScaledBits : 0;
  sources_.clear();
  scales_.clear();
  inputs_.assign(slots, 0);
  for (const Fiber* fiber : target.fibers) {
    add_excess(*fiber, slots);
    for (size_t s = 0; s < slots; ++s) {
      const int32_t neuron = area.neuron_of[s];
      inputs_[s] = add_term(inputs_[s], fiber_term(*fiber, neuron, excess_[s], shift));
    }
    if (fiber->connectome != nullptr) {
      sources_.push_back(fiber->counts + area.first);
      scales_.push_back(fiber->scale);
    }
  }
  for (const Stimulus* stimulus : target.stimuli) {
    for (size_t s = 0; s < slots; ++s) {
      const int64_t sum = stimulus_sum(stimulus->counts[area.neuron_of[s]], stimulus->weight[s]);
      inputs_[s] = add_term(inputs_[s], input_term(sum, shift));
    }
    sources_.push_back(stimulus->counts + area.first);
    scales_.push_back(nullptr);
  }
  // Enough slots: their k-th input is a bound that others have to reach.
  int64_t bound = INT64_MIN;
  if (static_cast<int64_t>(slots) >= area.k) {
    ordered_ = inputs_;
    std::nth_element(ordered_.begin(), ordered_.begin() + (area.k - 1), ordered_.end(), std::greater<int64_t>());
    bound = ordered_[static_cast<size_t>(area.k - 1)];
  }
  candidates_.clear();
  if (scaled || area.keyed_ties) {
    add_all_candidates(target, bound, shift);
  } else {
    add_candidates_by_sums(target, bound);
  }
  for (size_t s = 0; s < slots; ++s) {
    if (inputs_[s] >= bound) {
      add_candidate(area, inputs_[s], area.neuron_of[s]);
    }
  }
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.input != b.input ? a.input > b.input : a.order < b.order;
  };
  if (static_cast<int64_t>(candidates_.size()) > area.k) {
    std::nth_element(candidates_.begin(), candidates_.begin() + area.k, candidates_.end(), better);
    candidates_.resize(static_cast<size_t>(area.k));
  }
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.neuron < b.neuron; });
  target.winners.clear();
  target.inputs.clear();
  for (const Candidate& candidate : candidates_) {
    target.winners.push_back(candidate.neuron);
    target.inputs.push_back(candidate.input);
  }
}

void Selection::add_candidate(const Area& area, int64_t input, int64_t neuron) {
  candidates_.push_back({input, neuron, area.keyed_ties ? tie_rank(area.tie_key(), neuron) : neuron});
}

// The k that may win of the neurons without slots, by their sums of counts and, among equals, their indices.
void Selection::add_candidates_by_sums(const AreaRound& target, int64_t bound) {
  const Area& area = area_of(target.area);
  const uint32_t least =
      bound < 0 ? 0 : static_cast<uint32_t>(std::min<int64_t>((bound + kFixedOne - 1) >> kFixedBits, UINT32_MAX));
  indices_.resize(static_cast<size_t>(area.k));
  sums_.resize(static_cast<size_t>(area.k));
  int64_t found = 0;
  if (sources_.empty()) {
    // A graph of the user's own alone: everything without a slot has input 0, the lowest indices first.
    for (int64_t j = area.first; j < area.n && found < area.k && bound <= 0; ++j) {
      indices_[static_cast<size_t>(found)] = static_cast<int32_t>(j);
      sums_[static_cast<size_t>(found++)] = 0;
    }
  } else {
    SumWinnersParams params;
    params.sources = sources_.data();
    params.source_count = static_cast<int64_t>(sources_.size());
    params.n = area.n - area.first;
    params.k = area.k;
    params.least = least;
    params.indices = indices_.data();
    params.sums = sums_.data();
    const auto& projection = kernel_table<ProjectionKernels>();
    found = projection.sum_winners(params, scratch(projection.sum_winners_scratch(area.k)));
    for (int64_t i = 0; i < found; ++i) {
      indices_[static_cast<size_t>(i)] += static_cast<int32_t>(area.first);
    }
  }
  for (int64_t i = 0; i < found; ++i) {
    const auto at = static_cast<size_t>(i);
    if (area.slot_of[indices_[at]] < 0) {
      add_candidate(area, static_cast<int64_t>(sums_[at]) << kFixedBits, indices_[at]);
    }
  }
}

// All neurons without slots whose inputs reach the bound. The kernel sees them in doubles, so that it is asked for a
// little less: each of the terms is rounded by at most 1/2, and the sum of m doubles errs by less than m + 2 units in
// its last place.
void Selection::add_all_candidates(const AreaRound& target, int64_t bound, int shift) {
  const Area& area = area_of(target.area);
  const auto terms = static_cast<double>(sources_.size());
  const auto unit = static_cast<double>(int64_t{1} << (kFixedBits + shift));
  indices_.resize(static_cast<size_t>(area.n));
  CandidatesParams params;
  params.sources = sources_.data();
  params.scales = scales_.data();
  params.source_count = static_cast<int64_t>(sources_.size());
  params.n = area.n;
  params.least = (static_cast<double>(bound) * (1 - (terms + 4) * 0x1p-52) - terms - 1) / unit;
  params.indices = indices_.data();
  const int64_t found = kernel_table<ProjectionKernels>().candidates(params);
  for (int64_t i = 0; i < found; ++i) {
    const int32_t neuron = indices_[static_cast<size_t>(i)];
    if (area.slot_of[neuron] >= 0) {
      continue;
    }
    int64_t input = 0;
    for (const Fiber* fiber : target.fibers) {
      input = add_term(input, fiber_term(*fiber, neuron, 0, shift));
    }
    for (const Stimulus* stimulus : target.stimuli) {
      input = add_term(input, input_term(stimulus_sum(stimulus->counts[neuron], 0), shift));
    }
    if (input >= bound) {
      add_candidate(area, input, neuron);
    }
  }
}

// Inputs of every neuron one by one: refracted areas, long-range inhibition, and areas without a bound. Where a fiber
// is normalised, inputs are counted in units of 2^-40.
void Selection::choose_densely(AreaRound& target, bool scaled) {
  Area& area = area_of(target.area);
  const auto n = static_cast<size_t>(area.n);
  const int shift = scaled ? kScaledBits : 0;
  if (*std::max_element(area.slot_of, area.slot_of + n) >= area.slots[0]) {
    throw std::out_of_range("slot_of must name slots in use");
  }
  inputs_.assign(n, 0);
  for (const Fiber* fiber : target.fibers) {
    add_excess(*fiber, static_cast<size_t>(area.slots[0]));
    for (size_t j = 0; j < n; ++j) {
      const int32_t slot = area.slot_of[j];
      const int64_t excess = slot >= 0 ? excess_[static_cast<size_t>(slot)] : 0;
      inputs_[j] = add_term(inputs_[j], fiber_term(*fiber, static_cast<int64_t>(j), excess, shift));
    }
  }
  for (const Stimulus* stimulus : target.stimuli) {
    for (size_t j = 0; j < n; ++j) {
      const int32_t slot = area.slot_of[j];
      const int64_t sum = stimulus_sum(stimulus->counts[j], slot >= 0 ? stimulus->weight[slot] : 0);
      inputs_[j] = add_term(inputs_[j], input_term(sum, shift));
    }
  }
  for (size_t j = 0; j < n; ++j) {
    inputs_[j] -= penalty_term(area, static_cast<int64_t>(j), shift);
  }
  WinnersParams params;
  std::vector<int64_t> values(static_cast<size_t>(area.k));
  target.winners.resize(static_cast<size_t>(area.k));
  params.input = inputs_.data();
  params.values = values.data();
  params.indices = target.winners.data();
  params.rows = 1;
  params.n = area.n;
  params.k = area.k;
  params.row_stride = area.n;
  params.element = Element::kInt64;
  const auto& kernel = kernel_table<RowKernel<WinnersParams>>();
  void* const memory = scratch(kernel.scratch(params));
  kernel.run(params, 0, 1, memory);
  if (area.keyed_ties) {
    const int64_t cut = *std::min_element(values.begin(), values.end());
    const uint64_t key = area.tie_key();
    for (size_t j = 0; j < n; ++j) {
      inputs_[j] = ranked_input(inputs_[j], cut, key, static_cast<int64_t>(j));
    }
    kernel.run(params, 0, 1, memory);
  }
}

}  // namespace torch_hrr::kernels
