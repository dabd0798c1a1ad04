// Rounds of one brain on the CPU, over arrays that the caller owns.
//
// A slot is a neuron that was ever active, numbered by area in the order of first activity; potentiated edges are kept
// between slots. What is only a cache (counts of the winners delivered last, known edges) never changes a result.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/assembly/connectome.h"
#include "kernels/assembly/projection.h"

namespace torch_hrr::assembly {

struct Area {
  int64_t n = 0;
  int64_t k = 0;
  bool fixed = false;                  // winners stay, whatever the inputs
  int64_t* winners = nullptr;          // [k] ascending, winner_count of them
  int64_t* winner_count = nullptr;     // [1]
  int32_t* slot_of = nullptr;          // [n] -1 without a slot
  int32_t* neuron_of = nullptr;        // [capacity]
  uint8_t* won = nullptr;              // [capacity] whether the slot's neuron was ever selected
  int64_t* slots = nullptr;            // [2] slots, and how many of them ever won
  int64_t capacity = 0;                // of slots
  int64_t* bias = nullptr;             // [n] of a refracted area: what is taken from inputs, 2^-24; or null
  int64_t bias_step = 0;               // what a win adds to it
  int32_t* last_win = nullptr;         // [n] rounds since the last win of an area with long-range inhibition, or null
  int32_t refractory_period = 0;       // rounds
  const int64_t* penalties = nullptr;  // [refractory_period] by rounds since the win
};

struct Fiber {
  int32_t source = 0;
  int32_t target = 0;
  bool plastic = true;
  float factor = 1;                                // 1 + beta
  float largest = 0;                               // weight
  const kernels::GapTables* connectome = nullptr;  // null: a graph of the user's own, all of it in `edges`
  uint64_t key = 0;
  int32_t* counts = nullptr;           // [target n] base edges from `delivered`
  int64_t* delivered = nullptr;        // [source k] ascending
  int64_t* delivered_count = nullptr;  // [1]
  kernels::EdgeTable edges;
  int32_t* known = nullptr;   // [source capacity] target slots that this row's edges are known to
  int64_t* chunks = nullptr;  // [1] in use
  int64_t chunk_capacity = 0;
  const double* scale = nullptr;  // [target n] of a normalised fiber, or null
};

struct Stimulus {
  int32_t target = 0;
  bool plastic = true;
  float factor = 1;
  float largest = 0;
  const int32_t* counts = nullptr;  // [target n]
  float* weight = nullptr;          // [target capacity] of a slot; 0: its count
};

// Slots of an area's winners.
std::vector<int32_t> firing_slots(const Area& area);

struct Brain {
  std::vector<Area> areas;
  std::vector<Fiber> fibers;
  std::vector<Stimulus> stimuli;
};

// Runs up to `rounds` rounds and returns how many were run. Where the next one would need more chunks of edges than a
// fiber has, it stops before it, with needed[fiber] set above the fiber's capacity (at most it, elsewhere). Arrays are
// large enough for every other growth: slots for k more a round and area. `threads` allows at::parallel_for inside.
int64_t run_rounds(Brain& brain, int64_t rounds, bool threads, int64_t* needed);

}  // namespace torch_hrr::assembly
