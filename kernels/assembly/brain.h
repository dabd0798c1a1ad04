// The state of brains as arrays that a caller owns: what rounds read and write on every device.
//
// A slot is a neuron that was ever active, numbered by area in the order of first activity; potentiated edges are kept
// between slots. What is only a cache (counts of the winners delivered last, known edges) never changes a result.
//
// The arrays of a batch lie one brain after the other; of_brain(b) points at those of brain b.
#pragma once

#include <cstdint>

#include "kernels/assembly/connectome.h"
#include "kernels/assembly/projection.h"
#include "kernels/macros.h"

namespace torch_hrr::kernels {

// A bijection of 32 bits (lowbias32 of C. Wellons' hash-prospector, in the public domain).
KERNEL_HOST_DEVICE constexpr uint32_t mix32(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// A bijection of 32 bits for every key: a random order of neurons in which no two are equal.
KERNEL_HOST_DEVICE constexpr uint32_t tie_rank(uint64_t key, int64_t j) {
  return mix32(mix32(static_cast<uint32_t>(j) ^ static_cast<uint32_t>(key)) ^ static_cast<uint32_t>(key >> 32));
}

// The root of the keys of brain b of a batch, whose own is mix64(seed): the brain's number, its place where `numbers`
// is null, comes in.
KERNEL_HOST_DEVICE constexpr uint64_t root_of_brain(uint64_t root, const int64_t* numbers, int64_t b) {
  return root ^ static_cast<uint64_t>(numbers != nullptr ? numbers[b] : b);
}

template <typename T>
KERNEL_HOST_DEVICE T* offset_of(T* array, int64_t elements) {
  return array == nullptr ? nullptr : array + elements;
}

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
  int64_t* bias = nullptr;             // [n] of a refracted area: what is taken from inputs, in units of 2^-24; or null
  int64_t bias_step = 0;               // what a win adds to it
  int32_t* last_win = nullptr;         // [n] rounds since the last win of an area with long-range inhibition, or null
  int32_t refractory_period = 0;       // rounds
  const int64_t* penalties = nullptr;  // [refractory_period] by rounds since the win, of all brains
  bool keyed_ties = false;             // among equal inputs the lower tie_rank wins, not the lower index
  uint64_t key_root = 0;               // of the ties' key, with the id: mix64(seed), or of one brain
  uint64_t id = 0;
  const int64_t* numbers = nullptr;  // [brains] what names them in keys, or null: their places
  int64_t first = 0;                 // on the host: of the neurons that are here; the others have no slots

  KERNEL_HOST_DEVICE uint64_t tie_key() const {
    return key_of_root(key_root, id);
  }
  KERNEL_HOST_DEVICE Area of_brain(int64_t b) const {
    Area own = *this;
    own.key_root = root_of_brain(key_root, numbers, b);
    own.winners += b * k;
    own.winner_count += b;
    own.slot_of += b * n;
    own.neuron_of += b * capacity;
    own.won += b * capacity;
    own.slots += 2 * b;
    own.bias = offset_of(bias, b * n);
    own.last_win = offset_of(last_win, b * n);
    return own;
  }
};

struct Fiber {
  int32_t source = 0;
  int32_t target = 0;
  bool plastic = true;
  float factor = 1;                       // 1 + beta
  float largest = 0;                      // weight
  const GapTables* connectome = nullptr;  // on the host; null: a graph of the user's own, all of it in `edges`
  uint64_t key_root = 0;                  // of the connectome's key, as an area's
  uint64_t id = 0;
  const int64_t* numbers = nullptr;
  int32_t* counts = nullptr;           // [target n] base edges from `delivered`
  int64_t* delivered = nullptr;        // [source k] ascending
  int64_t* delivered_count = nullptr;  // [1]
  EdgeTable edges;
  int32_t* known = nullptr;   // [source capacity] target slots that this row's edges are known to
  int64_t* chunks = nullptr;  // [1] in use
  int64_t chunk_capacity = 0;
  double* scale = nullptr;  // [target n] of a normalised fiber, or null
  // [target n] the sums of its columns in units of 2^-24, of a fiber that is normalised before every round, or null
  int64_t* sums = nullptr;

  KERNEL_HOST_DEVICE uint64_t key() const {
    return key_of_root(key_root, id);
  }
  KERNEL_HOST_DEVICE bool learns() const {
    return plastic && factor != 1;
  }
  // Whether edges come into use as neurons win.
  KERNEL_HOST_DEVICE bool searches() const {
    return connectome != nullptr && learns();
  }
  KERNEL_HOST_DEVICE Fiber of_brain(int64_t b, const Area& from, const Area& into) const {
    Fiber own = *this;
    own.key_root = root_of_brain(key_root, numbers, b);
    own.counts = offset_of(counts, b * into.n);
    own.delivered += b * from.k;
    own.delivered_count += b;
    own.edges.head += b * from.capacity;
    own.edges.length += b * from.capacity;
    own.edges.next += b * chunk_capacity;
    own.edges.target += b * chunk_capacity * kEdgesPerChunk;
    own.edges.weight += b * chunk_capacity * kEdgesPerChunk;
    own.known += b * from.capacity;
    own.chunks += b;
    own.scale = offset_of(scale, b * into.n);
    own.sums = offset_of(sums, b * into.n);
    return own;
  }
};

struct Stimulus {
  int32_t target = 0;
  bool plastic = true;
  float factor = 1;
  float largest = 0;
  const int32_t* counts = nullptr;  // [target n]
  float* weight = nullptr;          // [target capacity] of a slot; 0: its count

  KERNEL_HOST_DEVICE bool learns() const {
    return plastic && factor != 1;
  }
  KERNEL_HOST_DEVICE Stimulus of_brain(int64_t b, const Area& into) const {
    Stimulus own = *this;
    own.counts += b * into.n;
    own.weight += b * into.capacity;
    return own;
  }
};

constexpr int64_t kLargestBias = int64_t{1} << 61;

KERNEL_ISA_BEGIN

// Inputs are sums of terms, one a fiber or stimulus, in units of 2^-24 or, with kScaledBits more behind the point,
// where a fiber is normalised. A term is at most 2^59 units and a sum 2^62; terms are never negative, so that no order
// shows.
constexpr int kScaledBits = 16;
constexpr int64_t kLargestTerm = int64_t{1} << 59;
constexpr int64_t kLargestInput = int64_t{1} << 62;

KERNEL_HOST_DEVICE int64_t add_term(int64_t sum, int64_t term) {
  const int64_t both = sum + term;
  return both < kLargestInput ? both : kLargestInput;
}

KERNEL_HOST_DEVICE int64_t input_term(int64_t sum, int shift) {
  const int64_t largest = kLargestTerm >> shift;
  return (sum < largest ? sum : largest) << shift;
}

// What a fiber sends to neuron j: its base edges and the excess of those that have grown.
KERNEL_HOST_DEVICE int64_t fiber_sum(const Fiber& fiber, int64_t j, int64_t excess) {
  return excess + (fiber.connectome != nullptr ? static_cast<int64_t>(fiber.counts[j]) << kFixedBits : 0);
}

// A normalised fiber's term, by the scale of its column.
KERNEL_HOST_DEVICE int64_t scaled_term(int64_t sum, double scale) {
  const double share = static_cast<double>(sum) * scale * static_cast<double>(1 << kScaledBits);
  const auto largest = static_cast<double>(kLargestTerm);
  return static_cast<int64_t>(rint(share < largest ? share : largest));
}

// What a fiber adds to the input of neuron j.
KERNEL_HOST_DEVICE int64_t fiber_term(const Fiber& fiber, int64_t j, int64_t excess, int shift) {
  const int64_t sum = fiber_sum(fiber, j, excess);
  return fiber.scale != nullptr ? scaled_term(sum, fiber.scale[j]) : input_term(sum, shift);
}

// Lets column j count as if it were divided by its sum, and 0 where it has no synapse. A round adds at most 2^59 to a
// sum (kLargestTerm), so that sums bounded here, before every round, do not overflow.
KERNEL_HOST_DEVICE void refresh_scale(const Fiber& fiber, int64_t j) {
  const int64_t sum = fiber.sums[j] < kLargestInput ? fiber.sums[j] : kLargestInput;
  fiber.sums[j] = sum;
  fiber.scale[j] = sum > 0 ? 1 / (static_cast<double>(sum) / static_cast<double>(kFixedOne)) : 0;
}

// What a stimulus sends to a neuron with `count` synapses: a weight of 0 means that none of them has grown, and one
// that rounds a count beyond 2^24 down takes nothing away.
KERNEL_HOST_DEVICE int64_t stimulus_sum(int32_t count, float weight) {
  const int64_t base = static_cast<int64_t>(count) << kFixedBits;
  const int64_t grown = fixed_point(weight);
  return grown > base ? grown : base;
}

// What the history of neuron j takes from its input: its bias, and its penalty for a win that is not long ago.
KERNEL_HOST_DEVICE int64_t penalty_term(const Area& area, int64_t j, int shift) {
  int64_t taken = area.bias != nullptr ? input_term(area.bias[j], shift) : 0;
  if (area.last_win != nullptr && area.last_win[j] < area.refractory_period) {
    taken += input_term(area.penalties[area.last_win[j]], shift);
  }
  return taken;
}

// What a second selection ranks where ties go by key and `cut` is the k-th largest input: all above the cut win, then
// its equals by their rank, and no others. These are spread far below, so that they do not all meet at one counter of
// the selection.
KERNEL_HOST_DEVICE int64_t ranked_input(int64_t input, int64_t cut, uint64_t key, int64_t j) {
  const auto rank = static_cast<int64_t>(tie_rank(key, j));
  if (input == cut) {
    return -rank;
  }
  return input > cut ? 1 : -((rank + 8) << 30);
}

// One Hebbian step of a stimulus.
KERNEL_HOST_DEVICE float potentiated_stimulus(const Stimulus& stimulus, int32_t synapses, float weight) {
  const auto count = static_cast<float>(synapses);
  const float limit = count * stimulus.largest < kLargestWeight ? count * stimulus.largest : kLargestWeight;
  // Never below what the stimulus has: inputs only grow.
  return potentiated(weight != 0 ? weight : count, stimulus.factor, count > limit ? count : limit);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
