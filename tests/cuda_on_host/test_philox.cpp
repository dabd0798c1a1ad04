// The Philox fill kernel gives the words of the CPU's vectors and of the scalar function.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include "kernels/cuda/philox_fill.cuh"

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

}  // namespace
}  // namespace torch_hrr::cuda_on_host
