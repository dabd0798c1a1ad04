// The scheduler of the host shim: runs the fibers of one block after the other, resolves barriers and warp operations.
#pragma once

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_host/fiber.h"
#include "tests/cuda_on_host/shim.h"

namespace torch_hrr::cuda_on_host {

constexpr int kLanes = 32;

// Told what a launch does; tests/cuda_on_host/profile counts with it. Nobody observes by default.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void begin_launch(const char* name, const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) = 0;
  virtual void begin_block(const void* shared, int threads) = 0;
  virtual void enter_thread(int rank) = 0;
  virtual void leave_thread() = 0;
  virtual void barrier() = 0;
  virtual void warp_operation() = 0;
  virtual void end_block() = 0;
  virtual void end_launch() = 0;
};

// nullptr: nobody.
void observe_launches(LaunchObserver* observer);

enum class State { kReady, kAtBarrier, kAtWarpOp, kExited };

struct Thread {
  Fiber fiber;
  uint3 index = {};
  State state = State::kReady;
  BlockVote vote = BlockVote::kNone;
  bool predicate = false;
  CallSite site;
  WarpOp op = WarpOp::kSync;
  uint32_t mask = 0;
  int source_lane = 0;
  int bytes = 0;
  uint64_t bits = 0;  // what the thread brings to a warp operation
  uint64_t result = 0;
};

// Happens-before edges for ThreadSanitizer. Each block has its own, or a barrier of one block would order it against
// the next.
struct Tokens {
  char barrier = 0;
  char warps[kLanes] = {};
};

struct Free {
  void operator()(void* memory) const {
    std::free(memory);
  }
};

struct SharedBlock {
  std::unique_ptr<void, Free> memory;
  Tokens tokens;
};

class Grid {
 public:
  void run(const char* name, KernelBody body, dim3 grid, dim3 block, std::size_t shared_bytes,
           const Schedule& schedule);
  int block_barrier(BlockVote vote, bool predicate, CallSite site);
  uint64_t warp_exchange(WarpOp op, uint32_t mask, int source_lane, uint64_t bits, int bytes);
  int current_lane() const {
    return current_ % kLanes;
  }
  void observe(LaunchObserver* observer) {
    observer_ = observer;
  }
  void* shared_memory() const {
    return shared_.back()->memory.get();
  }

 private:
  static void thread_main(void* grid);
  void run_block(std::size_t shared_bytes);
  void enter_block(std::size_t shared_bytes);
  void finish();
  void settle(Thread& thread);
  void complete_barrier();
  void try_warp_op(int rank);
  std::vector<int> new_order(int n);
  void draw_order();
  [[noreturn]] void fail(const std::string& text) const;
  [[noreturn]] void fail_stuck() const;

  std::vector<std::unique_ptr<Thread>> threads_;  // kept from launch to launch: their stacks are costly
  std::vector<std::unique_ptr<SharedBlock>> shared_;
  std::vector<int> order_;
  std::vector<int> place_;  // of a thread in that order
  int cursor_ = 0;          // no thread before it in the order is ready
  int count_ = 0;           // threads of the block
  int current_ = 0;
  int at_barrier_ = 0;
  int exited_ = 0;
  const char* name_ = "";
  KernelBody body_;
  Schedule schedule_;
  uint64_t random_ = 0;
  std::exception_ptr error_;
  LaunchObserver* observer_ = nullptr;
  char start_token_ = 0;
  char end_token_ = 0;
};

}  // namespace torch_hrr::cuda_on_host
