// Rounds of brains whose areas are small: one block a brain does everything that lies between two selections.
//
// A phase over some thousands of neurons takes a block about as long as its launch would take. The phases are those of
// rounds.cuh and edges.cuh, with a barrier where the next one reads what another thread has written.
#pragma once

#include <algorithm>

#include "kernels/assembly/edges.cuh"
#include "kernels/assembly/round_script.h"
#include "kernels/cuda/launch.cuh"

namespace torch_hrr::kernels {

constexpr int kSmallThreads = 512;

// What is small, by estimates: no GPU has run this. A launch takes some 4,000 cycles, and a phase over 4096 neurons no
// more. The twelve launches of a fiber that learns, 48,000 cycles, are 320 draws of a row by the warps of a block at
// 150 cycles each, and a round seldom draws all rows that it might; or 100 chunks that each of 16 warps follows, at
// 500. More brains than a few for each multiprocessor fill the GPU either way.
constexpr int64_t kSmallNeurons = 4096;
constexpr int64_t kSmallDraws = 512;    // of a fiber
constexpr int64_t kSmallChunks = 2048;  // of a fiber
constexpr int64_t kSmallBrains = 512;

// A call. It travels as a parameter of its first kernel, which leaves it in memory for those that follow.
struct SmallRounds {
  static constexpr bool kRoomy = kMaxParameterBytes > 4096;
  static constexpr int kAreas = kRoomy ? 16 : 4;
  static constexpr int kFibers = kRoomy ? 32 : 4;
  static constexpr int kStimuli = kRoomy ? 16 : 4;

  Batch batch;
  Changes changes;
  int64_t* excess = nullptr;  // [brains, slots of the target], with room for the largest; of one fiber after the other
  int32_t area_count = 0;
  int32_t target_count = 0;
  int32_t wire_count = 0;
  int32_t stimulus_count = 0;
  Area areas[kAreas];
  Target targets[kAreas];
  Wire wires[kFibers];
  Stimulus stimuli[kStimuli];
};
constexpr std::size_t kSmallSharedBytes = std::max(kGapSharedBytes<true>, kSlotSharedBytes);

template <typename T>
KERNEL_DEVICE void copy_by_threads(T* out, const T* in, int32_t count) {
  for (int32_t i = thread_rank(); i < count; i += block_threads()) {
    out[i] = in[i];
  }
}

// What is used of a call.
KERNEL_DEVICE void keep_call(const SmallRounds& call, SmallRounds& kept) {
  if (thread_rank() == 0) {
    kept.batch = call.batch;
    kept.changes = call.changes;
    kept.excess = call.excess;
    kept.area_count = call.area_count;
    kept.target_count = call.target_count;
    kept.wire_count = call.wire_count;
    kept.stimulus_count = call.stimulus_count;
  }
  copy_by_threads(kept.areas, call.areas, call.area_count);
  copy_by_threads(kept.targets, call.targets, call.target_count);
  copy_by_threads(kept.wires, call.wires, call.wire_count);
  copy_by_threads(kept.stimuli, call.stimuli, call.stimulus_count);
}

template <typename Body>
KERNEL_DEVICE void for_each_searching_wire(const SmallRounds& call, const Body& body) {
  for (int32_t w = 0; w < call.wire_count; ++w) {
    if (call.wires[w].link().fiber.searches()) {
      body(call.wires[w].search);
    }
  }
}

__global__ void __launch_bounds__(kSmallThreads) begin_small_rounds_kernel(SmallRounds call, SmallRounds* kept) {
  if (blockIdx.y == 0) {
    keep_call(call, *kept);
  }
  const Batch& batch = call.batch;
  begin_rounds(batch, call.changes);
  for (int32_t w = 0; w < call.wire_count; ++w) {
    const Wire& wire = call.wires[w];
    if (wire.procedural()) {
      make_fiber_keys(wire.link().fiber, batch.brains, wire.keys);
    }
    if (wire.link().fiber.searches()) {
      fill_brains(wire.search.newest, batch.brains, wire.search.blocks, -1);
    }
  }
  for (int32_t t = 0; t < call.target_count; ++t) {
    const Target& target = call.targets[t];
    const Area& area = call.areas[target.area];
    fill_brains(target.marks.last_round, batch.brains, area.capacity, 0);
    if (target.marks.bits != nullptr) {
      fill_brains(target.marks.bits, batch.brains, bit_words(area.n), 0u);
    }
  }
  block_sync();
  for (int32_t a = 0; a < call.area_count; ++a) {
    const Area& area = call.areas[a];
    add_slots(batch, area, {area.winners, area.winner_count}, {}, 0);
    block_sync();
  }
  for (int32_t t = 0; t < call.target_count; ++t) {
    const Target& target = call.targets[t];
    if (target.marks.bits != nullptr) {
      mark_slots(batch, call.areas[target.area], target.marks);
    }
  }
}

// What the selection ranks, of one area.
KERNEL_DEVICE void add_small_inputs(const SmallRounds& call, const Target& target) {
  const Batch& batch = call.batch;
  const Area& area = call.areas[target.area];
  bool first = true;
  for (int32_t w = 0; w < call.wire_count; ++w) {
    const Wire& wire = call.wires[w];
    const Link& link = wire.link();
    if (link.fiber.target != target.area) {
      continue;
    }
    clear_excess(batch, area, call.excess);
    if (wire.procedural()) {
      find_changes(batch, link.fiber, link.source, area, call.changes);
      block_sync();
      plan_delivery(batch, link.fiber, link.source, call.changes);
      block_sync();
      start_delivery(batch, link.fiber, link.source, area, call.changes);
      block_sync();
      const DeliverLaunch delivery = wire.delivery(call.changes);
      if (!delivery.gaps.empty && delivery.gaps.two_level) {
        deliver_edges<true>(delivery);
      } else if (!delivery.gaps.empty) {
        deliver_edges<false>(delivery);
      }
    } else {
      block_sync();
    }
    add_excess(batch, link, call.excess);
    block_sync();
    add_fiber_inputs(batch, link.fiber, link.source, area, call.excess, target.inputs, target.shift, first);
    block_sync();
    first = false;
  }
  // Here a thread adds to the neurons that it has written itself.
  for (int32_t s = 0; s < call.stimulus_count; ++s) {
    if (call.stimuli[s].target == target.area) {
      add_stimulus_inputs(batch, call.stimuli[s], area, target.inputs, target.shift, first);
      first = false;
    }
  }
  if (area.bias != nullptr || area.last_win != nullptr) {
    subtract_penalties(batch, area, target.inputs, target.shift);
  }
}

// Edges into the slots of new winners.
KERNEL_DEVICE void search_small(const SmallRounds& call) {
  for_each_searching_wire(call, [&](const EdgeSearchLaunch& search) {
    if (search.blocks > 0) {
      find_newest_slots(search);
    }
  });
  for_each_searching_wire(call, [&](const EdgeSearchLaunch& search) {
    block_sync();
    if (search.gaps.two_level) {
      count_new_edges<true>(search);
    } else {
      count_new_edges<false>(search);
    }
  });
  block_sync();
  for_each_searching_wire(call, [&](const EdgeSearchLaunch& search) { allot_chunks(search); });
}

// The phases of round_script.h, done by one block.
struct SmallPlace {
  const SmallRounds& call;
  int32_t round;

  KERNEL_DEVICE const Fiber& fiber_of(const Wire& wire) const {
    return wire.link().fiber;
  }
  KERNEL_DEVICE const Area& area_of(const Target& target) const {
    return call.areas[target.area];
  }
  KERNEL_DEVICE void barrier() const {
    block_sync();
  }
  KERNEL_DEVICE Items<const Wire> fibers() const {
    return {call.wires, call.wire_count};
  }
  KERNEL_DEVICE Items<const Target> targets() const {
    return {call.targets, call.target_count};
  }
  KERNEL_DEVICE Items<const Stimulus> stimuli() const {
    return {call.stimuli, call.stimulus_count};
  }
  KERNEL_DEVICE void refresh_scales(const Wire& wire) const {
    kernels::refresh_scales(call.batch, wire.link());
  }
  KERNEL_DEVICE void choose(const Target& target) const {
    add_small_inputs(call, target);
  }
  KERNEL_DEVICE void add_slots(const Target& target) const {
    kernels::add_slots(call.batch, area_of(target), target.firing(area_of(target)), target.marks, round);
  }
  // Whether edges have memory is each brain's to say.
  KERNEL_DEVICE bool search() const {
    search_small(call);
    return true;
  }
  KERNEL_DEVICE void file(const Wire& wire) const {
    if (wire.search.gaps.two_level) {
      append_edges<true>(wire.search);
    } else {
      append_edges<false>(wire.search);
    }
  }
  KERNEL_DEVICE void potentiate_fiber(const Target& target, const Wire& wire) const {
    potentiate_edges(call.batch, wire.link(), target.marks.last_round, round);
  }
  KERNEL_DEVICE void potentiate_stimulus(const Target& target, const Stimulus& stimulus) const {
    kernels::potentiate_stimulus(call.batch, stimulus, area_of(target), target.firing(area_of(target)));
  }
  KERNEL_DEVICE void age(const Target& target) const {
    age_neurons(call.batch, area_of(target));
  }
  KERNEL_DEVICE void commit(const Target& target) const {
    commit_winners(call.batch, area_of(target), target.winners);
  }
};

// Between two selections: the end of one round, if there was one, and the inputs of the next, if one follows.
__global__ void __launch_bounds__(kSmallThreads)
    small_rounds_kernel(const SmallRounds* kept, int32_t finished, bool more) {
  // Read where it is needed: what a thread held in registers of all these pointers would be too much.
  const SmallRounds& call = *kept;
  if (finished > 0) {
    const SmallPlace place{call, finished};
    run_second_half(place);
    block_sync();
    end_round(call.batch);
    block_sync();
  }
  if (more) {
    const SmallPlace place{call, finished};
    run_first_half(place);
  }
}

}  // namespace torch_hrr::kernels
