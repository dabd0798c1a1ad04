// One round of a projection: integer input sums, potentiated edges in a compact table, the selection of winners.
//
// The input of neuron j is x_j = 2^24 sum of integer counts + the fixed-point excess of potentiated edges. Counts are
// dense; the excess lives at the few neurons of an area that were ever active, its slots. Everything is an integer, so
// no sum depends on its order.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/macros.h"

namespace torch_hrr::kernels {

constexpr int kFixedBits = 24;  // of the fraction of inputs
constexpr int64_t kFixedOne = int64_t{1} << kFixedBits;
constexpr float kLargestWeight = 0x1p24f;
constexpr int kEdgesPerChunk = 16;

// The known edges of a fiber between slots, by source slot: a list of chunks, the newest first and alone not full.
struct EdgeTable {
  int32_t* head = nullptr;    // [source slots] newest chunk, -1 without edges
  int32_t* length = nullptr;  // [source slots] edges
  int32_t* next = nullptr;    // [chunks] the chunk before, -1 for the last
  int32_t* target = nullptr;  // [chunks][kEdgesPerChunk] target slots
  float* weight = nullptr;    // [chunks][kEdgesPerChunk]
};

// Sums of the columns of a fiber, in units of 2^-24.
struct ColumnSums {
  int64_t* sums = nullptr;             // [target n], or null
  const int32_t* neuron_of = nullptr;  // [target slots]
};

// Candidates for winners by their integer sums alone: the k largest of sum_s sources[s][j] (ties to the lower index)
// among those >= least. Where `least` is 0 there are k of them.
struct SumWinnersParams {
  const int32_t* const* sources = nullptr;
  int64_t source_count = 0;
  int64_t n = 0;
  int64_t k = 0;
  uint32_t least = 0;
  int32_t* indices = nullptr;  // [k] ascending
  uint32_t* sums = nullptr;    // [k]
};

// Candidates for winners where columns are scaled or ties go by key: all neurons j with
// sum_s sources[s][j] scales[s][j] >= least, up to the rounding of doubles. A null pointer among the scales stands for
// ones.
struct CandidatesParams {
  const int32_t* const* sources = nullptr;
  const double* const* scales = nullptr;
  int64_t source_count = 0;
  int64_t n = 0;
  double least = 0;
  int32_t* indices = nullptr;  // [n]
};

// The CPU kernels.
struct ProjectionKernels {
  // Candidates by integer sums; the number found. Scratch is 64-byte aligned.
  int64_t (*sum_winners_scratch)(int64_t k);
  int64_t (*sum_winners)(const SumWinnersParams&, void* scratch);
  int64_t (*candidates)(const CandidatesParams&);
  // excess[target] += fixed_point(weight) - base, and weight *= factor where wins[target], over the edges of rows. What
  // weights grow by is added to the sums of their columns, if these are kept.
  void (*add_excess)(const EdgeTable&, const int32_t* rows, int64_t count, int64_t base, int64_t* excess);
  void (*potentiate)(const EdgeTable&, const int32_t* rows, int64_t count, const uint8_t* wins, float factor,
                     float largest, const ColumnSums& columns);
  // Whether rows have the chunks that their lengths ask for, each older than the one before, and edges to slots below
  // `slots` with weights of 0 to 2^24.
  bool (*are_edges)(const EdgeTable&, const int32_t* rows, int64_t count, int64_t chunks, int64_t slots);
};

KERNEL_ISA_BEGIN

// w as a multiple of 2^-24, exact for every float >= 1/2.
KERNEL_HOST_DEVICE int64_t fixed_point(float weight) {
  return static_cast<int64_t>(rint(static_cast<double>(weight) * static_cast<double>(kFixedOne)));
}

KERNEL_HOST_DEVICE int64_t chunks_of(int64_t edges) {
  return (edges + kEdgesPerChunk - 1) / kEdgesPerChunk;
}

// Only a row's newest chunk may be part full.
KERNEL_HOST_DEVICE int64_t edges_in_newest_chunk(int64_t edges) {
  return (edges + kEdgesPerChunk - 1) % kEdgesPerChunk + 1;
}

// One Hebbian step of a weight: min(w factor, largest), factor = 1 + beta.
KERNEL_HOST_DEVICE float potentiated(float weight, float factor, float largest) {
  const float grown = weight * factor;
  return grown < largest ? grown : largest;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
