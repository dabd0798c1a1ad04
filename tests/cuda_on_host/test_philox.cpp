// The Philox fill kernel gives the words of the CPU's vectors and of the scalar function.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include "kernels/cuda/philox_fill.cuh"
#include "kernels/philox_lanes.h"

namespace torch_hrr::cuda_on_host {
namespace {

using namespace torch_hrr::kernels;

TEST(PhiloxFill, IsBitwiseTheCpusForEverySizeAndShape) {
  const uint64_t key = 0x299f31d0a4093822u;
  const uint64_t first = ~uint64_t{0} - 6;
  const uint64_t stream = uint64_t{3} << 32 | 1;
  for (const int64_t words : {1, 3, 4, 5, 127, 128, 129, 1000}) {
    std::vector<uint32_t> cpu = poisoned<uint32_t>(static_cast<std::size_t>(words));
    philox_fill({cpu.data(), words, key, first, stream});
    for (const dim3 grid : {dim3(1), dim3(2), dim3(7)}) {
      for (const dim3 block : {dim3(32), dim3(16, 2, 3)}) {
        for (const Schedule& schedule : all_schedules(1)) {
          SCOPED_TRACE(schedule);
          std::vector<uint32_t> out = poisoned<uint32_t>(cpu.size());
          const PhiloxFillParams params{out.data(), words, key, first, stream};
          host_launch("philox_fill_kernel", philox_fill_kernel, grid, block, 0, schedule, params);
          EXPECT_EQ(out, cpu) << words;
        }
      }
    }
    for (int64_t j = 0; j < words; ++j) {
      const uint64_t index = first + static_cast<uint64_t>(j / 4);
      const PhiloxBlock block = philox4x32(philox_counter(index, stream), philox_key(key));
      EXPECT_EQ(cpu[j], block.word[j % 4]) << j;
    }
  }
}

// Known answers of the Random123 library: words of block (counter 0, 1) of a stream (counter 2, 3).
TEST(PhiloxFill, GivesRandom123KnownAnswers) {
  struct Case {
    uint64_t key, index, stream;
    std::vector<uint32_t> words;
  };
  for (const Case& known :
       {Case{0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        Case{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        Case{0x299f31d0a4093822u,
             0x85a308d3243f6a88u,
             0x0370734413198a2eu,
             {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}) {
    std::vector<uint32_t> out = poisoned<uint32_t>(4);
    const PhiloxFillParams params{out.data(), 4, known.key, known.index, known.stream};
    host_launch("philox_fill_kernel", philox_fill_kernel, dim3(1), dim3(32), 0, Schedule{}, params);
    EXPECT_EQ(out, known.words);
  }
}

// Counters whose low half, or all 64 bits, wrap within the fill or within one of the CPU's vectors; odd addresses.
TEST(PhiloxFill, IsBitwiseTheCpusAtEveryOffset) {
  for (const uint64_t first :
       {uint64_t{0}, uint64_t{1}, uint64_t{0xfffffff9}, uint64_t{0x1fffffffc}, ~uint64_t{0} - 2}) {
    for (const uint64_t stream : {uint64_t{0}, uint64_t{7} << 32 | 3, ~uint64_t{0}}) {
      for (const int64_t words : {7, 61, 203}) {
        for (const int64_t shift : {0, 1, 3}) {
          std::vector<uint32_t> cpu = poisoned<uint32_t>(static_cast<std::size_t>(words + shift + 1));
          std::vector<uint32_t> out = cpu;
          philox_fill({cpu.data() + shift, words, 0x9e3779b97f4a7c15u, first, stream});
          const PhiloxFillParams params{out.data() + shift, words, 0x9e3779b97f4a7c15u, first, stream};
          host_launch("philox_fill_kernel", philox_fill_kernel, dim3(3), dim3(5, 3), 0, Schedule{}, params);
          EXPECT_EQ(out, cpu) << first << " stream " << stream << " words " << words << " shift " << shift;
        }
      }
    }
  }
}

}  // namespace
}  // namespace torch_hrr::cuda_on_host
