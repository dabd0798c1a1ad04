// Philox4x32-10, the counter-based random number generator of every device: a pure function of a counter and a key.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011; words are numbered as in
// its Random123 library (ctr.v[0..3], key.v[0..1]) and checked against that library's known answers.
//
// Numbering: key words 0 and 1 are the low and high half of a 64-bit key. A block is identified by (index, stream):
// counter words 0 and 1 are the low and high half of index, words 2 and 3 those of stream. Sequences run through index,
// which wraps at 2^64 without carrying into stream; word j of a sequence is word j mod 4 of block first + j / 4. Code
// that builds other counters (row, column block, draw) documents them there.
#pragma once

#include <cstdint>

#include "kernels/macros.h"

namespace torch_hrr::kernels {

struct PhiloxKey {
  uint32_t word[2];
};

struct PhiloxBlock {
  uint32_t word[4];
};

// out[j], j < words, is word j of the sequence that starts at block `first` of `stream`.
struct PhiloxFillParams {
  uint32_t* out = nullptr;
  int64_t words = 0;
  uint64_t key = 0;
  uint64_t first = 0;
  uint64_t stream = 0;
};

constexpr int kPhiloxRounds = 10;
constexpr uint32_t kPhiloxMultiplier0 = 0xd2511f53u;
constexpr uint32_t kPhiloxMultiplier1 = 0xcd9e8d57u;
constexpr uint32_t kPhiloxWeyl0 = 0x9e3779b9u;  // the key's increment from round to round
constexpr uint32_t kPhiloxWeyl1 = 0xbb67ae85u;

KERNEL_ISA_BEGIN

KERNEL_HOST_DEVICE constexpr PhiloxKey philox_key(uint64_t key) {
  return {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}};
}

KERNEL_HOST_DEVICE constexpr PhiloxBlock philox_counter(uint64_t index, uint64_t stream) {
  return {{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(stream),
           static_cast<uint32_t>(stream >> 32)}};
}

// Ten rounds of (c0, c1, c2, c3) <- (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0)).
KERNEL_HOST_DEVICE constexpr PhiloxBlock philox4x32(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kPhiloxMultiplier0) * counter.word[0];
    const uint64_t product1 = static_cast<uint64_t>(kPhiloxMultiplier1) * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key.word[0], static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key.word[1],
                static_cast<uint32_t>(product0)}};
    key.word[0] += kPhiloxWeyl0;
    key.word[1] += kPhiloxWeyl1;
  }
  return counter;
}

// The 64-bit integer high 2^32 + low; in a block, (low, high) are words (0, 1) or (2, 3).
KERNEL_HOST_DEVICE constexpr uint64_t join_words(uint32_t low, uint32_t high) {
  return static_cast<uint64_t>(high) << 32 | low;
}

// floor(x / 2^8) 2^-24: uniform in [0, 1) on a grid of 2^-24, exact in float.
KERNEL_HOST_DEVICE constexpr float uniform_float(uint32_t x) {
  return static_cast<float>(x >> 8) * 0x1p-24f;
}

// floor(x / 2^11) 2^-53: uniform in [0, 1) on a grid of 2^-53, exact in double.
KERNEL_HOST_DEVICE constexpr double uniform_double(uint64_t x) {
  return static_cast<double>(x >> 11) * 0x1p-53;
}

// A bijection of the 64-bit integers in which every output bit depends on all input bits: the first output of
// SplitMix64 seeded with x (Steele, Lea, Flood, OOPSLA 2014). To make a key from several numbers, use mix64(mix64(a) ^
// b): for a given a, different b never give the same key.
KERNEL_HOST_DEVICE constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
