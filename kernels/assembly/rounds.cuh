// Phases of a round of brains: slots, counts that follow the winners, inputs, plasticity of stimuli, commit. Each is a
// function, and a kernel that does nothing else; the kernel of small_rounds.cuh does one after the other.
//
// Blocks (., y) work for brains y, y + gridDim.y, ..., in grids of any size. Every sum is one of integers and slots are
// numbered by a scan, so no order of blocks, threads or atomics shows in the state.
#pragma once

#include "kernels/assembly/brain.h"
#include "kernels/cuda/grid.cuh"

namespace torch_hrr::kernels {

constexpr int kRoundThreads = 256;
constexpr int kSlotThreads = 1024;  // of a block that numbers the slots of a brain
constexpr std::size_t kSlotSharedBytes = kWarpSize * sizeof(int64_t);
constexpr std::size_t kTieSharedBytes = kRoundThreads / kWarpSize * sizeof(int64_t);

// Which brains of a batch take part.
struct Batch {
  int64_t brains = 0;
  int64_t* progress = nullptr;  // as in RoundsLaunch
  int64_t fields = 0;           // of a brain's progress
  int32_t* running = nullptr;   // [brains]
  int32_t* fits = nullptr;      // [brains] whether the edges of the round have memory

  KERNEL_DEVICE bool commits(int64_t b) const {
    return running[b] != 0 && fits[b] != 0;
  }
};

// body(b), called by a whole block, for the running brains of its y.
template <typename Body>
KERNEL_DEVICE void for_each_running(const Batch& batch, const Body& body) {
  for (int64_t b = blockIdx.y; b < batch.brains; b += gridDim.y) {
    if (batch.running[b] != 0) {
      body(b);
    }
  }
}

// body(b) for this thread's share of all brains: the threads of the x direction share those of their y.
template <typename Body>
KERNEL_DEVICE void for_each_brain_of_threads(int64_t brains, const Body& body) {
  const int64_t own = (brains + gridDim.y - 1 - blockIdx.y) / gridDim.y;
  for_each_of_grid(own, [&](int64_t i) { body(blockIdx.y + i * gridDim.y); });
}

// The neurons that an area fires with, or will: [brains, k], by ascending index.
struct Firing {
  const int64_t* neurons = nullptr;
  const int64_t* counts = nullptr;  // [brains], or null: k

  KERNEL_DEVICE int64_t count(const Area& area, int64_t b) const {
    return counts != nullptr ? counts[b] : area.k;
  }
  KERNEL_DEVICE const int64_t* of_brain(const Area& area, int64_t b) const {
    return neurons + b * area.k;
  }
};

// The place of every lane that asks for one, from a counter that all of them share.
template <typename T>
KERNEL_DEVICE T places_of_warp(bool asks, T* counter) {
  const uint32_t asking = warp_ballot(asks);
  T first = 0;
  if (asking != 0 && lane_index() == 0) {
    first = atomicAdd(counter, static_cast<T>(__popc(asking)));
  }
  return shuffle(first, 0) + static_cast<T>(__popc(asking & ((1u << lane_index()) - 1)));
}

KERNEL_DEVICE unsigned long long* as_counter(int64_t* value) {
  return reinterpret_cast<unsigned long long*>(value);
}

// out[b, i] = value for i < each
template <typename T>
KERNEL_DEVICE void fill_brains(T* out, int64_t brains, int64_t each, T value) {
  for (int64_t b = blockIdx.y; b < brains; b += gridDim.y) {
    for_each_of_grid(each, [&](int64_t i) { out[b * each + i] = value; });
  }
}
template <typename T>
__global__ void fill_kernel(T* out, int64_t brains, int64_t each, T value) {
  fill_brains(out, brains, each, value);
}

// Rows of a fiber whose edges are to be added to its counts or taken away.
struct Changes {
  int64_t* rows = nullptr;        // [brains, 2 k]
  int32_t* signs = nullptr;       // [brains, 2 k]
  int32_t* found = nullptr;       // [brains] neurons that came or left: 0 between two fibers
  int32_t* row_counts = nullptr;  // [brains] rows to deliver
  int32_t* from_zero = nullptr;   // [brains] whether the counts start anew
};

KERNEL_DEVICE void begin_rounds(const Batch& batch, const Changes& changes) {
  for_each_brain_of_threads(batch.brains, [&](int64_t b) {
    int64_t* progress = batch.progress + b * batch.fields;
    batch.running[b] = progress[0] > 0 ? 1 : 0;
    batch.fits[b] = 1;
    for (int64_t field = 1; field < batch.fields; ++field) {
      progress[field] = 0;
    }
    changes.found[b] = 0;
  });
}
__global__ void begin_rounds_kernel(Batch batch, Changes changes) {
  begin_rounds(batch, changes);
}

KERNEL_DEVICE void end_round(const Batch& batch) {
  for_each_brain_of_threads(batch.brains, [&](int64_t b) {
    if (batch.commits(b)) {
      batch.progress[b * batch.fields] -= 1;
    }
    batch.running[b] = batch.commits(b) && batch.progress[b * batch.fields] > 0 ? 1 : 0;
  });
}
__global__ void end_round_kernel(Batch batch) {
  end_round(batch);
}

KERNEL_DEVICE void make_fiber_keys(const Fiber& fiber, int64_t brains, uint64_t* keys) {
  for_each_brain_of_threads(
      brains, [&](int64_t b) { keys[b] = key_of_root(root_of_brain(fiber.key_root, fiber.numbers, b), fiber.id); });
}
__global__ void fiber_keys_kernel(Fiber fiber, int64_t brains, uint64_t* keys) {
  make_fiber_keys(fiber, brains, keys);
}

// What a target remembers of its slots: the last round that each one won, and which neurons have one.
struct SlotMarks {
  int32_t* last_round = nullptr;  // [brains, capacity], or null
  uint32_t* bits = nullptr;       // [brains, bit_words(n)], or null

  KERNEL_DEVICE void set_bit(const Area& area, int64_t b, int64_t neuron) const {
    if (bits != nullptr) {
      atomicOr(bits + b * bit_words(area.n) + neuron / 32, 1u << (neuron % 32));
    }
  }
};

// An area that a call sends inputs to, and the memory of its rounds.
struct Target {
  int32_t area = 0;
  int32_t shift = 0;  // of its inputs
  SlotMarks marks;
  // Where the area is not fixed:
  int64_t* inputs = nullptr;   // [brains, n]
  int64_t* winners = nullptr;  // [brains, k] the new ones

  KERNEL_HOST_DEVICE Firing firing(const Area& own) const {
    return own.fixed ? Firing{own.winners, own.winner_count} : Firing{winners, nullptr};
  }
};

KERNEL_DEVICE void mark_slots(const Batch& batch, const Area& area, const SlotMarks& marks) {
  for (int64_t b = blockIdx.y; b < batch.brains; b += gridDim.y) {
    const Area own = area.of_brain(b);
    for_each_of_grid(own.slots[0], [&](int64_t s) { marks.set_bit(area, b, own.neuron_of[s]); });
  }
}
__global__ void mark_slots_kernel(Batch batch, Area area, SlotMarks marks) {
  mark_slots(batch, area, marks);
}

// Slots for the firing neurons that have none, numbered by ascending neuron: a block a brain.
KERNEL_DEVICE void add_slots(const Batch& batch, const Area& area, const Firing& firing, const SlotMarks& marks,
                             int32_t round) {
  auto* const scan = dynamic_shared<int32_t>();
  for_each_running(batch, [&](int64_t b) {
    const Area own = area.of_brain(b);
    const int64_t* neurons = firing.of_brain(area, b);
    const int64_t count = firing.count(area, b);
    const int64_t before = own.slots[0];
    int64_t added = 0;
    for (int64_t tile = 0; tile < count; tile += block_threads()) {
      const int64_t i = tile + thread_rank();
      added += block_count(i < count && own.slot_of[neurons[i]] < 0);
    }
    // Everybody has read what is written now.
    block_sync();
    if (before + added > own.capacity) {
      if (thread_rank() == 0) {
        batch.running[b] = 0;
      }
      return;
    }
    int64_t next = before;
    for (int64_t tile = 0; tile < count; tile += block_threads()) {
      const int64_t i = tile + thread_rank();
      const int64_t neuron = i < count ? neurons[i] : 0;
      int32_t slot = i < count ? own.slot_of[neuron] : 0;
      int32_t total = 0;
      const int32_t lower = block_exclusive_sum<int32_t>(slot < 0 ? 1 : 0, scan, total);
      if (slot < 0) {
        slot = static_cast<int32_t>(next) + lower;
        own.slot_of[neuron] = slot;
        own.neuron_of[slot] = static_cast<int32_t>(neuron);
        own.won[slot] = 0;
        marks.set_bit(area, b, neuron);
      }
      if (i < count && marks.last_round != nullptr) {
        marks.last_round[b * area.capacity + slot] = round;
      }
      next += total;
    }
    if (thread_rank() == 0) {
      own.slots[0] = next;
    }
  });
}
__global__ void __launch_bounds__(kSlotThreads)
    add_slots_kernel(Batch batch, Area area, Firing firing, SlotMarks marks, int32_t round) {
  add_slots(batch, area, firing, marks, round);
}

KERNEL_DEVICE bool contains(const int64_t* ascending, int64_t count, int64_t value) {
  int64_t low = 0;
  int64_t high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (ascending[middle] < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count && ascending[low] == value;
}

// Which winners came and which left since the counts were made.
KERNEL_DEVICE void find_changes(const Batch& batch, const Fiber& fiber, const Area& source, const Area& target,
                                const Changes& changes) {
  for_each_running(batch, [&](int64_t b) {
    const Fiber own = fiber.of_brain(b, source, target);
    const int64_t* now = source.of_brain(b).winners;
    const int64_t count = source.winner_count[b];
    const int64_t known = *own.delivered_count > 0 ? *own.delivered_count : 0;
    for_each_of_grid_in_step(count + known, [&](int64_t i, bool live) {
      const bool enters = i < count;
      const int64_t neuron = !live ? 0 : enters ? now[i] : own.delivered[i - count];
      const bool changed = live && !(enters ? contains(own.delivered, known, neuron) : contains(now, count, neuron));
      const int32_t place = places_of_warp(changed, changes.found + b);
      if (changed) {
        changes.rows[2 * source.k * b + place] = neuron;
        changes.signs[2 * source.k * b + place] = enters ? 1 : -1;
      }
    });
  });
}
__global__ void find_changes_kernel(Batch batch, Fiber fiber, Area source, Area target, Changes changes) {
  find_changes(batch, fiber, source, target, changes);
}

// More changes than winners, or nothing known: the counts start anew.
KERNEL_DEVICE void plan_delivery(const Batch& batch, const Fiber& fiber, const Area& source, const Changes& changes) {
  for_each_brain_of_threads(batch.brains, [&](int64_t b) {
    const int64_t count = source.winner_count[b];
    const bool runs = batch.running[b] != 0;
    const bool from_zero = runs && (fiber.delivered_count[b] < 0 || changes.found[b] > count);
    changes.from_zero[b] = from_zero ? 1 : 0;
    changes.row_counts[b] = !runs ? 0 : from_zero ? static_cast<int32_t>(count) : changes.found[b];
    changes.found[b] = 0;
    if (runs) {
      fiber.delivered_count[b] = count;
    }
  });
}
__global__ void plan_delivery_kernel(Batch batch, Fiber fiber, Area source, Changes changes) {
  plan_delivery(batch, fiber, source, changes);
}

KERNEL_DEVICE void start_delivery(const Batch& batch, const Fiber& fiber, const Area& source, const Area& target,
                                  const Changes& changes) {
  for_each_running(batch, [&](int64_t b) {
    const Fiber own = fiber.of_brain(b, source, target);
    const bool from_zero = changes.from_zero[b] != 0;
    for_each_of_grid(from_zero ? target.n : 0, [&](int64_t j) { own.counts[j] = 0; });
    for_each_of_grid(source.winner_count[b], [&](int64_t i) {
      const int64_t neuron = source.winners[b * source.k + i];
      own.delivered[i] = neuron;
      if (from_zero) {
        changes.rows[2 * source.k * b + i] = neuron;
        changes.signs[2 * source.k * b + i] = 1;
      }
    });
  });
}
__global__ void start_delivery_kernel(Batch batch, Fiber fiber, Area source, Area target, Changes changes) {
  start_delivery(batch, fiber, source, target, changes);
}

KERNEL_DEVICE void clear_excess(const Batch& batch, const Area& target, int64_t* excess) {
  for_each_running(batch, [&](int64_t b) {
    for_each_of_grid(target.slots[2 * b], [&](int64_t s) { excess[b * target.capacity + s] = 0; });
  });
}
__global__ void clear_excess_kernel(Batch batch, Area target, int64_t* excess) {
  clear_excess(batch, target, excess);
}

// inputs = or += what a fiber sends, `excess` of it by slot.
KERNEL_DEVICE void add_fiber_inputs(const Batch& batch, const Fiber& fiber, const Area& source, const Area& target,
                                    const int64_t* excess, int64_t* inputs, int shift, bool first) {
  for_each_running(batch, [&](int64_t b) {
    const Area into = target.of_brain(b);
    const Fiber own = fiber.of_brain(b, source, target);
    int64_t* x = inputs + b * target.n;
    for_each_of_grid(target.n, [&](int64_t j) {
      const int32_t slot = into.slot_of[j];
      const int64_t term = fiber_term(own, j, slot >= 0 ? excess[b * target.capacity + slot] : 0, shift);
      x[j] = first ? term : add_term(x[j], term);
    });
  });
}
__global__ void add_fiber_inputs_kernel(Batch batch, Fiber fiber, Area source, Area target, const int64_t* excess,
                                        int64_t* inputs, int shift, bool first) {
  add_fiber_inputs(batch, fiber, source, target, excess, inputs, shift, first);
}

KERNEL_DEVICE void add_stimulus_inputs(const Batch& batch, const Stimulus& stimulus, const Area& target,
                                       int64_t* inputs, int shift, bool first) {
  for_each_running(batch, [&](int64_t b) {
    const Area into = target.of_brain(b);
    const Stimulus own = stimulus.of_brain(b, target);
    int64_t* x = inputs + b * target.n;
    for_each_of_grid(target.n, [&](int64_t j) {
      const int32_t slot = into.slot_of[j];
      const int64_t term = input_term(stimulus_sum(own.counts[j], slot >= 0 ? own.weight[slot] : 0), shift);
      x[j] = first ? term : add_term(x[j], term);
    });
  });
}
__global__ void add_stimulus_inputs_kernel(Batch batch, Stimulus stimulus, Area target, int64_t* inputs, int shift,
                                           bool first) {
  add_stimulus_inputs(batch, stimulus, target, inputs, shift, first);
}

KERNEL_DEVICE void subtract_penalties(const Batch& batch, const Area& target, int64_t* inputs, int shift) {
  for_each_running(batch, [&](int64_t b) {
    const Area own = target.of_brain(b);
    for_each_of_grid(target.n, [&](int64_t j) { inputs[b * target.n + j] -= penalty_term(own, j, shift); });
  });
}
__global__ void subtract_penalties_kernel(Batch batch, Area target, int64_t* inputs, int shift) {
  subtract_penalties(batch, target, inputs, shift);
}

// values: [brains, k], the inputs of the winners by index.
__global__ void rank_ties_kernel(Batch batch, Area target, const int64_t* values, int64_t* inputs) {
  auto* const shared = dynamic_shared<int64_t>();
  for_each_running(batch, [&](int64_t b) {
    int64_t cut = INT64_MAX;
    for (int64_t i = thread_rank(); i < target.k; i += block_threads()) {
      const int64_t value = values[b * target.k + i];
      cut = value < cut ? value : cut;
    }
    cut = block_reduce(cut, shared, [](int64_t a, int64_t c) { return a < c ? a : c; });
    const uint64_t key = target.of_brain(b).tie_key();
    for_each_of_grid(target.n, [&](int64_t j) {
      int64_t& input = inputs[b * target.n + j];
      input = ranked_input(input, cut, key, j);
    });
  });
}

KERNEL_DEVICE void potentiate_stimulus(const Batch& batch, const Stimulus& stimulus, const Area& target,
                                       const Firing& winners) {
  for (int64_t b = blockIdx.y; b < batch.brains; b += gridDim.y) {
    const Area into = target.of_brain(b);
    const Stimulus own = stimulus.of_brain(b, target);
    const int64_t* neurons = winners.of_brain(target, b);
    for_each_of_grid(batch.commits(b) ? winners.count(target, b) : 0, [&](int64_t i) {
      float& weight = own.weight[into.slot_of[neurons[i]]];
      weight = potentiated_stimulus(own, own.counts[neurons[i]], weight);
    });
  }
}
__global__ void potentiate_stimulus_kernel(Batch batch, Stimulus stimulus, Area target, Firing winners) {
  potentiate_stimulus(batch, stimulus, target, winners);
}

KERNEL_DEVICE void age_neurons(const Batch& batch, const Area& area) {
  for (int64_t b = blockIdx.y; b < batch.brains; b += gridDim.y) {
    int32_t* last_win = area.last_win + b * area.n;
    for_each_of_grid(batch.commits(b) ? area.n : 0,
                     [&](int64_t j) { last_win[j] += last_win[j] < area.refractory_period ? 1 : 0; });
  }
}
__global__ void age_kernel(Batch batch, Area area) {
  age_neurons(batch, area);
}

KERNEL_DEVICE void commit_winners(const Batch& batch, const Area& area, const int64_t* winners) {
  for (int64_t b = blockIdx.y; b < batch.brains; b += gridDim.y) {
    const Area own = area.of_brain(b);
    for_each_of_grid_in_step(batch.commits(b) ? area.k : 0, [&](int64_t i, bool live) {
      const int64_t winner = live ? winners[b * area.k + i] : 0;
      const int32_t slot = live ? own.slot_of[winner] : 0;
      const bool first_win = live && own.won[slot] == 0;
      places_of_warp(first_win, as_counter(own.slots + 1));
      if (!live) {
        return;
      }
      own.won[slot] = 1;
      own.winners[i] = winner;
      if (own.bias != nullptr) {
        const int64_t grown = own.bias[winner] + own.bias_step;
        own.bias[winner] = grown < kLargestBias ? grown : kLargestBias;
      }
      if (own.last_win != nullptr) {
        own.last_win[winner] = 0;
      }
      if (i == 0) {
        *own.winner_count = area.k;
      }
    });
  }
}
__global__ void commit_kernel(Batch batch, Area area, const int64_t* winners) {
  commit_winners(batch, area, winners);
}

}  // namespace torch_hrr::kernels
