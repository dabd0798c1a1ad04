// The kernels of rounds in their order, and how the workspace is divided.
//
// A Device has a call operator as DeviceLauncher's, deliver(DeliverLaunch), select_top(WinnersParams, workspace) and
// select_bytes(WinnersParams): the launches of the connectome and of k_winners; and takes_small(): whether small areas
// go the short way.
//
// Where areas are small all but the selection is one launch a round (small_rounds.cuh), and targets of one size share
// theirs.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/assembly/round_script.h"
#include "kernels/assembly/rounds_launch.h"
#include "kernels/assembly/small_rounds.cuh"
#include "kernels/assembly/winners.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/workspace.h"

namespace torch_hrr::kernels {

// Whether a call fits the parameters of a kernel, and a block does a brain's round in about the time that it saves.
inline bool is_small(const RoundsLaunch& params) {
  bool small = params.brains <= kSmallBrains && params.area_count <= SmallRounds::kAreas &&
               params.fiber_count <= SmallRounds::kFibers && params.stimulus_count <= SmallRounds::kStimuli;
  for (int64_t a = 0; a < params.area_count; ++a) {
    small = small && params.areas[a].n <= kSmallNeurons && !params.areas[a].keyed_ties;
  }
  for (int64_t f = 0; f < params.fiber_count; ++f) {
    const Fiber& fiber = params.fibers[f];
    if (fiber.connectome != nullptr && !params.gaps[f].empty) {
      // Winners that came and that left; those that fire are drawn twice for edges into new slots.
      const int64_t rows = (fiber.learns() ? 4 : 2) * params.areas[fiber.source].k;
      small = small && rows * block_count(params.gaps[f], params.areas[fiber.target].n) <= kSmallDraws;
    }
    if (fiber.connectome == nullptr) {
      // A graph of the user's own may be dense: a row's chunks follow one another.
      const int64_t chunks = (params.areas[fiber.target].n + kEdgesPerChunk - 1) / kEdgesPerChunk;
      small = small && params.areas[fiber.source].k * chunks <= kSmallChunks;
    }
  }
  return small;
}

template <typename Device>
class RoundsLauncher {
 public:
  RoundsLauncher(const RoundsLaunch& params, void* memory, const Device& device)
      : params_(params), launch_(device), workspace_(memory), small_(device.takes_small() && is_small(params)) {
    const int64_t brains = params.brains;
    batch_.brains = brains;
    batch_.progress = params.progress;
    batch_.fields = 1 + params.fiber_count;
    batch_.running = workspace_.template take<int32_t>(brains);
    batch_.fits = workspace_.template take<int32_t>(brains);
    int64_t most_rows = 0;
    for (int64_t f = 0; f < params.fiber_count; ++f) {
      add_wire(params.fibers[f], params.gaps[f]);
      most_rows = std::max(most_rows, 2 * params.areas[params.fibers[f].source].k);
    }
    changes_.rows = workspace_.template take<int64_t>(brains * most_rows);
    changes_.signs = workspace_.template take<int32_t>(brains * most_rows);
    changes_.found = workspace_.template take<int32_t>(brains);
    changes_.row_counts = workspace_.template take<int32_t>(brains);
    changes_.from_zero = workspace_.template take<int32_t>(brains);
    int64_t most_slots = 0;
    for (int32_t a = 0; a < params.area_count; ++a) {
      if (is_target(a)) {
        add_target(a);
        most_slots = std::max(most_slots, params.areas[a].fixed ? 0 : params.areas[a].capacity);
      }
    }
    excess_ = workspace_.template take<int64_t>(brains * most_slots);
    kept_ = workspace_.template take<SmallRounds>(small_ ? 1 : 0);
    add_selections();
    int64_t most_bytes = 0;
    for (const WinnersParams& selection : selections_) {
      most_bytes = std::max(most_bytes, launch_.select_bytes(selection));
    }
    selection_memory_ = workspace_.template take<unsigned char>(most_bytes);
  }

  int64_t bytes() const {
    return workspace_.used();
  }

  void run() {
    if (small_) {
      run_small();
      return;
    }
    set_up();
    for (int64_t round = 1; round <= params_.rounds; ++round) {
      round_ = static_cast<int32_t>(round);
      chosen_ = 0;
      run_first_half(*this);
      run_second_half(*this);
      launch_("end_round_kernel", end_round_kernel, over(batch_.brains, 1), dim3(kRoundThreads), 0, batch_);
    }
  }

  // The phases of round_script.h: launches, of which each sees what those before it have written.
  static const Fiber& fiber_of(const Wire& wire) {
    return wire.link().fiber;
  }
  const Area& area_of(const Target& target) const {
    return params_.areas[target.area];
  }
  static void barrier() {}
  Items<const Wire> fibers() const {
    return {wires_.data(), static_cast<int64_t>(wires_.size())};
  }
  Items<const Target> targets() const {
    return {targets_.data(), static_cast<int64_t>(targets_.size())};
  }
  Items<const Stimulus> stimuli() const {
    return {params_.stimuli, params_.stimulus_count};
  }
  void refresh_scales(const Wire& wire) {
    launch_("refresh_scales_kernel", refresh_scales_kernel, over(wire.link().target.k), dim3(kRoundThreads), 0, batch_,
            wire.link());
  }
  void choose(const Target& target) {
    add_inputs(target);
    choose(target, selections_[chosen_++]);
  }
  void add_slots(const Target& target) {
    add_slots(area_of(target), target.firing(area_of(target)), target.marks, round_);
  }
  // Whether edges have memory is each brain's to say: later phases leave out those that stop.
  bool search() {
    for (const Wire& wire : wires_) {
      if (fiber_of(wire).searches()) {
        search(wire.search);
      }
    }
    return true;
  }
  void file(const Wire& wire) {
    launch_search("append_edges_kernel", append_edges_kernel<true>, append_edges_kernel<false>, wire.search);
  }
  void potentiate_fiber(const Target& target, const Wire& wire) {
    launch_("potentiate_kernel", potentiate_kernel, over_warps(wire.link().source.k), dim3(kRoundThreads), 0, batch_,
            wire.link(), target.marks.last_round, round_);
  }
  void potentiate_stimulus(const Target& target, const Stimulus& stimulus) {
    const Area& area = area_of(target);
    launch_("potentiate_stimulus_kernel", potentiate_stimulus_kernel, over(area.k), dim3(kRoundThreads), 0, batch_,
            stimulus, area, target.firing(area));
  }
  void age(const Target& target) {
    launch_("age_kernel", age_kernel, over(area_of(target).n), dim3(kRoundThreads), 0, batch_, area_of(target));
  }
  void commit(const Target& target) {
    launch_("commit_kernel", commit_kernel, over(area_of(target).k), dim3(kRoundThreads), 0, batch_, area_of(target),
            target.winners);
  }

 private:
  void add_wire(const Fiber& fiber, const DeviceGapTables& gaps) {
    Wire wire;
    EdgeSearchLaunch& search = wire.search;
    search.batch = batch_;
    search.link = {fiber, params_.areas[fiber.source], params_.areas[fiber.target]};
    search.gaps = gaps;
    if (wire.procedural()) {
      wire.keys = workspace_.template take<uint64_t>(params_.brains);
    }
    if (fiber_of(wire).searches()) {
      const int64_t rows = params_.brains * search.link.source.k;
      search.blocks = gaps.empty ? 0 : block_count(gaps, search.link.target.n);
      search.newest = workspace_.template take<int32_t>(params_.brains * search.blocks);
      search.found = workspace_.template take<int32_t>(rows);
      search.first_chunk = workspace_.template take<int32_t>(rows);
      search.field = 1 + static_cast<int64_t>(wires_.size());
    }
    wires_.push_back(wire);
  }

  bool is_target(int32_t area) const {
    const auto into = [area](const auto& sends) { return sends.target == area; };
    return std::any_of(params_.fibers, params_.fibers + params_.fiber_count, into) ||
           std::any_of(params_.stimuli, params_.stimuli + params_.stimulus_count, into);
  }

  void add_target(int32_t index) {
    const Area& area = params_.areas[index];
    Target target;
    target.area = index;
    target.marks.last_round = workspace_.template take<int32_t>(params_.brains * area.capacity);
    bool searched = false;
    for (const Wire& wire : wires_) {
      if (wire.link().fiber.target == index) {
        searched = searched || fiber_of(wire).searches();
        target.shift = wire.link().fiber.scale != nullptr ? kScaledBits : target.shift;
      }
    }
    if (searched) {
      target.marks.bits = workspace_.template take<uint32_t>(params_.brains * bit_words(area.n));
      for (Wire& wire : wires_) {
        if (wire.link().fiber.target == index) {
          wire.search.bits = target.marks.bits;
        }
      }
    }
    targets_.push_back(target);
  }

  // The memory of what is ranked and of what is chosen. In the short way areas of one size are chosen by one selection;
  // else one after the other, whose inputs take turns in one array.
  void add_selections() {
    int64_t most_neurons = 0;
    for (const Target& target : targets_) {
      most_neurons = std::max(most_neurons, small_ || area_of(target).fixed ? 0 : area_of(target).n);
    }
    auto* const in_turn = workspace_.template take<int64_t>(params_.brains * most_neurons);
    std::vector<bool> done(targets_.size());
    for (size_t t = 0; t < targets_.size(); ++t) {
      const Area& area = area_of(targets_[t]);
      std::vector<Target*> together;
      for (size_t other = t; other < targets_.size(); ++other) {
        const Area& own = area_of(targets_[other]);
        const bool alike = other == t || (small_ && own.n == area.n && own.k == area.k);
        if (alike && !own.fixed && !done[other]) {
          together.push_back(&targets_[other]);
          done[other] = true;
        }
      }
      if (together.empty()) {
        continue;
      }
      const int64_t rows = params_.brains * static_cast<int64_t>(together.size());
      auto* inputs = small_ ? workspace_.template take<int64_t>(rows * area.n) : in_turn;
      auto* winners = workspace_.template take<int64_t>(rows * area.k);
      selections_.push_back(selection_of(area, inputs, winners, rows));
      if (area.keyed_ties) {
        selections_.back().values = workspace_.template take<int64_t>(rows * area.k);
      }
      for (Target* target : together) {
        target->inputs = inputs;
        target->winners = winners;
        inputs = offset_of(inputs, params_.brains * area.n);
        winners = offset_of(winners, params_.brains * area.k);
      }
    }
  }

  static WinnersParams selection_of(const Area& area, const int64_t* inputs, int64_t* winners, int64_t rows) {
    WinnersParams params;
    params.input = inputs;
    params.indices = winners;
    params.rows = rows;
    params.n = area.n;
    params.k = area.k;
    params.row_stride = area.n;
    params.element = Element::kInt64;
    return params;
  }

  void run_small() {
    SmallRounds call;
    call.batch = batch_;
    call.changes = changes_;
    call.excess = excess_;
    call.area_count = static_cast<int32_t>(params_.area_count);
    call.target_count = static_cast<int32_t>(targets_.size());
    call.wire_count = static_cast<int32_t>(wires_.size());
    call.stimulus_count = static_cast<int32_t>(params_.stimulus_count);
    std::copy_n(params_.areas, params_.area_count, call.areas);
    std::copy(targets_.begin(), targets_.end(), call.targets);
    std::copy(wires_.begin(), wires_.end(), call.wires);
    std::copy_n(params_.stimuli, params_.stimulus_count, call.stimuli);
    const dim3 a_block_a_brain(1, static_cast<unsigned>(std::min(batch_.brains, kMaxGridYZ)));
    launch_("begin_small_rounds_kernel", begin_small_rounds_kernel, a_block_a_brain, dim3(kSmallThreads),
            kSlotSharedBytes, call, kept_);
    for (int64_t round = 0; round <= params_.rounds; ++round) {
      const bool more = round < params_.rounds;
      launch_("small_rounds_kernel", small_rounds_kernel, a_block_a_brain, dim3(kSmallThreads), kSmallSharedBytes,
              kept_, static_cast<int32_t>(round), more);
      for (size_t s = 0; more && s < selections_.size(); ++s) {
        launch_.select_top(selections_[s], selection_memory_);
      }
    }
  }

  // A grid whose x direction does `work` items and whose y direction brains.
  dim3 over(int64_t work, int64_t brains, int64_t per_block = kRoundThreads) const {
    constexpr int64_t kMostBlocks = 4096;
    dim3 grid = grid_for(std::max<int64_t>(1, work), per_block, kMostBlocks);
    grid.y = static_cast<unsigned>(std::min(brains, kMaxGridYZ));
    return grid;
  }
  dim3 over(int64_t work) const {
    return over(work, batch_.brains);
  }
  // A warp an item.
  dim3 over_warps(int64_t work) const {
    return over(work, batch_.brains, kRoundThreads / kWarpSize);
  }

  // `each` elements a brain
  template <typename T>
  void fill(T* out, int64_t each, T value) {
    if (each > 0) {
      launch_("fill_kernel", fill_kernel<T>, over(each), dim3(kRoundThreads), 0, out, batch_.brains, each, value);
    }
  }

  void add_slots(const Area& area, const Firing& firing, const SlotMarks& marks, int32_t round) {
    launch_("add_slots_kernel", add_slots_kernel, over(1), dim3(kSlotThreads), kSlotSharedBytes, batch_, area, firing,
            marks, round);
  }

  void set_up() {
    launch_("begin_rounds_kernel", begin_rounds_kernel, over(batch_.brains, 1), dim3(kRoundThreads), 0, batch_,
            changes_);
    for (const Wire& wire : wires_) {
      if (wire.procedural()) {
        launch_("fiber_keys_kernel", fiber_keys_kernel, over(batch_.brains, 1), dim3(kRoundThreads), 0,
                wire.link().fiber, batch_.brains, wire.keys);
      }
      if (fiber_of(wire).searches()) {
        // Once: slots are only added, so that their maximum never falls.
        fill(wire.search.newest, wire.search.blocks, -1);
      }
    }
    for (const Target& target : targets_) {
      fill(target.marks.last_round, area_of(target).capacity, 0);
      if (target.marks.bits != nullptr) {
        fill(target.marks.bits, bit_words(area_of(target).n), 0u);
      }
    }
    // Winners that were set from outside may have no slots yet.
    for (int64_t a = 0; a < params_.area_count; ++a) {
      const Area& area = params_.areas[a];
      add_slots(area, {area.winners, area.winner_count}, {}, 0);
    }
    for (const Target& target : targets_) {
      if (target.marks.bits != nullptr) {
        launch_("mark_slots_kernel", mark_slots_kernel, over(area_of(target).capacity), dim3(kRoundThreads), 0, batch_,
                area_of(target), target.marks);
      }
    }
  }

  void deliver(const Wire& wire) {
    const Link& link = wire.link();
    launch_("find_changes_kernel", find_changes_kernel, over(2 * link.source.k), dim3(kRoundThreads), 0, batch_,
            link.fiber, link.source, link.target, changes_);
    launch_("plan_delivery_kernel", plan_delivery_kernel, over(batch_.brains, 1), dim3(kRoundThreads), 0, batch_,
            link.fiber, link.source, changes_);
    launch_("start_delivery_kernel", start_delivery_kernel, over(std::max(link.target.n, link.source.k)),
            dim3(kRoundThreads), 0, batch_, link.fiber, link.source, link.target, changes_);
    launch_.deliver(wire.delivery(changes_));
  }

  void add_inputs(const Target& target) {
    const Area& area = area_of(target);
    bool first = true;
    for (const Wire& wire : wires_) {
      if (fiber_of(wire).target != target.area) {
        continue;
      }
      if (wire.procedural()) {
        deliver(wire);
      }
      const Link& link = wire.link();
      launch_("clear_excess_kernel", clear_excess_kernel, over(area.capacity), dim3(kRoundThreads), 0, batch_, area,
              excess_);
      launch_("add_excess_kernel", add_excess_kernel, over_warps(link.source.k), dim3(kRoundThreads), 0, batch_, link,
              excess_);
      launch_("add_fiber_inputs_kernel", add_fiber_inputs_kernel, over(area.n), dim3(kRoundThreads), 0, batch_,
              link.fiber, link.source, area, excess_, target.inputs, target.shift, first);
      first = false;
    }
    for (const Stimulus& stimulus : stimuli()) {
      if (stimulus.target == target.area) {
        launch_("add_stimulus_inputs_kernel", add_stimulus_inputs_kernel, over(area.n), dim3(kRoundThreads), 0, batch_,
                stimulus, area, target.inputs, target.shift, first);
        first = false;
      }
    }
    if (area.bias != nullptr || area.last_win != nullptr) {
      launch_("subtract_penalties_kernel", subtract_penalties_kernel, over(area.n), dim3(kRoundThreads), 0, batch_,
              area, target.inputs, target.shift);
    }
  }

  void choose(const Target& target, const WinnersParams& selection) {
    launch_.select_top(selection, selection_memory_);
    const Area& area = area_of(target);
    if (area.keyed_ties) {
      launch_("rank_ties_kernel", rank_ties_kernel, over(area.n), dim3(kRoundThreads), kTieSharedBytes, batch_, area,
              static_cast<const int64_t*>(selection.values), target.inputs);
      launch_.select_top(selection, selection_memory_);
    }
  }

  void launch_search(const char* name, void (*two_level)(EdgeSearchLaunch), void (*one_level)(EdgeSearchLaunch),
                     const EdgeSearchLaunch& search) {
    launch_(name, search.gaps.two_level ? two_level : one_level, table_grid(search.link.source.k, batch_.brains),
            dim3(kConnectomeThreads), search.gaps.two_level ? kGapSharedBytes<true> : kGapSharedBytes<false>, search);
  }

  void search(const EdgeSearchLaunch& search) {
    if (search.blocks > 0) {
      launch_("newest_slots_kernel", newest_slots_kernel, over(search.link.target.capacity), dim3(kRoundThreads), 0,
              search);
    }
    launch_search("count_edges_kernel", count_edges_kernel<true>, count_edges_kernel<false>, search);
    launch_("allot_chunks_kernel", allot_chunks_kernel, over(1), dim3(kSlotThreads), kSlotSharedBytes, search);
  }

  const RoundsLaunch& params_;
  const Device& launch_;
  WorkspaceCarver workspace_;
  const bool small_;
  Batch batch_;
  Changes changes_;
  std::vector<Wire> wires_;
  std::vector<Target> targets_;
  std::vector<WinnersParams> selections_;
  int64_t* excess_ = nullptr;
  int32_t round_ = 0;
  size_t chosen_ = 0;  // targets of the round
  SmallRounds* kept_ = nullptr;
  unsigned char* selection_memory_ = nullptr;
};

}  // namespace torch_hrr::kernels
