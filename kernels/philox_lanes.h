// Philox of philox.h on a vector of counters.
#pragma once

#include "kernels/philox.h"
#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

constexpr int kPhiloxLanes = kVectorBytes / 4;
using PhiloxWords = Simd<uint32_t, kPhiloxLanes>;

// word[w] holds word w of kPhiloxLanes blocks; lane l belongs to block l.
struct PhiloxLanes {
  PhiloxWords word[4];
};

// Pairs of such words.
using PhiloxPairs = Simd<uint64_t, kPhiloxLanes / 2>;

// Every second lane of such words, in the low halves of wider lanes, which alone are multiplied. Above them is whatever
// was left there: a product is its low word, and shifted its high one.
struct PhiloxHalf {
  PhiloxPairs word[4];

  KERNEL_HOST_DEVICE void round(PhiloxKey key) {
    const auto product0 = multiply_low_half(kPhiloxMultiplier0, word[0]);
    const auto product1 = multiply_low_half(kPhiloxMultiplier1, word[2]);
    const auto key0 = lanes_of<PhiloxPairs>(key.word[0]);
    const auto key1 = lanes_of<PhiloxPairs>(key.word[1]);
    // Not the products first: the rest is there before them.
    word[0] = (product1 >> 32) ^ (word[1] ^ key0);
    word[1] = product1;
    word[2] = (product0 >> 32) ^ (word[3] ^ key1);
    word[3] = product0;
  }
};

KERNEL_HOST_DEVICE PhiloxPairs philox_pairs(PhiloxWords words) {
  return {(PhiloxPairs::Lanes)words.lanes};
}

KERNEL_HOST_DEVICE constexpr PhiloxKey next_key(PhiloxKey key) {
  return {{key.word[0] + kPhiloxWeyl0, key.word[1] + kPhiloxWeyl1}};
}

// The last kRounds rounds of both halves, and their words side by side.
template <int kRounds>
KERNEL_HOST_DEVICE PhiloxLanes finish_rounds(PhiloxHalf even, PhiloxHalf odd, PhiloxKey key) {
#pragma GCC unroll 10
  for (int round = 0; round < kRounds; ++round) {
    even.round(key);
    odd.round(key);
    key = next_key(key);
  }
  PhiloxLanes result;
  for (int w = 0; w < 4; ++w) {
    const PhiloxPairs words = (even.word[w] & lanes_of<PhiloxPairs>(0xffffffffu)) | (odd.word[w] << 32);
    result.word[w] = {(PhiloxWords::Lanes)words.lanes};
  }
  return result;
}

// philox4x32 in every lane, with the same key.
KERNEL_HOST_DEVICE PhiloxLanes philox4x32(PhiloxLanes counter, PhiloxKey key) {
  PhiloxHalf even;
  PhiloxHalf odd;
  for (int w = 0; w < 4; ++w) {
    even.word[w] = philox_pairs(counter.word[w]);
    odd.word[w] = even.word[w] >> 32;
  }
  return finish_rounds<kPhiloxRounds>(even, odd, key);
}

// philox4x32 of counters (draw, block, row of the lane, stream) for one draw after the other. Two rounds pass before
// what depends on the draw meets what depends on the row: here the rows' part of them is computed once.
class PhiloxRows {
 public:
  KERNEL_HOST_DEVICE PhiloxRows(PhiloxWords rows, uint32_t block, uint32_t stream, PhiloxKey key)
      : even_(philox_pairs(rows), block, key),
        odd_(philox_pairs(rows) >> 32, block, key),
        stream_(stream ^ key.word[1]),
        key_(next_key(next_key(key))) {}

  KERNEL_HOST_DEVICE PhiloxLanes operator()(uint32_t draw) const {
    const uint64_t product0 = static_cast<uint64_t>(kPhiloxMultiplier0) * draw;
    const uint32_t word2 = static_cast<uint32_t>(product0 >> 32) ^ stream_;
    const uint64_t product1 = static_cast<uint64_t>(kPhiloxMultiplier1) * word2;
    const auto high1 = PhiloxPairs::broadcast(product1 >> 32);
    const auto low1 = PhiloxPairs::broadcast(product1);
    const auto low0 = PhiloxPairs::broadcast(product0);
    const auto half = [&](const Half& own) {
      return PhiloxHalf{{own.word0 ^ high1, low1, own.word2 ^ low0, own.word3}};
    };
    return finish_rounds<kPhiloxRounds - 2>(half(even_), half(odd_), key_);
  }

 private:
  struct Half {
    PhiloxPairs word0;
    PhiloxPairs word2;
    PhiloxPairs word3;

    KERNEL_HOST_DEVICE Half(PhiloxPairs rows, uint32_t block, PhiloxKey key) {
      const PhiloxPairs product1 = multiply_low_half(kPhiloxMultiplier1, rows);
      const PhiloxPairs first = (product1 >> 32) ^ lanes_of<PhiloxPairs>(block ^ key.word[0]);
      const PhiloxPairs product0 = multiply_low_half(kPhiloxMultiplier0, first);
      key = next_key(key);
      word0 = product1 ^ lanes_of<PhiloxPairs>(key.word[0]);
      word2 = (product0 >> 32) ^ lanes_of<PhiloxPairs>(key.word[1]);
      word3 = product0;
    }
  };

  Half even_;
  Half odd_;
  uint32_t stream_;
  PhiloxKey key_;
};

// philox_counter(index + l, stream) in lane l.
KERNEL_HOST_DEVICE PhiloxLanes philox_counters(uint64_t index, uint64_t stream) {
  PhiloxLanes counters;
  for (int lane = 0; lane < kPhiloxLanes; ++lane) {
    const PhiloxBlock block = philox_counter(index + static_cast<uint64_t>(lane), stream);
    for (int w = 0; w < 4; ++w) {
      counters.word[w].lanes[lane] = block.word[w];
    }
  }
  return counters;
}

inline void philox_fill(const PhiloxFillParams& params) {
  const PhiloxKey key = philox_key(params.key);
  constexpr int64_t kWords = 4 * kPhiloxLanes;
  int64_t j = 0;
  for (; j + kWords <= params.words; j += kWords) {
    const PhiloxLanes blocks =
        philox4x32(philox_counters(params.first + static_cast<uint64_t>(j / 4), params.stream), key);
    for (int i = 0; i < kWords; ++i) {
      params.out[j + i] = blocks.word[i % 4].lanes[i / 4];
    }
  }
  for (; j < params.words; j += 4) {
    const PhiloxBlock block =
        philox4x32(philox_counter(params.first + static_cast<uint64_t>(j / 4), params.stream), key);
    for (int64_t w = 0; w < 4 && j + w < params.words; ++w) {
      params.out[j + w] = block.word[w];
    }
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
