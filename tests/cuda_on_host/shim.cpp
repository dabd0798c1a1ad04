// The face of the host shim: CUDA's built-in variables and the functions of shim.h.
#include "tests/cuda_on_host/shim.h"

#include <cstdlib>

#include "tests/cuda_on_host/sanitizers.h"
#include "tests/cuda_on_host/scheduler.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

#if defined(KERNEL_THREAD_SANITIZER)
// The first race ends the process, as the first memory error does.
extern "C" const char* __tsan_default_options() {
  return "halt_on_error=1:history_size=4:atexit_sleep_ms=0";
}
#endif

namespace torch_hrr::cuda_on_host {

namespace {

// Never destroyed: a death test may leave the process while a fiber runs.
Grid& instance() {
  static Grid& grid = *new Grid;
  return grid;
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const Schedule& schedule) {
  switch (schedule.order) {
    case Schedule::Order::kForward:
      return stream << "forward";
    case Schedule::Order::kReverse:
      return stream << "reverse";
    case Schedule::Order::kShuffled:
      return stream << "shuffled with seed " << schedule.seed;
  }
  return stream;
}

std::vector<Schedule> all_schedules(int seeds) {
#if defined(KERNEL_ADDRESS_SANITIZER) || defined(KERNEL_THREAD_SANITIZER)
  // Sanitizers see accesses and barriers, which are the same in any order but for the luck of what atomics synchronise;
  // values meet three orders in the two builds. The tests of the shim itself ask for more seeds.
  const char* all = std::getenv("TORCH_HRR_TEST_ALL");
  if (seeds <= 2 && (all == nullptr || std::strcmp(all, "1") != 0)) {
#if defined(KERNEL_THREAD_SANITIZER)
    return {{Schedule::Order::kForward, 0}, {Schedule::Order::kReverse, 0}};
#else
    return {{Schedule::Order::kShuffled, 1}};
#endif
  }
#endif
  std::vector<Schedule> schedules = {{Schedule::Order::kForward, 0}, {Schedule::Order::kReverse, 0}};
  for (int seed = 1; seed <= seeds; ++seed) {
    schedules.push_back({Schedule::Order::kShuffled, static_cast<uint64_t>(seed)});
  }
  return schedules;
}

void observe_launches(LaunchObserver* observer) {
  instance().observe(observer);
}

int block_barrier(BlockVote vote, bool predicate, CallSite site) {
  return instance().block_barrier(vote, predicate, site);
}

uint64_t warp_exchange(WarpOp op, uint32_t mask, int source_lane, uint64_t bits, int bytes) {
  return instance().warp_exchange(op, mask, source_lane, bits, bytes);
}

int current_lane() {
  return instance().current_lane();
}

void* dynamic_shared_memory() {
  return instance().shared_memory();
}

void run_grid(const char* name, KernelBody body, dim3 grid, dim3 block, std::size_t shared_bytes,
              const Schedule& schedule) {
  instance().run(name, body, grid, block, shared_bytes, schedule);
}

}  // namespace torch_hrr::cuda_on_host
