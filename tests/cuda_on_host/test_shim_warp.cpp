// Shuffles, votes and atomics of the host shim against their definition in the CUDA C++ Programming Guide.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "kernels/cuda/block.cuh"

namespace torch_hrr::cuda_on_host {
namespace {

using namespace torch_hrr::kernels;

constexpr int kCalls = 4;

template <typename T>
__global__ void shuffle_kernel(T* out, int amount, int width) {
  const int i = thread_rank();
  const T value = static_cast<T>(1000 + i);
  T* row = out + i * kCalls;
  row[0] = __shfl_sync(kFullWarp, value, amount, width);
  row[1] = __shfl_up_sync(kFullWarp, value, static_cast<unsigned>(amount), width);
  row[2] = __shfl_down_sync(kFullWarp, value, static_cast<unsigned>(amount), width);
  row[3] = __shfl_xor_sync(kFullWarp, value, amount, width);
}

template <typename T>
void check_shuffles() {
  for (const Schedule& schedule : all_schedules(1)) {
    SCOPED_TRACE(schedule);
    for (const int width : {1, 2, 8, 32}) {
      for (const int amount : {0, 1, 5, 16, 31}) {
        std::vector<T> out(64 * kCalls);
        host_launch("shuffle_kernel", shuffle_kernel<T>, dim3(1), dim3(64), 0, schedule, out.data(), amount, width);
        for (int i = 0; i < 64; ++i) {
          const int warp = i / 32 * 32;
          const int lane = i % 32;
          const int begin = lane / width * width;
          const int end = begin + width;
          const int sources[kCalls] = {begin + amount % width, lane - amount >= begin ? lane - amount : lane,
                                       lane + amount < end ? lane + amount : lane,
                                       (lane ^ amount) < end ? lane ^ amount : lane};
          for (int call = 0; call < kCalls; ++call) {
            EXPECT_EQ(out[i * kCalls + call], static_cast<T>(1000 + warp + sources[call]))
                << "call " << call << " thread " << i << " amount " << amount << " width " << width;
          }
        }
      }
    }
  }
}

TEST(Shuffle, MovesFourAndEightBytes) {
  check_shuffles<int>();
  check_shuffles<float>();
  check_shuffles<double>();
  check_shuffles<long long>();
}

// Two halves of a warp exchange among themselves, each as often as it likes.
__global__ void half_warps_kernel(int* out) {
  const int i = thread_rank();
  const uint32_t mask = i < 16 ? 0x0000ffffu : 0xffff0000u;
  int value = i;
  for (int round = 0; round < (i < 16 ? 3 : 5); ++round) {
    value = shuffle_xor(value, 1, mask) + 1;
  }
  out[i] = shuffle(value, 0);
  out[32 + i] = value;
}

TEST(Shuffle, SubsetsOfAWarpAreIndependent) {
  for (const Schedule& schedule : all_schedules()) {
    std::vector<int> out(64);
    host_launch("half_warps_kernel", half_warps_kernel, dim3(1), dim3(32), 0, schedule, out.data());
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(out[32 + i], (i ^ 1) + (i < 16 ? 3 : 5));
      EXPECT_EQ(out[i], out[32]);
    }
  }
}

__global__ void ragged_kernel(float* out) {
  const int i = thread_rank();
  if (i == 3) {
    return;
  }
  out[i] = shuffle_down(static_cast<float>(i), 1);
}

TEST(Shuffle, LanesThatReturnedOrDoNotExistReadAsPoison) {
  for (const Schedule& schedule : all_schedules()) {
    std::vector<float> out(40, -1.0f);
    host_launch("ragged_kernel", ragged_kernel, dim3(1), dim3(40), 0, schedule, out.data());
    for (int i = 0; i < 40; ++i) {
      if (i == 2 || i == 39) {
        EXPECT_TRUE(std::isnan(out[i])) << i;
      } else {
        EXPECT_EQ(out[i], i == 3 ? -1.0f : i == 31 ? 31.0f : static_cast<float>(i + 1)) << i;
      }
    }
  }
}

__global__ void vote_kernel(const int* flags, int* out) {
  const int i = thread_rank();
  const bool flag = flags[i] != 0;
  int* row = out + i * 6;
  row[0] = static_cast<int>(warp_ballot(flag));
  row[1] = warp_any(flag);
  row[2] = warp_all(flag);
  row[3] = block_any(flag);
  row[4] = block_all(flag);
  row[5] = block_count(flag);
}

TEST(Vote, CountsWarpsAndBlock) {
  const std::function<bool(int)> patterns[] = {[](int) { return false; }, [](int) { return true; },
                                               [](int i) { return i == 40; }, [](int i) { return i % 3 == 0; },
                                               [](int i) { return i >= 32; }};
  for (const auto& pattern : patterns) {
    std::vector<int> flags(96);
    for (int i = 0; i < 96; ++i) {
      flags[i] = pattern(i) ? 1 : 0;
    }
    const int total = static_cast<int>(std::count(flags.begin(), flags.end(), 1));
    for (const Schedule& schedule : all_schedules()) {
      std::vector<int> out = poisoned<int>(96 * 6);
      host_launch("vote_kernel", vote_kernel, dim3(1), dim3(96), 0, schedule, flags.data(), out.data());
      for (int i = 0; i < 96; ++i) {
        uint32_t ballot = 0;
        for (int lane = 0; lane < 32; ++lane) {
          ballot |= static_cast<uint32_t>(flags[i / 32 * 32 + lane]) << lane;
        }
        const std::vector<int> expected = {
            static_cast<int>(ballot), ballot != 0, ballot == kFullWarp, total > 0, total == 96, total};
        EXPECT_EQ(std::vector<int>(out.begin() + i * 6, out.begin() + i * 6 + 6), expected) << i;
      }
    }
  }
}

__global__ void atomics_kernel(int* ints, unsigned* bits, unsigned long long* wide, double* reals) {
  const int i = thread_rank();
  atomicAdd(ints, i);
  atomicMax(ints + 1, i);
  atomicMin(ints + 2, -i);
  atomicSub(ints + 3, 2);
  atomicOr(bits, 1u << (i % 32));
  atomicAnd(bits + 1, ~(1u << (i % 16)));
  atomicXor(bits + 2, 1u << (i % 32));
  atomicInc(bits + 3, 4u);
  atomicAdd(wide, 1ull << 33);
  if (atomicCAS(wide + 1, 0ull, static_cast<unsigned long long>(i + 1)) == 0) {
    atomicExch(wide + 2, static_cast<unsigned long long>(i + 1));
  }
  atomicAdd(reals, 0.5);
}

TEST(Atomics, UpdateFromEveryThread) {
  for (const Schedule& schedule : all_schedules()) {
    std::vector<int> ints(4);
    std::vector<unsigned> bits = {0, ~0u, 0, 0};
    std::vector<unsigned long long> wide(3);
    std::vector<double> reals(1);
    host_launch("atomics_kernel", atomics_kernel, dim3(1), dim3(64), 0, schedule, ints.data(), bits.data(), wide.data(),
                reals.data());
    EXPECT_EQ(ints, (std::vector<int>{63 * 32, 63, -63, -128}));
    EXPECT_EQ(bits, (std::vector<unsigned>{~0u, 0xffff0000u, 0u, 64 % 5}));
    EXPECT_EQ(wide[0], 64ull << 33);
    EXPECT_NE(wide[1], 0u);
    EXPECT_EQ(wide[1], wide[2]);
    EXPECT_EQ(reals[0], 32.0);
  }
}

TEST(Intrinsics, AreTheirDefinition) {
  EXPECT_EQ(__popc(0xf0f0u), 8);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clzll(0), 64);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__ffsll(0), 0);
  EXPECT_EQ(__brev(1u), 0x80000000u);
  EXPECT_EQ(__umulhi(0xffffffffu, 0xffffffffu), 0xfffffffeu);
  EXPECT_EQ(__umul64hi(~0ull, ~0ull), ~0ull - 1);
  EXPECT_EQ(__mulhi(-1, 5), -1);
  EXPECT_EQ(__float_as_uint(1.0f), 0x3f800000u);
  EXPECT_EQ(__longlong_as_double(__double_as_longlong(-2.5)), -2.5);
  EXPECT_EQ(__fmaf_rn(1.0f + 0x1p-12f, 1.0f - 0x1p-12f, -1.0f), -0x1p-24f);
}

}  // namespace
}  // namespace torch_hrr::cuda_on_host
