// The kernels of rounds in their order, and how the workspace is divided.
//
// A Device has a call operator as DeviceLauncher's, deliver(DeliverLaunch), select_top(WinnersParams, workspace) and
// select_bytes(WinnersParams): the launches of the connectome and of k_winners.
//
// A round, all of it for every brain that runs:
//   for every target   base counts brought up to date, inputs of all neurons, selection; a fixed area keeps its winners
//   for every target   slots for winners that have none
//   for every fiber    edges into new slots counted, their chunks numbered; then, where all of them fit, filed
//   for every target   plasticity;  then  commit
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/assembly/edges.cuh"
#include "kernels/assembly/rounds_launch.h"
#include "kernels/assembly/winners.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/workspace.h"

namespace torch_hrr::kernels {

template <typename Device>
class RoundsLauncher {
 public:
  RoundsLauncher(const RoundsLaunch& params, void* memory, const Device& device)
      : params_(params), launch_(device), workspace_(memory) {
    const int64_t brains = params.brains;
    batch_.brains = brains;
    batch_.progress = params.progress;
    batch_.fields = 1 + params.fiber_count;
    batch_.running = workspace_.template take<int32_t>(brains);
    batch_.fits = workspace_.template take<int32_t>(brains);
    int64_t most_rows = 0;
    for (int64_t f = 0; f < params.fiber_count; ++f) {
      add_fiber(params.fibers[f], params.gaps[f]);
      most_rows = std::max(most_rows, 2 * params.areas[params.fibers[f].source].k);
    }
    changes_.rows = workspace_.template take<int64_t>(brains * most_rows);
    changes_.signs = workspace_.template take<int32_t>(brains * most_rows);
    changes_.found = workspace_.template take<int32_t>(brains);
    changes_.row_counts = workspace_.template take<int32_t>(brains);
    changes_.from_zero = workspace_.template take<int32_t>(brains);
    int64_t most_neurons = 0;
    int64_t most_slots = 0;
    int64_t most_bytes = 0;
    for (int32_t a = 0; a < params.area_count; ++a) {
      add_target(a);
      const Area& area = params.areas[a];
      if (!targets_.empty() && targets_.back().index == a && !area.fixed) {
        most_neurons = std::max(most_neurons, area.n);
        most_slots = std::max(most_slots, area.capacity);
        most_bytes = std::max(most_bytes, launch_.select_bytes(winners_of(area, nullptr)));
      }
    }
    excess_ = workspace_.template take<int64_t>(brains * most_slots);
    inputs_ = workspace_.template take<int64_t>(brains * most_neurons);
    selection_ = workspace_.template take<unsigned char>(most_bytes);
  }

  int64_t bytes() const {
    return workspace_.used();
  }

  void run() {
    launch_("begin_rounds_kernel", begin_rounds_kernel, over(batch_.brains, 1), dim3(kRoundThreads), 0, batch_);
    fill(changes_.found, batch_.brains, 0);
    for (const Wire& wire : wires_) {
      if (wire.procedural) {
        launch_("fiber_keys_kernel", fiber_keys_kernel, over(batch_.brains, 1), dim3(kRoundThreads), 0, wire.link.fiber,
                batch_.brains, wire.keys);
      }
      if (wire.searches()) {
        // Once: slots are only added, so that their maximum never falls.
        fill(wire.search.newest, batch_.brains * wire.search.blocks, -1);
      }
    }
    for (const Target& target : targets_) {
      fill(target.marks.last_round, batch_.brains * target.area.capacity, 0);
      if (target.marks.bits != nullptr) {
        fill(target.marks.bits, batch_.brains * bit_words(target.area.n), 0u);
      }
    }
    // Winners that were set from outside may have no slots yet.
    for (int64_t a = 0; a < params_.area_count; ++a) {
      const Area& area = params_.areas[a];
      add_slots(area, {area.winners, area.winner_count}, {}, 0);
    }
    for (const Target& target : targets_) {
      if (target.marks.bits != nullptr) {
        launch_("mark_slots_kernel", mark_slots_kernel, over(target.area.capacity), dim3(kRoundThreads), 0, batch_,
                target.area, target.marks);
      }
    }
    for (int64_t round = 1; round <= params_.rounds; ++round) {
      run_round(static_cast<int32_t>(round));
    }
  }

 private:
  // A fiber, and what a search for its edges takes where it learns.
  struct Wire {
    Link link;
    bool procedural = false;
    DeviceGapTables gaps;
    uint64_t* keys = nullptr;
    EdgeSearchLaunch search;

    bool searches() const {
      return procedural && link.fiber.learns();
    }
  };
  struct Target {
    int32_t index = 0;
    Area area;
    std::vector<size_t> wires;
    std::vector<Stimulus> stimuli;
    SlotMarks marks;
    int64_t* winners = nullptr;  // the new ones; null: the area is fixed

    Firing firing() const {
      return winners != nullptr ? Firing{winners, nullptr} : Firing{area.winners, area.winner_count};
    }
  };

  WinnersParams winners_of(const Area& area, int64_t* indices) const {
    WinnersParams params;
    params.input = inputs_;
    params.indices = indices;
    params.rows = params_.brains;
    params.n = area.n;
    params.k = area.k;
    params.row_stride = area.n;
    params.element = Element::kInt64;
    return params;
  }

  void add_fiber(const Fiber& fiber, const DeviceGapTables& gaps) {
    Wire wire;
    wire.link = {fiber, params_.areas[fiber.source], params_.areas[fiber.target]};
    wire.procedural = fiber.connectome != nullptr;
    wire.gaps = gaps;
    const Area& source = wire.link.source;
    if (wire.procedural) {
      wire.keys = workspace_.template take<uint64_t>(params_.brains);
    }
    if (wire.searches()) {
      EdgeSearchLaunch& search = wire.search;
      search.batch = batch_;
      search.link = wire.link;
      search.gaps = gaps;
      search.blocks = gaps.empty ? 0 : block_count(gaps, wire.link.target.n);
      search.newest = workspace_.template take<int32_t>(params_.brains * search.blocks);
      search.found = workspace_.template take<int32_t>(params_.brains * source.k);
      search.first_chunk = workspace_.template take<int32_t>(params_.brains * source.k);
      search.field = 1 + static_cast<int64_t>(wires_.size());
    }
    wires_.push_back(wire);
  }

  void add_target(int32_t index) {
    Target target;
    target.index = index;
    target.area = params_.areas[index];
    bool searched = false;
    for (size_t w = 0; w < wires_.size(); ++w) {
      if (wires_[w].link.fiber.target == index) {
        target.wires.push_back(w);
        searched = searched || wires_[w].searches();
      }
    }
    for (int64_t s = 0; s < params_.stimulus_count; ++s) {
      if (params_.stimuli[s].target == index) {
        target.stimuli.push_back(params_.stimuli[s]);
      }
    }
    if (target.wires.empty() && target.stimuli.empty()) {
      return;
    }
    target.marks.last_round = workspace_.template take<int32_t>(params_.brains * target.area.capacity);
    if (searched) {
      target.marks.bits = workspace_.template take<uint32_t>(params_.brains * bit_words(target.area.n));
      for (const size_t w : target.wires) {
        wires_[w].search.bits = target.marks.bits;
      }
    }
    if (!target.area.fixed) {
      target.winners = workspace_.template take<int64_t>(params_.brains * target.area.k);
    }
    targets_.push_back(target);
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

  template <typename T>
  void fill(T* out, int64_t count, T value) {
    if (count > 0) {
      launch_("fill_kernel", fill_kernel<T>, over(count, 1), dim3(kRoundThreads), 0, out, count, value);
    }
  }

  void add_slots(const Area& area, const Firing& firing, const SlotMarks& marks, int32_t round) {
    launch_("add_slots_kernel", add_slots_kernel, over(1), dim3(kSlotThreads), kSlotSharedBytes, batch_, area, firing,
            marks, round);
  }

  void run_round(int32_t round) {
    for (const Target& target : targets_) {
      if (target.winners != nullptr) {
        choose(target);
      }
    }
    for (const Target& target : targets_) {
      add_slots(target.area, target.firing(), target.marks, round);
    }
    for (const Wire& wire : wires_) {
      if (wire.searches()) {
        search(wire);
      }
    }
    for (const Wire& wire : wires_) {
      if (wire.searches()) {
        launch_search("append_edges_kernel", append_edges_kernel<true>, append_edges_kernel<false>, wire);
      }
    }
    for (const Target& target : targets_) {
      potentiate(target, round);
    }
    for (const Target& target : targets_) {
      if (target.area.last_win != nullptr) {
        launch_("age_kernel", age_kernel, over(target.area.n), dim3(kRoundThreads), 0, batch_, target.area);
      }
      if (target.winners != nullptr) {
        launch_("commit_kernel", commit_kernel, over(target.area.k), dim3(kRoundThreads), 0, batch_, target.area,
                target.winners);
      }
    }
    launch_("end_round_kernel", end_round_kernel, over(batch_.brains, 1), dim3(kRoundThreads), 0, batch_);
  }

  void deliver(const Wire& wire) {
    const Link& link = wire.link;
    launch_("find_changes_kernel", find_changes_kernel, over(2 * link.source.k), dim3(kRoundThreads), 0, batch_,
            link.fiber, link.source, link.target, changes_);
    launch_("plan_delivery_kernel", plan_delivery_kernel, over(batch_.brains, 1), dim3(kRoundThreads), 0, batch_,
            link.fiber, link.source, changes_);
    launch_("start_delivery_kernel", start_delivery_kernel, over(std::max(link.target.n, link.source.k)),
            dim3(kRoundThreads), 0, batch_, link.fiber, link.source, link.target, changes_);
    DeliverLaunch params;
    params.gaps = wire.gaps;
    params.keys = wire.keys;
    params.rows = changes_.rows;
    params.row_counts = changes_.row_counts;
    params.signs = changes_.signs;
    params.batches = batch_.brains;
    params.row_count = 2 * link.source.k;
    params.n = link.target.n;
    params.counts = link.fiber.counts;
    launch_.deliver(params);
  }

  // The winners of a target: the k largest inputs.
  void choose(const Target& target) {
    const Area& area = target.area;
    int shift = 0;
    for (const size_t w : target.wires) {
      shift = wires_[w].link.fiber.scale != nullptr ? kScaledBits : shift;
    }
    bool first = true;
    for (const size_t w : target.wires) {
      const Wire& wire = wires_[w];
      if (wire.procedural) {
        deliver(wire);
      }
      launch_("clear_excess_kernel", clear_excess_kernel, over(area.capacity), dim3(kRoundThreads), 0, batch_, area,
              excess_);
      launch_("add_excess_kernel", add_excess_kernel, over_warps(wire.link.source.k), dim3(kRoundThreads), 0, batch_,
              wire.link, excess_);
      launch_("add_fiber_inputs_kernel", add_fiber_inputs_kernel, over(area.n), dim3(kRoundThreads), 0, batch_,
              wire.link.fiber, wire.link.source, area, excess_, inputs_, shift, first);
      first = false;
    }
    for (const Stimulus& stimulus : target.stimuli) {
      launch_("add_stimulus_inputs_kernel", add_stimulus_inputs_kernel, over(area.n), dim3(kRoundThreads), 0, batch_,
              stimulus, area, inputs_, shift, first);
      first = false;
    }
    if (area.bias != nullptr || area.last_win != nullptr) {
      launch_("subtract_penalties_kernel", subtract_penalties_kernel, over(area.n), dim3(kRoundThreads), 0, batch_,
              area, inputs_, shift);
    }
    launch_.select_top(winners_of(area, target.winners), selection_);
  }

  void launch_search(const char* name, void (*two_level)(EdgeSearchLaunch), void (*one_level)(EdgeSearchLaunch),
                     const Wire& wire) {
    launch_(name, wire.gaps.two_level ? two_level : one_level, table_grid(wire.link.source.k, batch_.brains),
            dim3(kConnectomeThreads), wire.gaps.two_level ? kGapSharedBytes<true> : kGapSharedBytes<false>,
            wire.search);
  }

  void search(const Wire& wire) {
    if (wire.search.blocks > 0) {
      launch_("newest_slots_kernel", newest_slots_kernel, over(wire.link.target.capacity), dim3(kRoundThreads), 0,
              wire.search);
    }
    launch_search("count_edges_kernel", count_edges_kernel<true>, count_edges_kernel<false>, wire);
    launch_("allot_chunks_kernel", allot_chunks_kernel, over(1), dim3(kSlotThreads), kSlotSharedBytes, wire.search);
  }

  void potentiate(const Target& target, int32_t round) {
    for (const size_t w : target.wires) {
      const Wire& wire = wires_[w];
      if (wire.link.fiber.learns()) {
        launch_("potentiate_kernel", potentiate_kernel, over_warps(wire.link.source.k), dim3(kRoundThreads), 0, batch_,
                wire.link, target.marks.last_round, round);
      }
    }
    for (const Stimulus& stimulus : target.stimuli) {
      if (stimulus.learns()) {
        launch_("potentiate_stimulus_kernel", potentiate_stimulus_kernel, over(target.area.k), dim3(kRoundThreads), 0,
                batch_, stimulus, target.area, target.firing());
      }
    }
  }

  const RoundsLaunch& params_;
  const Device& launch_;
  WorkspaceCarver workspace_;
  Batch batch_;
  Changes changes_;
  std::vector<Wire> wires_;
  std::vector<Target> targets_;
  int64_t* excess_ = nullptr;
  int64_t* inputs_ = nullptr;
  unsigned char* selection_ = nullptr;
};

}  // namespace torch_hrr::kernels
