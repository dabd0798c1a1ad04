// Rounds of one brain on the CPU, over arrays that the caller owns.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/assembly/brain.h"
#include "kernels/assembly/column_blocks.h"

namespace torch_hrr::kernels {

struct Brain {
  std::vector<Area> areas;
  std::vector<Fiber> fibers;
  std::vector<Stimulus> stimuli;
  struct Firing {
    std::vector<int32_t> slots;
    int64_t changes = 0;  // of these within a call
  };
  std::vector<Firing> firing{};  // in a round, by area: the slots of the winners from before it

  // Brain b of the batch whose first one this is.
  Brain of_brain(int64_t b) const;
};

// Runs up to `rounds` rounds and returns how many were run. Where the next one would need more chunks of edges than a
// fiber has, it stops before it, with needed[fiber] set above the fiber's capacity (at most it, elsewhere). Arrays are
// large enough for every other growth: slots for k more a round and area. `parallel` is for work inside of it. Throws
// std::out_of_range before a round in which a firing neuron has a slot, or edges, that name what there is not.
int64_t run_rounds(Brain& brain, int64_t rounds, ParallelFor parallel, int64_t* needed);

// The first half of a round: body(area, winners, inputs) for every area that something fires into, winners ascending
// and inputs in units of 2^-24. Counts are brought up to date, and winners get slots; nothing else changes. No fiber is
// scaled, no area has biases, periods or keyed ties.
using ChoiceBody =
    std::function<void(int32_t area, const std::vector<int64_t>& winners, const std::vector<int64_t>& inputs)>;
void choose_winners(Brain& brain, ParallelFor parallel, const ChoiceBody& body);

}  // namespace torch_hrr::kernels
