// Selection from a row: a threshold from a part of it, one pass that collects what reaches it, an exact selection.
#pragma once

#include "kernels/assembly/selection.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

constexpr int64_t kSampleBlock = 16;  // elements: a cache line of floats
constexpr int64_t kLeastSample = 512;
constexpr int64_t kMostSample = 4096;
constexpr int64_t kElementsPerSample = 48;

// How many elements of a row are sampled; 0 where the whole row is as cheap.
inline int64_t sample_size(int64_t n, int64_t k) {
  if (n < 4 * kLeastSample || k > n / 8) {
    return 0;
  }
  return lesser(greater(n / kElementsPerSample / kSampleBlock * kSampleBlock, kLeastSample), kMostSample);
}

// A threshold that k elements of the row reach in all likelihood, and not many more. Blocks at equal distances see a
// sorted row as well as a random one; one block's length of slack is for those, three deviations for random rows.
template <typename Key, typename Source>
Key sampled_threshold(const Source& source, int64_t n, int64_t k, int64_t sample, Key* keys, Key* work) {
  const int64_t blocks = sample / kSampleBlock;
  const int64_t distance = n / blocks;
  int64_t size = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * distance + (distance - kSampleBlock) / 2;
    for (int64_t j = 0; j < kSampleBlock; j += kKeyLanes<Key>, size += kKeyLanes<Key>) {
      source.keys_of(source.whole(begin + j)).store(keys + size);
    }
  }
  pad_keys(keys, size);
  const double expected = static_cast<double>(k) * static_cast<double>(size) / static_cast<double>(n);
  const auto slack = static_cast<int64_t>(3 * __builtin_sqrt(expected)) + kSampleBlock / 2;
  const int64_t rank = lesser(size, static_cast<int64_t>(expected) + slack);
  return cut(keys, size, rank, rank / 8, work).threshold;
}

// For few winners of a row that stays in the first-level cache; every lane of four vectors sees a part of it.
template <typename Key>
constexpr bool has_class_threshold(int64_t n, int64_t k) {
  return k <= 2 * kKeyLanes<Key> && n >= 16 * kKeyLanes<Key> && n * static_cast<int64_t>(sizeof(Key)) <= 32768;
}

// A threshold that at least k elements reach, and not many more: the largest of every lane are that many different
// ones.
template <typename Key, typename Source>
Key class_threshold(const Source& source, int64_t n, int64_t k, Key* keys, Key* work) {
  using V = KeyVector<Key>;
  constexpr int64_t kStep = 4 * V::kLanes;
  V largest[4] = {V::broadcast(0), V::broadcast(0), V::broadcast(0), V::broadcast(0)};
  for (int64_t j = 0; j + kStep <= n; j += kStep) {
    for (int i = 0; i < 4; ++i) {
      largest[i] = larger(largest[i], source.keys_of(source.whole(j + i * V::kLanes)));
    }
  }
  for (int i = 0; i < 4; ++i) {
    largest[i].store(keys + i * V::kLanes);
  }
  pad_keys(keys, kStep);
  return cut(keys, kStep, k, k, work).threshold;
}

// The k largest of the n keys of a source (selection.h): the selector then holds them, and their keys if asked.
template <typename Key, typename Source>
void select_top(Selector<Key>& selector, const Source& source, int64_t n, int64_t k, bool with_keys) {
  selector.clear();
  if (has_class_threshold<Key>(n, k)) {
    selector.set_threshold(class_threshold<Key>(source, n, k, selector.spare_keys(), selector.spare_work()));
  } else if (const int64_t sample = sample_size(n, k); sample != 0) {
    selector.set_threshold(sampled_threshold<Key>(source, n, k, sample, selector.spare_keys(), selector.spare_work()));
  }
  selector.push(source, 0, n, 0);
  if (!selector.finish(with_keys)) {
    selector.clear();
    selector.push(source, 0, n, 0);
    selector.finish(with_keys);
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
