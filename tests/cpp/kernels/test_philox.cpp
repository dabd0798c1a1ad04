// Philox4x32-10 on the CPU: Random123's known answers, vectors against the scalar function, conversions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/philox_lanes.h"

namespace torch_hrr::kernels {
namespace {

std::vector<uint32_t> words(const PhiloxBlock& block) {
  return {block.word, block.word + 4};
}

TEST(Philox, GivesRandom123KnownAnswers) {
  struct Case {
    PhiloxBlock counter;
    PhiloxKey key;
    std::vector<uint32_t> answer;
  };
  const Case cases[] = {{{{0, 0, 0, 0}}, {{0, 0}}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
                         {{0xffffffff, 0xffffffff}},
                         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                         {{0xa4093822, 0x299f31d0}},
                         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Case& known : cases) {
    EXPECT_EQ(words(philox4x32(known.counter, known.key)), known.answer);
  }
}

TEST(Philox, NumbersKeysAndCountersLowHalfFirst) {
  const PhiloxKey key = philox_key(0x299f31d0a4093822u);
  const PhiloxBlock counter = philox_counter(0x85a308d3243f6a88u, 0x0370734413198a2eu);
  EXPECT_EQ(words(philox4x32(counter, key)), (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(join_words(0x243f6a88, 0x85a308d3), 0x85a308d3243f6a88u);
}

// Indices whose low word, or all 64 bits, wrap inside a vector among them.
TEST(Philox, VectorsAreTheScalarFunction) {
  const uint64_t indices[] = {0, 1, 12345, 0xfffffff9u, 0xffffffffu, 0x1fffffffcu, ~uint64_t{0} - 2, ~uint64_t{0}};
  const uint64_t keys[] = {0, 1, 0xffffffffu, 0x9e3779b97f4a7c15u, ~uint64_t{0}};
  for (const uint64_t index : indices) {
    for (const uint64_t stream : {uint64_t{0}, uint64_t{7} << 32 | 3, ~uint64_t{0}}) {
      for (const uint64_t key : keys) {
        const PhiloxLanes blocks = philox4x32(philox_counters(index, stream), philox_key(key));
        for (int lane = 0; lane < kPhiloxLanes; ++lane) {
          const PhiloxBlock block =
              philox4x32(philox_counter(index + static_cast<uint64_t>(lane), stream), philox_key(key));
          for (int w = 0; w < 4; ++w) {
            ASSERT_EQ(blocks.word[w].lanes[lane], block.word[w])
                << index << " " << stream << " " << key << " lane " << lane;
          }
        }
      }
    }
  }
}

TEST(Philox, VectorsAgreeOverManyCounters) {
  for (uint64_t i = 0; i < 20000; i += kPhiloxLanes) {
    const uint64_t index = mix64(i);
    const uint64_t stream = mix64(~i);
    const PhiloxKey key = philox_key(mix64(i << 20));
    const PhiloxLanes blocks = philox4x32(philox_counters(index, stream), key);
    for (int lane = 0; lane < kPhiloxLanes; ++lane) {
      const PhiloxBlock block = philox4x32(philox_counter(index + static_cast<uint64_t>(lane), stream), key);
      for (int w = 0; w < 4; ++w) {
        ASSERT_EQ(blocks.word[w].lanes[lane], block.word[w]) << i << " lane " << lane;
      }
    }
  }
}

TEST(Philox, FillWritesTheSequenceAndNothingElse) {
  const uint64_t first = ~uint64_t{0} - 5;
  for (const int64_t n : {0, 1, 3, 4, 5, 31, 63, 64, 65, 127, 1000}) {
    std::vector<uint32_t> out(static_cast<std::size_t>(n) + 1, 0xabababab);
    philox_fill({out.data(), n, 42, first, 9});
    for (int64_t j = 0; j < n; ++j) {
      const uint64_t index = first + static_cast<uint64_t>(j / 4);
      EXPECT_EQ(out[j], philox4x32(philox_counter(index, 9), philox_key(42)).word[j % 4]) << n << " " << j;
    }
    EXPECT_EQ(out[n], 0xababababu);
  }
}

TEST(Philox, WrappingIndexDoesNotCarryIntoStream) {
  EXPECT_EQ(words(philox_counter(~uint64_t{0} + 1, 5)), (std::vector<uint32_t>{0, 0, 5, 0}));
}

TEST(Uniform, CoversTheHalfOpenInterval) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_EQ(uniform_float(0xffu), 0.0f);
  EXPECT_EQ(uniform_float(0x100u), 0x1p-24f);
  EXPECT_EQ(uniform_float(0x80000000u), 0.5f);
  EXPECT_EQ(uniform_float(0xffffffffu), 1.0f - 0x1p-24f);
  EXPECT_EQ(uniform_double(0x7ffu), 0.0);
  EXPECT_EQ(uniform_double(0x800u), 0x1p-53);
  EXPECT_EQ(uniform_double(uint64_t{1} << 63), 0.5);
  EXPECT_EQ(uniform_double(~uint64_t{0}), 1.0 - 0x1p-53);
}

// Mean, variance and the 16-cell histogram of 2^16 draws within five standard deviations of the uniform distribution's.
TEST(Uniform, HasUniformMoments) {
  constexpr int kDraws = 1 << 16;
  std::vector<uint32_t> raw(kDraws);
  philox_fill({raw.data(), kDraws, 1, 0, 0});
  double mean = 0;
  double square = 0;
  std::vector<int> cells(16);
  for (const uint32_t x : raw) {
    const double u = uniform_float(x);
    mean += u / kDraws;
    square += u * u / kDraws;
    ++cells[static_cast<std::size_t>(u * 16)];
  }
  EXPECT_NEAR(mean, 0.5, 5 * 0.2887 / 256);
  EXPECT_NEAR(square - mean * mean, 1.0 / 12.0, 5 * 0.0745 / 256);
  for (const int count : cells) {
    EXPECT_NEAR(count, kDraws / 16, 5 * 62);
  }
}

// The first outputs of SplitMix64 seeded with 0: its state advances by the golden-ratio increment.
TEST(Mix64, IsSplitMix64) {
  constexpr uint64_t kIncrement = 0x9e3779b97f4a7c15u;
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix64(kIncrement), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(mix64(2 * kIncrement), 0x06c45d188009454fu);
}

TEST(Mix64, SpreadsEachInputBitOverAllOutputBits) {
  for (int bit = 0; bit < 64; ++bit) {
    int flips = 0;
    for (uint64_t x = 0; x < 256; ++x) {
      flips += __builtin_popcountll(mix64(x) ^ mix64(x ^ uint64_t{1} << bit));
    }
    EXPECT_NEAR(flips / 256.0, 32.0, 2.0) << bit;
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
