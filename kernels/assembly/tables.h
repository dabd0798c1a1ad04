// The CPU entry points of the assembly family, one table an instruction set.
#pragma once

#include "kernels/assembly/connectome.h"
#include "kernels/assembly/projection.h"
#include "kernels/assembly/soft_cap.h"
#include "kernels/assembly/winners.h"

namespace torch_hrr::kernels {

// Every entry computes output rows [begin, end) with a 64-byte aligned scratch buffer of the size its companion names.
struct AssemblyKernels {
  int64_t (*winners_scratch)(const WinnersParams&);
  void (*winners)(const WinnersParams&, int64_t begin, int64_t end, void* scratch);
  int64_t (*soft_cap_scratch)(const SoftCapParams&);
  void (*soft_cap)(const SoftCapParams&, int64_t begin, int64_t end, void* scratch);
  // Column blocks [first, last) of a connectome; match returns the pairs found, of which it writes up to its capacity.
  void (*deliver)(const DeliverParams&, int64_t first_block, int64_t last_block);
  int64_t (*match)(const MatchParams&, int64_t first_block, int64_t last_block);
  // counts[j] of a stimulus for columns [first, last).
  void (*stimulus_counts)(const BinomialTable&, uint64_t key, int64_t first, int64_t last, int32_t* counts);
  // Candidates by integer sums; the number found. Scratch is 64-byte aligned.
  int64_t (*sum_winners_scratch)(int64_t k);
  int64_t (*sum_winners)(const SumWinnersParams&, void* scratch);
  // excess[target] += fixed_point(weight) - base, and weight *= factor where wins[target], over the edges of rows.
  void (*add_excess)(const EdgeTable&, const int32_t* rows, int64_t count, int64_t base, int64_t* excess);
  void (*potentiate)(const EdgeTable&, const int32_t* rows, int64_t count, const uint8_t* wins, float factor,
                     float largest);
};

// The table for the instruction set chosen for this process (isa.h).
const AssemblyKernels& assembly_kernels();

}  // namespace torch_hrr::kernels
