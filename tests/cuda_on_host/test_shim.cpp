// The host shim itself: correct kernels agree under every schedule, and defects that show in their results show.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "kernels/cuda/element_run.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/workspace.h"
#include "tests/cuda_on_host/sanitizers.h"

namespace torch_hrr::cuda_on_host {
namespace {

using namespace torch_hrr::kernels;

template <typename T>
__global__ void row_sum_kernel(const T* x, T* out, int64_t rows, int64_t dim) {
  T* shared = dynamic_shared<T>();
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T sum = 0;
    for (int64_t i = thread_rank(); i < dim; i += block_threads()) {
      sum += x[row * dim + i];
    }
    sum = block_sum(sum, shared);
    if (thread_rank() == 0) {
      out[row] = sum;
    }
  }
}

// The order of row_sum_kernel, written down without threads.
template <typename T>
T row_sum(const T* x, int64_t dim, int threads) {
  std::vector<T> partial(static_cast<std::size_t>(threads), T(0));
  for (int64_t i = 0; i < dim; ++i) {
    partial[static_cast<std::size_t>(i % threads)] += x[i];
  }
  T total = 0;
  for (int warp = 0; warp < threads / kWarpSize; ++warp) {
    T lanes[kWarpSize];
    std::copy_n(partial.begin() + warp * kWarpSize, kWarpSize, lanes);
    for (int half = kWarpSize / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) {
        lanes[lane] = lanes[lane] + lanes[lane + half];
      }
    }
    total = warp == 0 ? lanes[0] : total + lanes[0];
  }
  return total;
}

template <typename T>
class BlockSum : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(BlockSum, Reals);

TYPED_TEST(BlockSum, HasTheSameBitsUnderEverySchedule) {
  using T = TypeParam;
  constexpr int64_t kRows = 5;
  for (const int64_t dim : {1, 257, 1000}) {
    std::vector<T> x(static_cast<std::size_t>(kRows * dim));
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = std::sin(static_cast<T>(i) * T(1.7)) * std::pow(T(10), static_cast<T>(i % 7));
    }
    // ThreadSanitizer's barriers cost the square of the threads.
    for (const unsigned threads : {32u, 96u, kFindsRaces ? 256u : 1024u}) {
      for (const unsigned blocks : {2u, 5u}) {
        for (const Schedule& schedule : all_schedules()) {
          SCOPED_TRACE(schedule);
          std::vector<T> out = poisoned<T>(kRows);
          host_launch("row_sum_kernel", row_sum_kernel<T>, dim3(blocks), dim3(threads), threads / kWarpSize * sizeof(T),
                      schedule, x.data(), out.data(), kRows, dim);
          for (int64_t row = 0; row < kRows; ++row) {
            EXPECT_EQ(out[row], row_sum(x.data() + row * dim, dim, static_cast<int>(threads))) << threads << " " << dim;
          }
        }
      }
    }
  }
}

template <typename T>
__global__ void prefix_kernel(const T* x, T* out, T* totals, int64_t rows) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t i = row * block_threads() + thread_rank();
    out[i] = block_exclusive_sum(x[i], dynamic_shared<T>(), totals[i]);
  }
}

template <typename T>
class BlockExclusiveSum : public testing::Test {};
using Integers = testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(BlockExclusiveSum, Integers);

TYPED_TEST(BlockExclusiveSum, IsTheSumOfTheThreadsBelow) {
  using T = TypeParam;
  constexpr int64_t kRows = 5;
  for (const unsigned threads : {32u, 96u, kFindsRaces ? 256u : 1024u}) {
    std::vector<T> x(kRows * threads);
    std::vector<T> expected;
    std::vector<T> totals;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<T>(i * 2654435761u % 1000003u) << (8 * sizeof(T) - 32);
      const T before = i % threads == 0 ? T{0} : expected.back() + x[i - 1];
      expected.push_back(before);
      if (i % threads == threads - 1) {
        totals.insert(totals.end(), threads, before + x[i]);
      }
    }
    for (const Schedule& schedule : all_schedules()) {
      SCOPED_TRACE(schedule);
      std::vector<T> out = poisoned<T>(x.size());
      std::vector<T> sums = poisoned<T>(x.size());
      host_launch("prefix_kernel", prefix_kernel<T>, dim3(2), dim3(threads), threads / kWarpSize * sizeof(T), schedule,
                  x.data(), out.data(), sums.data(), kRows);
      EXPECT_EQ(out, expected) << threads;
      EXPECT_EQ(sums, totals) << threads;
    }
  }
}

template <typename T>
__global__ void reduce_kernel(const T* x, T* largest, T* bits, int64_t rows) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t i = row * block_threads() + thread_rank();
    largest[i] = block_max(x[i], dynamic_shared<T>());
    bits[i] = block_or(x[i], dynamic_shared<T>());
  }
}

TYPED_TEST(BlockExclusiveSum, TheLargestValueAndEveryBitComeFromAnyThread) {
  using T = TypeParam;
  constexpr std::size_t kThreads = 96;
  constexpr T kTop = T{1} << (8 * sizeof(T) - 1);
  // Row r has its largest value in thread r.
  std::vector<T> x(kThreads * kThreads);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i / kThreads == i % kThreads ? kTop + 64 : static_cast<T>(1 << i % 6);
  }
  for (const Schedule& schedule : all_schedules(1)) {
    SCOPED_TRACE(schedule);
    std::vector<T> largest = poisoned<T>(x.size());
    std::vector<T> bits = poisoned<T>(x.size());
    host_launch("reduce_kernel", reduce_kernel<T>, dim3(5), dim3(kThreads), kThreads / kWarpSize * sizeof(T), schedule,
                x.data(), largest.data(), bits.data(), static_cast<int64_t>(kThreads));
    EXPECT_EQ(largest, std::vector<T>(x.size(), kTop + 64));
    EXPECT_EQ(bits, std::vector<T>(x.size(), kTop + 127));
  }
}

// visits[0][i], visits[1][i], visits[2][i] += 1 for i < count, by threads, by threads in step and by warps
__global__ void stride_kernel(int64_t count, int64_t room, int32_t* visits) {
  for_each_of_grid(count, [&](int64_t i) { atomicAdd(&visits[i], 1); });
  for_each_of_grid_in_step(count, [&](int64_t i, bool live) {
    // All lanes are here, or the vote would be refused.
    if (warp_any(live) && live) {
      atomicAdd(&visits[room + i], 1);
    }
  });
  for_each_of_warps(count, [&](int64_t i) {
    if (shuffle(lane_index(), 31) == 31 && lane_index() == 0) {
      atomicAdd(&visits[2 * room + i], 1);
    }
  });
}

TEST(GridLoops, VisitEveryIndexOnce) {
  constexpr int64_t kRoom = 300;
  for (const int64_t count : {0, 1, 31, 32, 33, 64, 200, 300}) {
    for (const dim3 grid : {dim3(1), dim3(2), dim3(20)}) {
      for (const dim3 block : {dim3(32), dim3(16, 2, 3)}) {
        std::vector<int32_t> visits(3 * kRoom);
        host_launch("stride_kernel", stride_kernel, grid, block, 0, Schedule{}, count, kRoom, visits.data());
        for (int64_t i = 0; i < 3 * kRoom; ++i) {
          ASSERT_EQ(visits[i], i % kRoom < count ? 1 : 0) << count << " " << i;
        }
      }
    }
  }
}

template <typename S, int kCount>
void expect_runs() {
  alignas(16) S source[3 * kCount];
  for (int i = 0; i < 3 * kCount; ++i) {
    source[i] = static_cast<S>(i + 1);
  }
  for (int shift = 0; shift <= kCount; ++shift) {
    for (int size = 0; size <= kCount; ++size) {
      const bool aligned = is_run_aligned<S, kCount>(source + shift);
      EXPECT_EQ(aligned, shift % (kCount * sizeof(S) < 16 ? kCount : 16 / sizeof(S)) == 0);
      const auto run = load_run<S, kCount>(source + shift, size, aligned);
      alignas(16) S target[3 * kCount] = {};
      store_run(target + shift, run, size, aligned);
      for (int i = 0; i < 3 * kCount; ++i) {
        const bool inside = i >= shift && i < shift + size;
        EXPECT_EQ(target[i], inside ? source[i] : S{0});
        if (i < kCount) {
          EXPECT_EQ(run.elements[i], i < size ? source[shift + i] : S{0});
        }
      }
    }
  }
}

TEST(ElementRuns, LoadAndStoreWhatThereIs) {
  expect_runs<uint16_t, 8>();
  expect_runs<float, 4>();
  expect_runs<double, 2>();
  expect_runs<uint32_t, 2>();
}

TEST(Workspace, ArraysFollowEachOtherAndAreAligned) {
  alignas(32) unsigned char memory[128];
  WorkspaceCarver counting(nullptr);
  WorkspaceCarver carving(memory);
  for (WorkspaceCarver* carver : {&counting, &carving}) {
    void* const bytes = carver->take<unsigned char>(17);
    void* const none = carver->take<double>(0);
    void* const numbers = carver->take<int64_t>(9);
    EXPECT_EQ(carver->used(), 32 + 96);
    const bool real = carver == &carving;
    EXPECT_EQ(bytes, real ? memory : nullptr);
    EXPECT_EQ(none, real ? memory + 32 : nullptr);
    EXPECT_EQ(numbers, real ? memory + 32 : nullptr);
  }
}

// out[r, i] = x[r, dim-1-i] through shared memory, with the barriers after the store and at the loop's end or without.
template <bool kAfterStore, bool kAtEnd>
__global__ void flip_kernel(const int* x, int* out, int rows) {
  int* shared = dynamic_shared<int>();
  const int i = thread_rank();
  const int dim = block_threads();
  for (int row = static_cast<int>(blockIdx.x); row < rows; row += static_cast<int>(gridDim.x)) {
    shared[i] = x[row * dim + i];
    if (kAfterStore) {
      block_sync();
    }
    out[row * dim + i] = shared[dim - 1 - i];
    if (kAtEnd) {
      block_sync();
    }
  }
}

// How many of the schedules give a wrong result.
template <typename Kernel>
int wrong_schedules(Kernel kernel, int rows, unsigned blocks, unsigned threads) {
  std::vector<int> x(rows * threads);
  std::iota(x.begin(), x.end(), 0);
  std::vector<int> flipped;
  for (int row = 0; row < rows; ++row) {
    const auto begin = x.begin() + row * static_cast<int>(threads);
    flipped.insert(flipped.end(), begin, begin + threads);
    std::reverse(flipped.end() - threads, flipped.end());
  }
  int wrong = 0;
  for (const Schedule& schedule : all_schedules()) {
    std::vector<int> out = poisoned<int>(x.size());
    host_launch("flip_kernel", kernel, dim3(blocks), dim3(threads), threads * sizeof(int), schedule, x.data(),
                out.data(), rows);
    wrong += out != flipped ? 1 : 0;
  }
  return wrong;
}

TEST(Barrier, CompleteKernelIsRight) {
  EXPECT_EQ(wrong_schedules(flip_kernel<true, true>, 5, 2, 64), 0);
}

#if !defined(KERNEL_THREAD_SANITIZER)  // which stops at each of these: test_shim_faults.cpp
TEST(Barrier, MissingAfterStoreShows) {
  EXPECT_EQ(wrong_schedules(flip_kernel<false, true>, 1, 1, 64), 5);
}

TEST(Barrier, MissingAtTheEndOfTheLoopShowsWhereABlockHasSeveralRows) {
  EXPECT_EQ(wrong_schedules(flip_kernel<true, false>, 4, 4, 64), 0);
  EXPECT_EQ(wrong_schedules(flip_kernel<true, false>, 4, 2, 64), 5);
}

template <bool kSync>
__global__ void neighbour_kernel(const int* x, int* out, int) {
  int* shared = dynamic_shared<int>();
  const int i = thread_rank();
  shared[i] = x[i];
  if (kSync) {
    warp_sync();
  }
  out[i] = shared[block_threads() - 1 - i];
}

TEST(Barrier, MissingWarpBarrierShows) {
  EXPECT_EQ(wrong_schedules(neighbour_kernel<true>, 1, 1, 32), 0);
  EXPECT_EQ(wrong_schedules(neighbour_kernel<false>, 1, 1, 32), 5);
}

// A warp barrier where a block barrier is needed: a schedule that runs one warp ahead of the others finds it.
TEST(Barrier, WarpBarrierDoesNotOrderWarps) {
  EXPECT_EQ(wrong_schedules(neighbour_kernel<true>, 1, 1, 64), 5);
}
#endif

__global__ void throwing_kernel(int rank) {
  if (thread_rank() == rank) {
    throw std::out_of_range("thrown in a fiber");
  }
  block_sync();
}

TEST(Launch, PassesOnExceptionsOfTheKernel) {
  for (const Schedule& schedule : all_schedules()) {
    EXPECT_THROW(host_launch("throwing_kernel", throwing_kernel, dim3(2), dim3(64), 0, schedule, 40),
                 std::out_of_range);
  }
}

__global__ void empty_kernel() {}

TEST(Launch, RefusesWhatNoDeviceTakes) {
  const auto error = [](dim3 grid, dim3 block, std::size_t shared_bytes) -> std::string {
    try {
      host_launch("empty_kernel", empty_kernel, grid, block, shared_bytes, Schedule{});
    } catch (const LaunchError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error(dim3(1), dim3(1024), kMaxSharedBytes), "");
  EXPECT_EQ(error(dim3(0), dim3(32), 0), "empty_kernel: the grid must not be empty, got 0x1x1");
  EXPECT_EQ(error(dim3(1, 65536), dim3(32), 0),
            "empty_kernel: the grid must be at most 2147483647x65535x65535, got 1x65536x1");
  EXPECT_EQ(error(dim3(1), dim3(1025), 0),
            "empty_kernel: the block must have 1 to 1024 threads (at most 64 along z), got 1025x1x1");
  EXPECT_NE(error(dim3(1), dim3(1, 1, 65), 0), "");
  EXPECT_NE(error(dim3(1), dim3(32, 33, 1), 0), "");
  EXPECT_NE(error(dim3(1), dim3(0), 0), "");
  EXPECT_EQ(error(dim3(1), dim3(32), 228 * 1024),
            "empty_kernel: 228 KiB of shared memory exceed the device's limit of 227 KiB");
  EXPECT_EQ(error(dim3(1), dim3(32), kMaxSharedBytes + 1),
            "empty_kernel: 232449 bytes of shared memory exceed the device's limit of 227 KiB");
}

TEST(Launch, GridForRoundsUpAndStopsAtTheLimit) {
  EXPECT_EQ(grid_for(0, 8).x, 0u);
  EXPECT_EQ(grid_for(1, 8).x, 1u);
  EXPECT_EQ(grid_for(8, 8).x, 1u);
  EXPECT_EQ(grid_for(9, 8).x, 2u);
  EXPECT_EQ(grid_for(INT64_MAX, 1).x, 2147483647u);
}

__global__ void coordinates_kernel(unsigned* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned* row = out + (block * block_threads() + thread_rank()) * 8;
  const unsigned values[8] = {
      threadIdx.x,           threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z, unsigned(lane_index()),
      unsigned(warp_index())};
  std::copy_n(values, 8, row);
}

TEST(Launch, CoversGridAndBlockInThreeDimensions) {
  const dim3 grid(2, 3, 2);
  const dim3 block(4, 3, 5);
  for (const Schedule& schedule : all_schedules()) {
    std::vector<unsigned> out = poisoned<unsigned>(12 * 60 * 8);
    host_launch("coordinates_kernel", coordinates_kernel, grid, block, 0, schedule, out.data());
    for (unsigned i = 0; i < 12 * 60; ++i) {
      const unsigned t = i % 60;
      const unsigned b = i / 60;
      const std::vector<unsigned> expected = {t % 4, t / 4 % 3, t / 12, b % 2, b / 2 % 3, b / 6, t % 32, t / 32};
      EXPECT_EQ(std::vector<unsigned>(out.begin() + i * 8, out.begin() + i * 8 + 8), expected);
    }
  }
}

__global__ void poison_kernel(float* out) {
  float* shared = dynamic_shared<float>();
  const int i = thread_rank();
  out[blockIdx.x * block_threads() + i] = shared[i];
  block_sync();
  shared[i] = 1;
}

TEST(SharedMemory, IsPoisonedForEachBlock) {
  std::vector<float> out(3 * 64);
  host_launch("poison_kernel", poison_kernel, dim3(3), dim3(64), 64 * sizeof(float), Schedule{}, out.data());
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float value) { return std::isnan(value); }));
}

__global__ void last_block_kernel(const float* x, float* partial, unsigned* done, float* out) {
  float* shared = dynamic_shared<float>();
  const float sum = block_sum(x[blockIdx.x * block_threads() + thread_rank()], shared);
  bool is_last = false;
  if (thread_rank() == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicAdd(done, 1u) == gridDim.x - 1;
  }
  if (block_any(is_last) && thread_rank() == 0) {
    float total = 0;
    for (unsigned block = 0; block < gridDim.x; ++block) {
      total += partial[block];
    }
    *out = total;
  }
}

TEST(Atomics, TheLastBlockSeesTheOthers) {
  std::vector<float> x(6 * 64);
  std::iota(x.begin(), x.end(), 0.0f);
  for (const Schedule& schedule : all_schedules()) {
    SCOPED_TRACE(schedule);
    std::vector<float> partial = poisoned<float>(6);
    unsigned done = 0;
    float out = -1;
    host_launch("last_block_kernel", last_block_kernel, dim3(6), dim3(64), 2 * sizeof(float), schedule, x.data(),
                partial.data(), &done, &out);
    EXPECT_EQ(out, 383.0f * 384.0f / 2.0f);
    EXPECT_EQ(done, 6u);
  }
}

TEST(Schedules, AreAllDifferentAndPrintTheirName) {
  std::set<std::string> names;
  for (const Schedule& schedule : all_schedules(4)) {
    names.insert(testing::PrintToString(schedule));
  }
  EXPECT_EQ(names.size(), 6u);
  EXPECT_TRUE(names.count("shuffled with seed 4"));
}

}  // namespace
}  // namespace torch_hrr::cuda_on_host
