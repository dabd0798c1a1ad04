// Compiles CUDA kernel bodies with the host compiler and runs them: every CUDA thread is a fiber, one block at a time.
//
// Include this before any .cuh file, in place of the CUDA headers. A test then writes
//
//   for (const Schedule& schedule : all_schedules()) {
//     SCOPED_TRACE(schedule);
//     host_launch("bind_kernel", bind_kernel<float>, dim3(3), dim3(64), shared_bytes, schedule, params);
//   }
//
// host_launch throws LaunchError for a divergent barrier, a deadlock or a launch that no device takes, and passes on
// whatever the kernel body throws. Shared memory is a heap block of exactly shared_bytes, all bits set (NaN, -1) when a
// block starts. docs/dev/cuda_on_host.md says what this finds and what it cannot find.
#pragma once

#if defined(__CUDACC__)
#error "tests/cuda_on_host/shim.h replaces the CUDA headers: compile with the host compiler"
#endif
#define KERNEL_CUDA_ON_HOST 1

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/cuda_on_host/shim_types.h"

#include "kernels/cuda/launch.cuh"

// Kernels are inline on the host, so that two tests may include the same header. Inlining is not forced: with the
// sanitizers' checks it makes compilation ten times slower.
#define __global__ inline
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static_shared_memory_is_not_supported_use_dynamic_shared

namespace torch_hrr::cuda_on_host {

// The most shared memory a block may have on any supported device (sm_90).
constexpr std::size_t kMaxSharedBytes = 227 * 1024;

// The order in which blocks run, and threads between two barriers. The first runnable thread of the order runs until
// it waits, so a warp gets as far ahead of the others as the barriers let it; kShuffled draws a new order at each
// barrier.
struct Schedule {
  enum class Order { kForward, kReverse, kShuffled };
  Order order = Order::kForward;
  uint64_t seed = 0;
};

std::ostream& operator<<(std::ostream& stream, const Schedule& schedule);

// Forward, reverse and shuffled with `seeds` seeds; under a sanitizer fewer, unless TORCH_HRR_TEST_ALL=1.
std::vector<Schedule> all_schedules(int seeds = 3);

struct LaunchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Where a barrier was called; as the default argument of a wrapper it names the wrapper's caller.
struct CallSite {
  const char* file = "";
  int line = 0;
  static constexpr CallSite here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool operator==(const CallSite& other) const {
    return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
  }
};

enum class BlockVote { kNone, kAnd, kOr, kCount };
enum class WarpOp { kSync, kBallot, kAny, kAll, kShuffle, kShuffleUp, kShuffleDown, kShuffleXor };

// Waits for the whole block; returns the vote over all threads' predicates (0 for kNone).
int block_barrier(BlockVote vote, bool predicate, CallSite site);

// Waits for the lanes of mask; returns, as bits, the source lane's value (all bits set where it takes no part) for a
// shuffle and the ballot of nonzero bits for the votes.
uint64_t warp_exchange(WarpOp op, uint32_t mask, int source_lane, uint64_t bits, int bytes);

int current_lane();
void* dynamic_shared_memory();

// The body of one CUDA thread: calls the kernel with its arguments.
struct KernelBody {
  void (*call)(const void* closure) = nullptr;
  const void* closure = nullptr;
  const void* kernel = nullptr;  // its address, by which a profile finds the kernel's symbol
};

void run_grid(const char* name, KernelBody body, dim3 grid, dim3 block, std::size_t shared_bytes,
              const Schedule& schedule);

template <typename... Params, typename... Args>
void host_launch(const char* name, void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes,
                 const Schedule& schedule, const Args&... args) {
  static_assert(kernels::parameters_fit<Params...>(),
                "host_launch: parameters must be trivially copyable and within kMaxParameterBytes");
  static_assert(sizeof...(Params) == sizeof...(Args), "host_launch: one argument for each parameter of the kernel");
  // Copied before anything runs, as CUDA does.
  const auto closure = [kernel, ... params = static_cast<Params>(args)] { kernel(params...); };
  const auto call = [](const void* address) { (*static_cast<const decltype(closure)*>(address))(); };
  run_grid(name, {call, &closure, reinterpret_cast<const void*>(kernel)}, grid, block, shared_bytes, schedule);
}

// DeviceLauncher (kernels/cuda/launch.cuh) on the host.
struct HostLauncher {
  Schedule schedule;

  template <typename... Params, typename... Args>
  void operator()(const char* name, void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes,
                  const Args&... args) const {
    host_launch(name, kernel, grid, block, shared_bytes, schedule, args...);
  }
};

// n elements with all bits set: an output that a kernel forgets to write stays NaN or -1.
template <typename T>
std::vector<T> poisoned(std::size_t n) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> values(n);
  if (n > 0) {
    std::memset(static_cast<void*>(values.data()), 0xff, n * sizeof(T));
  }
  return values;
}

template <typename T>
T shuffle_bits(WarpOp op, uint32_t mask, int source_lane, T value) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "shuffles move 4 or 8 bytes");
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const Bits bits = static_cast<Bits>(warp_exchange(op, mask, source_lane, __builtin_bit_cast(Bits, value), sizeof(T)));
  return __builtin_bit_cast(T, bits);
}

}  // namespace torch_hrr::cuda_on_host

// Written by the scheduler before a fiber resumes, never by kernels (nvcc refuses that).
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
constexpr int warpSize = 32;

inline void __syncthreads(torch_hrr::cuda_on_host::CallSite site = torch_hrr::cuda_on_host::CallSite::here()) {
  torch_hrr::cuda_on_host::block_barrier(torch_hrr::cuda_on_host::BlockVote::kNone, false, site);
}

inline int __syncthreads_and(int predicate,
                             torch_hrr::cuda_on_host::CallSite site = torch_hrr::cuda_on_host::CallSite::here()) {
  return torch_hrr::cuda_on_host::block_barrier(torch_hrr::cuda_on_host::BlockVote::kAnd, predicate != 0, site);
}

inline int __syncthreads_or(int predicate,
                            torch_hrr::cuda_on_host::CallSite site = torch_hrr::cuda_on_host::CallSite::here()) {
  return torch_hrr::cuda_on_host::block_barrier(torch_hrr::cuda_on_host::BlockVote::kOr, predicate != 0, site);
}

inline int __syncthreads_count(int predicate,
                               torch_hrr::cuda_on_host::CallSite site = torch_hrr::cuda_on_host::CallSite::here()) {
  return torch_hrr::cuda_on_host::block_barrier(torch_hrr::cuda_on_host::BlockVote::kCount, predicate != 0, site);
}

inline void __syncwarp(uint32_t mask = 0xffffffffu) {
  torch_hrr::cuda_on_host::warp_exchange(torch_hrr::cuda_on_host::WarpOp::kSync, mask, 0, 0, 0);
}

inline uint32_t __ballot_sync(uint32_t mask, int predicate) {
  using torch_hrr::cuda_on_host::WarpOp;
  return static_cast<uint32_t>(torch_hrr::cuda_on_host::warp_exchange(WarpOp::kBallot, mask, 0, predicate != 0, 0));
}

inline int __any_sync(uint32_t mask, int predicate) {
  using torch_hrr::cuda_on_host::WarpOp;
  return torch_hrr::cuda_on_host::warp_exchange(WarpOp::kAny, mask, 0, predicate != 0, 0) != 0;
}

inline int __all_sync(uint32_t mask, int predicate) {
  using torch_hrr::cuda_on_host::WarpOp;
  return torch_hrr::cuda_on_host::warp_exchange(WarpOp::kAll, mask, 0, predicate == 0, 0) == 0;
}

// Source lanes as in the CUDA C++ Programming Guide: segments of `width` lanes, own value where there is no source.
template <typename T>
T __shfl_sync(uint32_t mask, T value, int source_lane, int width = warpSize) {
  const int segment = torch_hrr::cuda_on_host::current_lane() & ~(width - 1);
  return torch_hrr::cuda_on_host::shuffle_bits(torch_hrr::cuda_on_host::WarpOp::kShuffle, mask,
                                               segment | (source_lane & (width - 1)), value);
}

template <typename T>
T __shfl_up_sync(uint32_t mask, T value, unsigned delta, int width = warpSize) {
  const int lane = torch_hrr::cuda_on_host::current_lane();
  const bool inside = delta <= static_cast<unsigned>(lane & (width - 1));
  return torch_hrr::cuda_on_host::shuffle_bits(torch_hrr::cuda_on_host::WarpOp::kShuffleUp, mask,
                                               inside ? lane - static_cast<int>(delta) : lane, value);
}

template <typename T>
T __shfl_down_sync(uint32_t mask, T value, unsigned delta, int width = warpSize) {
  const int lane = torch_hrr::cuda_on_host::current_lane();
  const bool inside = delta < static_cast<unsigned>(width - (lane & (width - 1)));
  return torch_hrr::cuda_on_host::shuffle_bits(torch_hrr::cuda_on_host::WarpOp::kShuffleDown, mask,
                                               inside ? lane + static_cast<int>(delta) : lane, value);
}

template <typename T>
T __shfl_xor_sync(uint32_t mask, T value, int lane_mask, int width = warpSize) {
  const int lane = torch_hrr::cuda_on_host::current_lane();
  const int source = lane ^ lane_mask;
  const bool inside = source <= (lane | (width - 1));
  return torch_hrr::cuda_on_host::shuffle_bits(torch_hrr::cuda_on_host::WarpOp::kShuffleXor, mask,
                                               inside ? source : lane, value);
}

#include "tests/cuda_on_host/shim_math.h"
