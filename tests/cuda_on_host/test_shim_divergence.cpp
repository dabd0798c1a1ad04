// Barriers and warp operations that not all their threads reach are errors of the launch.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <utility>

#include "kernels/cuda/block.cuh"

namespace torch_hrr::cuda_on_host {
namespace {

using namespace torch_hrr::kernels;

enum class Fault {
  kNone,
  kEarlyReturn,
  kOtherSite,
  kOtherHelperSite,
  kOtherVote,
  kShuffleAgainstBarrier,
  kWarpLaneMissing,
  kOtherShuffle,
  kMaskWithoutSelf
};

KERNEL_DEVICE void helper_with_a_barrier(CallSite site = CallSite::here()) {
  block_sync(site);
}

__global__ void faulty_kernel(Fault fault, int* out) {
  const int i = thread_rank();
  const bool odd = i % 2 != 0;
  int value = i;
  switch (fault) {
    case Fault::kNone:
      block_sync();
      break;
    case Fault::kEarlyReturn:
      if (i == 7) {
        return;
      }
      block_sync();
      break;
    case Fault::kOtherSite:
      if (odd) {
        block_sync();
      } else {
        block_sync();
      }
      break;
    case Fault::kOtherHelperSite:
      if (odd) {
        helper_with_a_barrier();
      } else {
        helper_with_a_barrier();
      }
      break;
    case Fault::kOtherVote:
      value = odd ? block_any(true) : block_count(true);
      break;
    case Fault::kShuffleAgainstBarrier:
      if (i < 32) {
        value = shuffle_xor(value, 1);
      }
      if (i < 48) {
        block_sync();
      } else {
        value = shuffle_xor(value, 1, 0xffffffffu);
      }
      break;
    case Fault::kWarpLaneMissing:
      if (i % 32 != 5) {
        warp_sync();
      } else {
        block_sync();
      }
      break;
    case Fault::kOtherShuffle:
      value = odd ? shuffle_xor(value, 1) : shuffle_down(value, 1);
      break;
    case Fault::kMaskWithoutSelf:
      warp_sync(0x0000ffffu);
      break;
  }
  out[i] = value;
}

std::string error_of(Fault fault, const Schedule& schedule) {
  std::vector<int> out(64);
  try {
    host_launch("faulty_kernel", faulty_kernel, dim3(1), dim3(64), 0, schedule, fault, out.data());
  } catch (const LaunchError& error) {
    return error.what();
  }
  return "";
}

TEST(Divergence, IsAnErrorThatNamesKernelAndThreads) {
  const std::pair<Fault, std::vector<std::string>> cases[] = {
      {Fault::kEarlyReturn, {"divergent barrier", "thread (7,0,0) has returned", "waits at the block barrier"}},
      {Fault::kOtherSite, {"divergent barrier", "thread (0,0,0)", "thread (1,0,0)", "test_shim_divergence.cpp:"}},
      {Fault::kOtherHelperSite, {"divergent barrier", "thread (0,0,0)", "thread (1,0,0)", "test_shim_divergence.cpp:"}},
      {Fault::kOtherVote, {"divergent barrier", "thread (0,0,0)", "thread (1,0,0)"}},
      {Fault::kShuffleAgainstBarrier, {"divergent barrier", "thread (48,0,0) waits in __shfl_xor_sync"}},
      {Fault::kWarpLaneMissing, {"divergent barrier", "waits in __syncwarp for the lanes 0xffffffff"}},
      {Fault::kOtherShuffle, {"divergent warp operation", "__shfl_down_sync", "__shfl_xor_sync"}},
      {Fault::kMaskWithoutSelf, {"calls a warp operation whose mask leaves it out"}},
  };
  for (const Schedule& schedule : all_schedules()) {
    SCOPED_TRACE(schedule);
    for (const auto& [fault, texts] : cases) {
      const std::string error = error_of(fault, schedule);
      EXPECT_EQ(error.rfind("faulty_kernel: block (0,0,0): ", 0), 0u) << error;
      for (const std::string& text : texts) {
        EXPECT_NE(error.find(text), std::string::npos) << text << " in " << error;
      }
      // The fibers given up by the failed launch do not disturb the next one.
      EXPECT_EQ(error_of(Fault::kNone, schedule), "");
    }
  }
}

}  // namespace
}  // namespace torch_hrr::cuda_on_host
