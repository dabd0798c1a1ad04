// The sanitizers see kernels through the shim: planted memory errors and data races are reported with their kernel.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cuda/block.cuh"
#include "tests/cuda_on_host/sanitizers.h"

namespace torch_hrr::cuda_on_host {
namespace {

using namespace torch_hrr::kernels;

// Neighbours read each other's element in every phase; `sync` orders the phases where it is set.
template <bool kSync>
__global__ void rotate_kernel(int* x, int* out) {
  int* shared = dynamic_shared<int>();
  const int i = thread_rank();
  shared[i] = x[i];
  if (kSync) {
    block_sync();
  }
  out[i] = shared[(i + 1) % block_threads()];
}

template <bool kSync>
void rotate() {
  std::vector<int> x(64, 1);
  std::vector<int> out(64);
  host_launch("rotate_kernel", rotate_kernel<kSync>, dim3(1), dim3(64), 64 * 4, Schedule{}, x.data(), out.data());
}

// Every thread adds to one place: in no order of the fibers does a lost update show in the result.
template <bool kAtomic>
__global__ void count_kernel(int* total) {
  if (kAtomic) {
    atomicAdd(total, 1);
  } else {
    *total = *total + 1;
  }
}

template <bool kAtomic>
int count(unsigned blocks, unsigned threads) {
  int total = 0;
  host_launch("count_kernel", count_kernel<kAtomic>, dim3(blocks), dim3(threads), 0, Schedule{}, &total);
  return total;
}

// A shuffle between store and load: it waits for the warp but orders no memory, which only warp_sync does.
template <bool kSync>
__global__ void exchange_kernel(int* out) {
  int* shared = dynamic_shared<int>();
  const int i = thread_rank();
  shared[i] = i;
  int value = shuffle_xor(i, 1);
  if (kSync) {
    warp_sync();
  }
  value += shared[i ^ 1];
  out[i] = value;
}

template <bool kSync>
void exchange() {
  std::vector<int> out(32);
  host_launch("exchange_kernel", exchange_kernel<kSync>, dim3(1), dim3(32), 32 * 4, Schedule{}, out.data());
}

TEST(Faults, CorrectKernelsAreSilent) {
  rotate<true>();
  exchange<true>();
  EXPECT_EQ(count<true>(3, 64), 192);
}

#if defined(KERNEL_THREAD_SANITIZER)

// ThreadSanitizer's report ends the process with status 66.
template <typename Body>
void run_and_exit(Body body) {
  body();
  std::exit(0);
}

TEST(RaceDeathTest, MissingBarrier) {
  EXPECT_EXIT(run_and_exit(rotate<false>), testing::ExitedWithCode(66), "data race");
}

TEST(RaceDeathTest, LostUpdateWithinABlock) {
  EXPECT_EXIT(run_and_exit([] { count<false>(1, 64); }), testing::ExitedWithCode(66), "data race");
}

TEST(RaceDeathTest, LostUpdateBetweenBlocks) {
  EXPECT_EXIT(run_and_exit([] { count<false>(64, 2); }), testing::ExitedWithCode(66), "data race");
}

TEST(RaceDeathTest, ShuffleInPlaceOfAWarpBarrier) {
  EXPECT_EXIT(run_and_exit(exchange<false>), testing::ExitedWithCode(66), "data race");
}

#endif

#if defined(KERNEL_ADDRESS_SANITIZER)

enum class Overflow {
  kSharedStore,
  kSharedLoad,
  kGlobalStore,
  kLocalStore,
  kAfterBarrier,
  kSignedAdd,
  kMisaligned,
  kShift
};

__global__ void overflow_kernel(Overflow kind, int* global, int n) {
  int* shared = dynamic_shared<int>();
  const int i = thread_rank();
  int local[4] = {i, i, i, i};
  switch (kind) {
    case Overflow::kSharedStore:
      shared[i + 1] = i;
      break;
    case Overflow::kSharedLoad:
      global[i] = shared[i + 1];
      break;
    case Overflow::kGlobalStore:
      global[i + 1] = i;
      break;
    case Overflow::kLocalStore:
      local[(i & 3) + n] = 1;
      break;
    case Overflow::kAfterBarrier:
      block_sync();
      shared[block_threads() - i] = shuffle_xor(i, 1);
      break;
    case Overflow::kSignedAdd:
      global[i] = 0x7fffffff - 40 + i;
      break;
    case Overflow::kMisaligned:
      reinterpret_cast<float4*>(shared + 1)->x = 1;
      break;
    case Overflow::kShift:
      global[i] = 1 << (i + n - 20);
      break;
  }
  global[i] += local[i & 3];
}

void overflow(Overflow kind) {
  // shared memory of exactly 64 ints and a global buffer of exactly 64: the 65th is outside
  std::vector<int> global(64);
  host_launch("overflow_kernel", overflow_kernel, dim3(1), dim3(64), 64 * 4, Schedule{}, kind, global.data(), 4);
}

TEST(MemoryDeathTest, OutsideSharedMemory) {
  EXPECT_DEATH(overflow(Overflow::kSharedStore), "heap-buffer-overflow(.|\n)*WRITE of size 4(.|\n)*overflow_kernel");
  EXPECT_DEATH(overflow(Overflow::kSharedLoad), "heap-buffer-overflow(.|\n)*READ of size 4(.|\n)*overflow_kernel");
  EXPECT_DEATH(overflow(Overflow::kAfterBarrier), "heap-buffer-overflow(.|\n)*overflow_kernel");
}

TEST(MemoryDeathTest, OutsideGlobalMemory) {
  EXPECT_DEATH(overflow(Overflow::kGlobalStore), "heap-buffer-overflow(.|\n)*test_shim_faults.cpp");
}

TEST(MemoryDeathTest, OutsideALocalArray) {
  EXPECT_DEATH(overflow(Overflow::kLocalStore), "out of bounds|stack-buffer-overflow");
}

TEST(UndefinedDeathTest, ArithmeticAndAlignment) {
  EXPECT_DEATH(overflow(Overflow::kSignedAdd), "signed integer overflow");
  EXPECT_DEATH(overflow(Overflow::kMisaligned), "misaligned address");
  EXPECT_DEATH(overflow(Overflow::kShift), "shift exponent");
}

#endif

}  // namespace
}  // namespace torch_hrr::cuda_on_host
