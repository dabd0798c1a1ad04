// The counter on kernels whose figures are in every textbook.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/cuda_on_host/profile/recorder.h"

#include "kernels/cuda/element_run.cuh"
#include "kernels/cuda/grid.cuh"

namespace torch_hrr::cuda_on_host::profile {

namespace {

using kernels::block_sync;
using kernels::dynamic_shared;
using kernels::ElementRun;
using kernels::lane_index;
using kernels::thread_rank;

constexpr int kTile = 32;

KernelCounts counted(const std::function<void()>& launch) {
  Recorder::instance().start("test", "");
  launch();
  const Profile profile = Recorder::instance().finish();
  EXPECT_EQ(profile.launches.size(), 1u);
  return profile.launches.front();
}

template <typename... Params, typename... Args>
KernelCounts run(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, const Args&... args) {
  return counted([&] { host_launch("kernel", kernel, grid, block, shared_bytes, Schedule{}, args...); });
}

double per_request(const Requests& sum) {
  return static_cast<double>(sum.units) / static_cast<double>(sum.requests);
}

__global__ void copy_kernel(const float* in, float* out, int stride, int first) {
  const int i = thread_rank();
  out[i] = in[first + i * stride];
}

TEST(Counter, SectorsOfStrides) {
  const std::vector<float> in(4096);
  std::vector<float> out(64);
  struct Case {
    int stride;
    int first;
    double sectors;
    double least;
  };
  for (const Case& c : {Case{1, 0, 4, 4}, Case{2, 0, 8, 4}, Case{32, 0, 32, 4}, Case{1, 1, 5, 4}, Case{0, 3, 1, 1}}) {
    SCOPED_TRACE(c.stride);
    const KernelCounts counts = run(copy_kernel, dim3(1), dim3(64), 0, in.data(), out.data(), c.stride, c.first);
    const Requests& loads = counts.of(Memory::kGlobal, Action::kLoad);
    EXPECT_EQ(loads.requests, 2u);
    EXPECT_EQ(loads.lanes, 64u);
    EXPECT_EQ(per_request(loads), c.sectors);
    EXPECT_EQ(loads.ratio(), c.sectors / c.least);
    EXPECT_EQ(per_request(counts.of(Memory::kGlobal, Action::kStore)), 4);
  }
}

__global__ void copy_runs_kernel(const float* in, float* out) {
  using Run = ElementRun<float, 4>;
  reinterpret_cast<Run*>(out)[thread_rank()] = reinterpret_cast<const Run*>(in)[thread_rank()];
}

// Four adjacent elements that nothing aligns are four loads, though a vectoriser would put them together.
__global__ void copy_four_kernel(const float* in, float* out) {
  for (int i = 0; i < 4; ++i) {
    out[4 * thread_rank() + i] = in[4 * thread_rank() + i];
  }
}

TEST(Counter, WideAccesses) {
  const std::vector<float> in(128);
  std::vector<float> out(128);
  const KernelCounts wide = run(copy_runs_kernel, dim3(1), dim3(32), 0, in.data(), out.data());
  for (const Action action : {Action::kLoad, Action::kStore}) {
    const Requests& sum = wide.of(Memory::kGlobal, action);
    EXPECT_EQ(sum.requests, 1u);
    EXPECT_EQ(sum.units, 16u);
    EXPECT_EQ(sum.ratio(), 1);
    EXPECT_EQ(sum.bytes, 512u);
  }
  const KernelCounts narrow = run(copy_four_kernel, dim3(1), dim3(32), 0, in.data(), out.data());
  for (const Action action : {Action::kLoad, Action::kStore}) {
    const Requests& sum = narrow.of(Memory::kGlobal, action);
    EXPECT_EQ(sum.requests, 4u);
    EXPECT_EQ(sum.ratio(), 4);
  }
}

template <typename T>
__global__ void transpose_kernel(const T* in, T* out, int pitch) {
  T* const tile = dynamic_shared<T>();
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  tile[y * pitch + x] = in[y * kTile + x];
  block_sync();
  out[y * kTile + x] = tile[x * pitch + y];
}

template <typename T>
void check_transpose(int pitch, double wavefronts, double least) {
  const std::vector<T> in(kTile * kTile);
  std::vector<T> out(kTile * kTile);
  const KernelCounts counts = run(transpose_kernel<T>, dim3(1), dim3(kTile, kTile),
                                  kTile * static_cast<std::size_t>(pitch) * sizeof(T), in.data(), out.data(), pitch);
  const Requests& loads = counts.of(Memory::kShared, Action::kLoad);
  EXPECT_EQ(loads.requests, 32u);
  EXPECT_EQ(per_request(loads), wavefronts);
  EXPECT_EQ(loads.ratio(), wavefronts / least);
  EXPECT_EQ(per_request(counts.of(Memory::kShared, Action::kStore)), least);
  EXPECT_EQ(counts.barriers, 1u);
}

TEST(Counter, WavefrontsOfATransposition) {
  check_transpose<float>(32, 32, 1);
  check_transpose<float>(33, 1, 1);
  check_transpose<double>(32, 32, 2);
  check_transpose<double>(33, 2, 2);
}

__global__ void broadcast_kernel(double* out) {
  double* const shared = dynamic_shared<double>();
  if (thread_rank() == 0) {
    shared[5] = 1;
  }
  block_sync();
  out[thread_rank()] = shared[5];
}

TEST(Counter, Broadcast) {
  std::vector<double> out(64);
  const KernelCounts counts = run(broadcast_kernel, dim3(1), dim3(64), 64, out.data());
  EXPECT_EQ(per_request(counts.of(Memory::kShared, Action::kLoad)), 1);
  EXPECT_EQ(counts.of(Memory::kShared, Action::kStore).lanes, 1u);
  EXPECT_EQ(counts.of(Memory::kShared, Action::kStore).requests, 1u);
}

// The reduction with strides of threads, which leaves ever fewer of a warp's lanes at work and conflicts between them.
__global__ void strided_sum_kernel(const float* in, float* out) {
  float* const shared = dynamic_shared<float>();
  const int i = thread_rank();
  shared[i] = in[i];
  for (int stride = 1; stride < 256; stride *= 2) {
    block_sync();
    const int at = 2 * stride * i;
    if (at < 256) {
      shared[at] += shared[at + stride];
    }
  }
  if (i == 0) {
    *out = shared[0];
  }
}

TEST(Counter, StridedReduction) {
  const std::vector<float> in(256);
  std::vector<float> out(1);
  const Requests loads =
      run(strided_sum_kernel, dim3(1), dim3(256), 1024, in.data(), out.data()).of(Memory::kShared, Action::kLoad);
  // Two loads of each sum by 4, 2, 1, 1, 1, 1, 1 and 1 warps, and the last by one lane.
  EXPECT_EQ(loads.requests, 2u * 12u + 1u);
  EXPECT_EQ(loads.lanes, 2u * 255u + 1u);
  // Stride 1: 4 warps, words 2 apart; stride 2: 2 warps, words 4 apart; then one warp of 32, 16, 8, 4, 2 and 1 lanes.
  EXPECT_EQ(loads.units, 2u * (4 * 2 + 2 * 4 + 8 + 8 + 8 + 4 + 2 + 1) + 1u);
}

__global__ void histogram_kernel(const int* in, int* counts, int bins) {
  int* const shared = dynamic_shared<int>();
  const int i = thread_rank();
  if (i < bins) {
    shared[i] = 0;
  }
  block_sync();
  atomicAdd(shared + in[i] % bins, 1);
  atomicAdd(counts + in[i] % bins, 1);
}

TEST(Counter, HistogramsPileUp) {
  std::vector<int> in(64);
  for (int i = 0; i < 64; ++i) {
    in[static_cast<std::size_t>(i)] = i;
  }
  for (const int bins : {8, 1}) {
    std::vector<int> counts(8);
    const KernelCounts kernel = run(histogram_kernel, dim3(1), dim3(64), 32, in.data(), counts.data(), bins);
    for (const Memory memory : {Memory::kGlobal, Memory::kShared}) {
      EXPECT_EQ(kernel.of(memory, Action::kAtomic).requests, 2u);
      EXPECT_EQ(kernel.of(memory, Action::kAtomic).deepest, 32u / static_cast<unsigned>(bins));
    }
    EXPECT_EQ(counts[0], 64 / bins);
  }
}

// Lane l goes round l times: the loop's requests are as many as its longest lane needs, with ever fewer lanes.
__global__ void uneven_loop_kernel(const float* in, float* out) {
  float sum = 0;
  for (int i = 0; i < lane_index(); ++i) {
    sum += in[32 * i + lane_index()];
  }
  out[lane_index()] = sum;
}

TEST(Counter, LanesOfALoopStayTogether) {
  const std::vector<float> in(1024);
  std::vector<float> out(32);
  const KernelCounts counts = run(uneven_loop_kernel, dim3(1), dim3(32), 0, in.data(), out.data());
  EXPECT_EQ(counts.of(Memory::kGlobal, Action::kLoad).requests, 31u);
  EXPECT_EQ(counts.of(Memory::kGlobal, Action::kLoad).lanes, 31u * 32u / 2u);
  EXPECT_EQ(counts.of(Memory::kGlobal, Action::kStore).requests, 1u);
}

// Both sides of a branch load on their own; behind it all lanes are together again.
__global__ void branch_kernel(const float* in, float* out) {
  const int i = lane_index();
  float value;
  if (in[i] > 0) {
    value = in[32 + i];
  } else {
    value = in[64 + i] * in[96 + i];
  }
  out[i] = value;
}

TEST(Counter, BranchesPartAndRejoin) {
  std::vector<float> in(128, 1);
  for (int i = 0; i < 32; i += 2) {
    in[static_cast<std::size_t>(i)] = -1;
  }
  std::vector<float> out(32);
  const KernelCounts counts = run(branch_kernel, dim3(1), dim3(32), 0, in.data(), out.data());
  const Requests& loads = counts.of(Memory::kGlobal, Action::kLoad);
  EXPECT_EQ(loads.requests, 4u);
  EXPECT_EQ(loads.lanes, 32u + 3u * 16u);
  EXPECT_EQ(counts.of(Memory::kGlobal, Action::kStore).requests, 1u);
  EXPECT_EQ(counts.of(Memory::kGlobal, Action::kStore).lanes, 32u);
}

__attribute__((noinline)) float third_of(const float* in, int i) {
  return in[i] / 3;
}

__global__ void calling_kernel(const float* in, float* out) {
  out[thread_rank()] = third_of(in, thread_rank()) + third_of(in + 32, thread_rank());
}

TEST(Counter, CallsAreFollowed) {
  const std::vector<float> in(64);
  std::vector<float> out(32);
  const KernelCounts counts = run(calling_kernel, dim3(1), dim3(32), 0, in.data(), out.data());
  EXPECT_EQ(counts.of(Memory::kGlobal, Action::kLoad).requests, 2u);
  EXPECT_EQ(counts.of(Memory::kGlobal, Action::kLoad).units, 8u);
  EXPECT_EQ(counts.of(Memory::kGlobal, Action::kStore).units, 4u);
}

TEST(Counter, SchedulesAgree) {
  const std::vector<float> in(128);
  std::vector<float> out(128);
  std::vector<std::string> counts;
  for (const Schedule& schedule : all_schedules(2)) {
    Recorder::instance().start("test", "");
    host_launch("kernel", strided_sum_kernel, dim3(1), dim3(256), 1024, schedule, std::vector<float>(256).data(),
                out.data());
    counts.push_back(to_json(Recorder::instance().finish()));
  }
  for (const std::string& other : counts) {
    EXPECT_EQ(other, counts.front());
  }
}

TEST(Counter, BytesOfEachBuffer) {
  const std::vector<float> in(100);
  std::vector<float> out(100);
  Recorder& recorder = Recorder::instance();
  recorder.start("copy", "64");
  recorder.name("in", in.data(), Role::kArgument);
  recorder.name("out", out.data(), Role::kResult);
  for (int i = 0; i < 3; ++i) {
    host_launch("kernel", copy_kernel, dim3(1), dim3(64), 0, Schedule{}, in.data(), out.data(), 1, 0);
  }
  const Profile profile = recorder.finish();
  ASSERT_EQ(profile.buffers.size(), 2u);
  EXPECT_EQ(profile.bytes_of_arguments_and_results(), 800u);
  EXPECT_EQ(profile.bytes_once(), 2u * 256u);
  EXPECT_EQ(profile.bytes_all(), 3u * 2u * 256u);
}

}  // namespace

}  // namespace torch_hrr::cuda_on_host::profile
