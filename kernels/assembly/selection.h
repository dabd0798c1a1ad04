// The k largest of a stream of keys, lower index first among equal ones, in memory bounded by k.
//
// A Selector keeps the keys that reach a threshold together with their indices. When its memory is full it reduces them
// to the best k and asks strictly more of every later key: an equal one would lose its tie. So a row of one or two
// values, or an ascending one, costs as little as another, and a threshold guessed beforehand only saves work.
#pragma once

#include <cstdint>

#include "kernels/assembly/key_vectors.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// keys >= threshold: at_least of them.
template <typename Key>
struct Cut {
  Key threshold;
  int64_t at_least;
};

constexpr int64_t round_up(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

// Keys of 0 up to the next whole vector: the least key never counts as above anything.
template <typename Key>
KERNEL_HOST_DEVICE void pad_keys(Key* keys, int64_t count) {
  KeyVector<Key>::broadcast(0).store(keys + count);
}

// Every loop below reads whole vectors, so `keys` is padded.
template <typename Key>
KERNEL_HOST_DEVICE int64_t number_at_least(const Key* keys, int64_t count, Key least) {
  using V = KeyVector<Key>;
  const V bound = V::broadcast(least);
  V sums[2] = {V::broadcast(0), V::broadcast(0)};
  int64_t i = 0;
  for (; i + V::kLanes < count; i += 2 * V::kLanes) {
    sums[0] = count_at_least(sums[0], V::load(keys + i), bound);
    sums[1] = count_at_least(sums[1], V::load(keys + i + V::kLanes), bound);
  }
  if (i < count) {
    sums[0] = count_at_least(sums[0], V::load(keys + i), bound);
  }
  return sum_of(V{sums[0].lanes + sums[1].lanes});
}

template <typename Key>
KERNEL_HOST_DEVICE void range_of(const Key* keys, int64_t count, Key& least, Key& largest) {
  using V = KeyVector<Key>;
  if (count < V::kLanes) {
    least = largest = keys[0];
    for (int64_t i = 1; i < count; ++i) {
      least = lesser(least, keys[i]);
      largest = greater(largest, keys[i]);
    }
    return;
  }
  // The last vector overlaps the one before.
  V low = V::load(keys + count - V::kLanes);
  V high = low;
  for (int64_t i = 0; i + V::kLanes < count; i += V::kLanes) {
    const V here = V::load(keys + i);
    low = smaller(low, here);
    high = larger(high, here);
  }
  least = smallest_lane(low);
  largest = largest_lane(high);
}

// The keys in [low, high], packed; in place where kept is keys.
template <typename Key>
KERNEL_HOST_DEVICE int64_t keep_between(const Key* keys, int64_t count, Key low, Key high, Key* kept) {
  using V = KeyVector<Key>;
  const V least = V::broadcast(low);
  const V width = V::broadcast(high - low);
  int64_t size = 0;
  for (int64_t i = 0; i < count; i += V::kLanes) {
    const V here = V::load(keys + i);
    const int64_t left = count - i;
    const uint32_t valid = left >= V::kLanes ? kAllLanes<Key> : (1u << left) - 1;
    const uint32_t mask = at_least_mask(width, V{here.lanes - least.lanes}) & valid;
    compress_to(kept + size, here, mask);
    size += __builtin_popcount(mask);
  }
  return size;
}

// A threshold that k to k + tolerance of the keys reach, or the k-th largest key itself where ties leave no such
// threshold; 1 <= k <= count, keys padded. Bisection over the keys' range; what is still undecided moves into `work`
// ([count] and a vector) every few steps, where its own range is taken again: few values end the search at once.
template <typename Key>
Cut<Key> cut(const Key* keys, int64_t count, int64_t k, int64_t tolerance, Key* work) {
  constexpr int kStepsPerPass = 3;
  constexpr int64_t kFew = 4 * kKeyLanes<Key>;
  Key low, high;
  range_of(keys, count, low, high);
  int64_t reaching = count;  // keys >= low
  int64_t above = 0;         // keys > high
  int64_t dropped = 0;       // keys > high that `keys` no longer holds
  int step = 0;
  while (low < high && reaching > k + tolerance) {
    const Key middle = low + (high - low) / 2 + 1;
    const int64_t reached = dropped + number_at_least(keys, count, middle);
    if (reached >= k) {
      low = middle;
      reaching = reached;
    } else {
      high = middle - 1;
      above = reached;
    }
    if (++step % kStepsPerPass == 0 && count > kFew && low < high) {
      count = keep_between(keys, count, low, high, work);
      pad_keys(work, count);
      keys = work;
      dropped = above;
      range_of(keys, count, low, high);
    }
  }
  return {low, reaching};
}

// Stable and descending: by the digits of the keys, from the lowest; a few by insertion. The arrays must not overlap
// the other ones.
template <typename Key>
void sort_descending(Key* keys, int32_t* indices, int64_t count, Key* other_keys, int32_t* other_indices) {
  constexpr int64_t kFew = 24;
  if (count <= kFew) {
    for (int64_t i = 1; i < count; ++i) {
      const Key key = keys[i];
      const int32_t index = indices[i];
      int64_t j = i;
      for (; j > 0 && keys[j - 1] < key; --j) {
        keys[j] = keys[j - 1];
        indices[j] = indices[j - 1];
      }
      keys[j] = key;
      indices[j] = index;
    }
    return;
  }
  Key differing = 0;
  for (int64_t i = 1; i < count; ++i) {
    differing |= keys[i] ^ keys[0];
  }
  Key* const result_keys = keys;
  int32_t* const result_indices = indices;
  for (int shift = 0; shift < 8 * static_cast<int>(sizeof(Key)); shift += 8) {
    if (((differing >> shift) & 0xff) == 0) {
      continue;
    }
    int64_t ends[257] = {};
    for (int64_t i = 0; i < count; ++i) {
      ++ends[256 - ((keys[i] >> shift) & 0xff)];
    }
    for (int digit = 0; digit < 256; ++digit) {
      ends[digit + 1] += ends[digit];
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = ends[255 - ((keys[i] >> shift) & 0xff)]++;
      other_keys[place] = keys[i];
      other_indices[place] = indices[i];
    }
    Key* const sorted_keys = other_keys;
    int32_t* const sorted_indices = other_indices;
    other_keys = keys;
    other_indices = indices;
    keys = sorted_keys;
    indices = sorted_indices;
  }
  if (keys != result_keys) {
    __builtin_memcpy(result_keys, keys, static_cast<size_t>(count) * sizeof(Key));
    __builtin_memcpy(result_indices, indices, static_cast<size_t>(count) * sizeof(int32_t));
  }
}

// Selects the k largest pairs (key, -index) of the keys that are pushed; indices must ascend from push to push.
template <typename Key>
class Selector {
 public:
  using V = KeyVector<Key>;
  static constexpr int64_t kChunk = 64 * V::kLanes;
  // More than 2 k, so that a reduction is paid for by as many new candidates as it keeps.
  static constexpr int64_t capacity_for(int64_t k) {
    return 2 * k + 4096;
  }
  // Three arrays of the capacity and some vectors.
  static constexpr int64_t scratch_bytes(int64_t k) {
    return 2 * array_bytes<Key>(k) + array_bytes<int32_t>(k);
  }

  // k >= 1; scratch is 64-byte aligned.
  Selector(int64_t k, void* scratch) : k_(k), capacity_(capacity_for(k)) {
    char* memory = static_cast<char*>(scratch);
    keys_ = reinterpret_cast<Key*>(memory);
    work_ = reinterpret_cast<Key*>(memory + array_bytes<Key>(k));
    indices_ = reinterpret_cast<int32_t*>(memory + 2 * array_bytes<Key>(k));
  }

  // Forgets every candidate.
  void clear() {
    size_ = 0;
    threshold_ = 0;
    closed_ = false;
  }
  // Keys below this are not looked at: a guess that may be too high, as finish tells.
  void set_threshold(Key threshold) {
    threshold_ = threshold;
  }
  // A key below this cannot win any more; closed where none can.
  Key threshold() const {
    return threshold_;
  }
  bool closed() const {
    return closed_;
  }
  int64_t size() const {
    return size_;
  }
  // Candidates so far by ascending index; after finish the winners, with keys only where finish was asked for them.
  const Key* keys() const {
    return keys_;
  }
  const int32_t* indices() const {
    return indices_;
  }
  // Memory for capacity_for(k) keys each, free until the first push.
  Key* spare_keys() {
    return keys_;
  }
  Key* spare_work() {
    return work_;
  }

  // Looks at keys [begin, end) of a source; key j has index first_index + j. A source has
  //   V whole(int64_t j) const                   what keys j to j + kLanes are made of
  //   V part(int64_t j, int64_t count) const     the same of the first count < kLanes of them, any in the other lanes
  //   V keys_of(V) const                         the keys
  //   bool has_bound(Key threshold) const        whether passing can compare with this threshold
  //   Bound bound(Key threshold) const           the threshold as passing wants it
  //   uint32_t passing(int64_t j, Bound) const   a bit for each of keys j to j + kLanes that reaches it
  template <typename Source>
  void push(const Source& source, int64_t begin, int64_t end, int64_t first_index) {
    for (; begin < end && !closed_; begin += kChunk) {
      if (size_ + kChunk > capacity_) {
        reduce<true>();
        if (closed_) {
          return;
        }
      }
      append(source, begin, lesser(end, begin + kChunk), first_index);
    }
  }

  // Keeps the winners' indices and, where asked, their keys; false if fewer than k keys reached the threshold.
  bool finish(bool with_keys) {
    if (size_ > k_) {
      with_keys ? reduce<true>() : reduce<false>();
    }
    return size_ == k_;
  }

  // After finish: the winners by descending key, equal ones by ascending index.
  void sort_winners() {
    sort_descending(keys_, indices_, k_, work_, indices_ + k_);
  }

 private:
  template <typename T>
  static constexpr int64_t array_bytes(int64_t k) {
    return round_up((capacity_for(k) + 2 * kKeyLanes<Key>)*static_cast<int64_t>(sizeof(T)), 64);
  }

  // Keys [begin, end), at most a chunk of them. Which of them pass is unpredictable, so no branch depends on it: first
  // the mask of every vector, then the vectors whose mask is not 0.
  template <typename Source>
  void append(const Source& source, int64_t begin, int64_t end, int64_t first_index) {
    const V least = V::broadcast(threshold_);
    const int64_t whole = (end - begin) / V::kLanes;
    int64_t size = size_;
    const auto add = [&](int64_t j, V bits, uint32_t mask) {
      compress_to(keys_ + size, bits, mask);
      compress_positions_to<Key>(indices_ + size, static_cast<int32_t>(first_index + j), mask);
      size += __builtin_popcount(mask);
    };
    alignas(64) uint16_t masks[64] = {};
    if (source.has_bound(threshold_)) {
      const auto bound = source.bound(threshold_);
      for (int64_t v = 0; v < whole; ++v) {
        masks[v] = static_cast<uint16_t>(source.passing(begin + v * V::kLanes, bound));
      }
    } else {
      for (int64_t v = 0; v < whole; ++v) {
        masks[v] = static_cast<uint16_t>(at_least_mask(source.keys_of(source.whole(begin + v * V::kLanes)), least));
      }
    }
    for (uint64_t left = nonzero_mask(masks); left != 0; left &= left - 1) {
      const int64_t v = __builtin_ctzll(left);
      const int64_t j = begin + v * V::kLanes;
      add(j, source.whole(j), masks[v]);
    }
    if (const int64_t j = begin + whole * V::kLanes; j < end) {
      const V bits = source.part(j, end - j);
      add(j, bits, at_least_mask(source.keys_of(bits), least) & ((1u << (end - j)) - 1));
    }
    for (int64_t i = size_; i < size; i += V::kLanes) {
      source.keys_of(V::load(keys_ + i)).store(keys_ + i);
    }
    size_ = size;
  }

  // The best k of more candidates, in place; of equal keys the first ones. Then an equal key would come too late.
  template <bool kWithKeys>
  void reduce() {
    pad_keys(keys_, size_);
    const Cut<Key> best = cut(keys_, size_, k_, 0, work_);
    keep_best<kWithKeys>(best.threshold, best.at_least - k_);
    closed_ = best.threshold == static_cast<Key>(-1);
    threshold_ = greater(threshold_, closed_ ? best.threshold : static_cast<Key>(best.threshold + 1));
  }

  // Keeps the candidates that reach `least`, without the last `excess` of those that equal it.
  template <bool kWithKeys>
  void keep_best(Key least, int64_t excess) {
    const V bound = V::broadcast(least);
    int64_t ties = excess == 0 ? size_ : number_equal(bound) - excess;
    int64_t kept = 0;
    for (int64_t i = 0; i < size_; i += V::kLanes) {
      const V here = V::load(keys_ + i);
      uint32_t mask = at_least_mask(here, bound) & valid_lanes(i);
      const uint32_t equal = equal_mask(here, bound) & mask;
      const int64_t number = __builtin_popcount(equal);
      mask ^= equal ^ (ties >= number ? equal : lowest_bits(equal, ties));
      ties = ties >= number ? ties - number : 0;
      if constexpr (kWithKeys) {
        compress_to(keys_ + kept, here, mask);
      }
      compress_indices_to<Key>(indices_ + kept, indices_ + i, mask);
      kept += __builtin_popcount(mask);
    }
    size_ = kept;
  }
  static uint32_t lowest_bits(uint32_t mask, int64_t number) {
    uint32_t lowest = 0;
    for (; number > 0; --number) {
      lowest |= mask & (~mask + 1);
      mask &= mask - 1;
    }
    return lowest;
  }
  int64_t number_equal(V bound) const {
    int64_t number = 0;
    for (int64_t i = 0; i < size_; i += V::kLanes) {
      number += __builtin_popcount(equal_mask(V::load(keys_ + i), bound) & valid_lanes(i));
    }
    return number;
  }
  uint32_t valid_lanes(int64_t i) const {
    const int64_t left = size_ - i;
    return left >= V::kLanes ? kAllLanes<Key> : (1u << left) - 1;
  }

  int64_t k_;
  int64_t capacity_;
  int64_t size_ = 0;
  Key threshold_ = 0;
  bool closed_ = false;
  Key* keys_;
  Key* work_;
  int32_t* indices_;
};

// Keys in memory, as a source.
template <typename Key>
struct StoredKeys {
  const Key* keys;

  KERNEL_HOST_DEVICE KeyVector<Key> whole(int64_t j) const {
    return KeyVector<Key>::load(keys + j);
  }
  KERNEL_HOST_DEVICE KeyVector<Key> part(int64_t j, int64_t count) const {
    Key lanes[kKeyLanes<Key>] = {};
    __builtin_memcpy(lanes, keys + j, static_cast<size_t>(count) * sizeof(Key));
    return KeyVector<Key>::load(lanes);
  }
  KERNEL_HOST_DEVICE KeyVector<Key> keys_of(KeyVector<Key> stored) const {
    return stored;
  }
  KERNEL_HOST_DEVICE bool has_bound(Key) const {
    return true;
  }
  KERNEL_HOST_DEVICE KeyVector<Key> bound(Key threshold) const {
    return KeyVector<Key>::broadcast(threshold);
  }
  KERNEL_HOST_DEVICE uint32_t passing(int64_t j, KeyVector<Key> bound) const {
    return at_least_mask(whole(j), bound);
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
