// Runs a grid: which thread goes on, and what completes when it waits or returns.
#include "tests/cuda_on_host/scheduler.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "tests/cuda_on_host/sanitizers.h"

namespace torch_hrr::cuda_on_host {

namespace {

uint64_t next_random(uint64_t& state) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::string to_text(const uint3& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z) + ")";
}

std::string describe(const Thread& thread) {
  const std::string text = "thread " + to_text(thread.index);
  if (thread.state == State::kAtBarrier) {
    return text + " waits at the block barrier of " + std::string(thread.site.file) + ":" +
           std::to_string(thread.site.line);
  }
  if (thread.state == State::kAtWarpOp) {
    static const char* const kNames[] = {"__syncwarp",  "__ballot_sync",  "__any_sync",       "__all_sync",
                                         "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync"};
    char mask[16];
    std::snprintf(mask, sizeof mask, "%08x", static_cast<unsigned>(thread.mask));
    return text + " waits in " + kNames[static_cast<int>(thread.op)] + " for the lanes 0x" + mask;
  }
  return text + (thread.state == State::kExited ? " has returned" : " runs");
}

}  // namespace

void Grid::fail(const std::string& text) const {
  throw LaunchError(std::string(name_) + ": block " + to_text(blockIdx) + ": " + text);
}

// Names one thread for each way of waiting, four at most.
void Grid::fail_stuck() const {
  std::string text = at_barrier_ > 0 ? "divergent barrier" : "divergent warp operation";
  std::vector<const Thread*> shown;
  for (int rank = 0; rank < count_ && shown.size() < 4; ++rank) {
    const Thread& a = *threads_[rank];
    bool is_new = true;
    for (const Thread* b : shown) {
      const bool same = a.state == b->state &&
                        (a.state != State::kAtBarrier || (a.vote == b->vote && a.site == b->site)) &&
                        (a.state != State::kAtWarpOp || (a.op == b->op && a.mask == b->mask));
      is_new = is_new && !same;
    }
    if (is_new) {
      text += (shown.empty() ? ": " : "; ") + describe(a);
      shown.push_back(&a);
    }
  }
  fail(text);
}

std::vector<int> Grid::new_order(int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (schedule_.order == Schedule::Order::kReverse) {
    for (int i = 0; i < n; ++i) {
      order[i] = n - 1 - i;
    }
  } else if (schedule_.order == Schedule::Order::kShuffled) {
    for (uint64_t i = static_cast<uint64_t>(n); i > 1; --i) {
      std::swap(order[i - 1], order[next_random(random_) % i]);
    }
  }
  return order;
}

void Grid::draw_order() {
  order_ = new_order(count_);
  place_.resize(order_.size());
  for (int place = 0; place < count_; ++place) {
    place_[static_cast<std::size_t>(order_[static_cast<std::size_t>(place)])] = place;
  }
}

void Grid::thread_main(void* address) {
  Grid& grid = *static_cast<Grid*>(address);
  Thread& self = *grid.threads_[grid.current_];
  acquire(&grid.start_token_);
  try {
    grid.body_.call(grid.body_.closure);
  } catch (...) {
    grid.error_ = std::current_exception();
  }
  self.state = State::kExited;
}

int Grid::block_barrier(BlockVote vote, bool predicate, CallSite site) {
  Thread& self = *threads_[current_];
  self.state = State::kAtBarrier;
  self.vote = vote;
  self.predicate = predicate;
  self.site = site;
  char* token = &shared_.back()->tokens.barrier;
  release(token);
  self.fiber.suspend();
  acquire(token);
  return static_cast<int>(self.result);
}

uint64_t Grid::warp_exchange(WarpOp op, uint32_t mask, int source_lane, uint64_t bits, int bytes) {
  Thread& self = *threads_[current_];
  if ((mask >> current_lane() & 1u) == 0) {
    fail("thread " + to_text(self.index) + " calls a warp operation whose mask leaves it out");
  }
  self.state = State::kAtWarpOp;
  self.op = op;
  self.mask = mask;
  self.source_lane = source_lane & (kLanes - 1);
  self.bits = bits;
  self.bytes = bytes;
  // Shuffles and votes order no memory; only __syncwarp does.
  char* token = &shared_.back()->tokens.warps[current_ / kLanes];
  if (op == WarpOp::kSync) {
    release(token);
  }
  self.fiber.suspend();
  if (op == WarpOp::kSync) {
    acquire(token);
  }
  return self.result;
}

void Grid::complete_barrier() {
  const Thread& first = *threads_[0];
  int votes = 0;
  for (int rank = 0; rank < count_; ++rank) {
    const Thread& thread = *threads_[rank];
    if (thread.vote != first.vote || !(thread.site == first.site)) {
      fail_stuck();
    }
    votes += thread.predicate ? 1 : 0;
  }
  int result = votes;
  if (first.vote == BlockVote::kAnd) {
    result = votes == count_;
  } else if (first.vote == BlockVote::kOr) {
    result = votes > 0;
  }
  for (int rank = 0; rank < count_; ++rank) {
    threads_[rank]->result = static_cast<uint64_t>(result);
    threads_[rank]->state = State::kReady;
  }
  at_barrier_ = 0;
  cursor_ = 0;
  if (observer_ != nullptr) {
    observer_->barrier();
  }
  if (schedule_.order == Schedule::Order::kShuffled) {
    draw_order();
  }
}

// Completes the thread's warp operation if all its lanes are there. Lanes that have returned, or that the block does
// not have, are not waited for; a shuffle from one of them reads all bits set.
void Grid::try_warp_op(int rank) {
  const Thread& leader = *threads_[rank];
  const int first = rank - rank % kLanes;
  const int lanes = count_ - first < kLanes ? count_ - first : kLanes;
  // The neighbours of a lane that has just come are mostly on their way: then there is nothing to look for.
  for (const int lane : {(rank - first + 1) % lanes, (rank - first + lanes - 1) % lanes}) {
    if ((leader.mask >> lane & 1u) != 0 && threads_[first + lane]->state == State::kReady) {
      return;
    }
  }
  uint32_t present = 0;
  uint64_t ballot = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    const Thread& thread = *threads_[first + lane];
    if ((leader.mask >> lane & 1u) == 0 || thread.state == State::kExited) {
      continue;
    }
    if (thread.state != State::kAtWarpOp || thread.op != leader.op || thread.mask != leader.mask ||
        thread.bytes != leader.bytes) {
      return;
    }
    present |= 1u << lane;
    ballot |= static_cast<uint64_t>(thread.bits != 0) << lane;
  }
  const bool is_shuffle = leader.op >= WarpOp::kShuffle;
  for (int lane = 0; lane < lanes; ++lane) {
    if ((present >> lane & 1u) != 0) {
      Thread& thread = *threads_[first + lane];
      const bool has_source = (present >> thread.source_lane & 1u) != 0;
      thread.result = !is_shuffle ? ballot : has_source ? threads_[first + thread.source_lane]->bits : ~uint64_t{0};
      thread.state = State::kReady;
      // Of the threads before the cursor no other is ready.
      cursor_ = std::min(cursor_, place_[static_cast<std::size_t>(first + lane)]);
    }
  }
  if (observer_ != nullptr) {
    observer_->warp_operation();
  }
}

// Draws the consequences of what the thread did last.
void Grid::settle(Thread& thread) {
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
  if (thread.state == State::kAtWarpOp) {
    try_warp_op(current_);
  } else if (thread.state == State::kAtBarrier) {
    if (++at_barrier_ == count_) {
      complete_barrier();
    }
  } else {
    ++exited_;
    const int first = current_ - current_ % kLanes;
    for (int rank = first; rank < first + kLanes && rank < count_; ++rank) {
      if (threads_[rank]->state == State::kAtWarpOp) {
        try_warp_op(rank);
      }
    }
  }
}

void Grid::enter_block(std::size_t shared_bytes) {
  if (!kFindsRaces) {
    shared_.clear();
  }
  // A block's memory is not reused in a race build, where accesses of two blocks to one address would look like a race.
  void* memory = nullptr;
  // As a GPU's, so that banks and sectors are those of a GPU.
  if (posix_memalign(&memory, 256, shared_bytes) != 0) {
    throw std::bad_alloc();
  }
  if (shared_bytes > 0) {
    std::memset(memory, 0xff, shared_bytes);
  }
  shared_.push_back(std::make_unique<SharedBlock>());
  shared_.back()->memory.reset(memory);
  at_barrier_ = 0;
  exited_ = 0;
  cursor_ = 0;
  draw_order();
  for (int rank = 0; rank < count_; ++rank) {
    Thread& thread = *threads_[rank];
    const unsigned n = static_cast<unsigned>(rank);
    thread.index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / (blockDim.x * blockDim.y)};
    thread.state = State::kReady;
    thread.fiber.start(&Grid::thread_main, this);
  }
  release(&start_token_);
  if (observer_ != nullptr) {
    observer_->begin_block(memory, count_);
  }
}

void Grid::run_block(std::size_t shared_bytes) {
  enter_block(shared_bytes);
  while (cursor_ < count_) {
    current_ = order_[cursor_];
    Thread& thread = *threads_[current_];
    if (thread.state != State::kReady) {
      ++cursor_;
      continue;
    }
    threadIdx = thread.index;
    if (observer_ != nullptr) {
      observer_->enter_thread(current_);
    }
    thread.fiber.resume();
    if (observer_ != nullptr) {
      observer_->leave_thread();
    }
    settle(thread);
  }
  if (exited_ != count_) {
    fail_stuck();
  }
  if (observer_ != nullptr) {
    observer_->end_block();
  }
}

void Grid::run(const char* name, KernelBody body, dim3 grid, dim3 block, std::size_t shared_bytes,
               const Schedule& schedule) {
  try {
    kernels::check_launch(name, grid, block, shared_bytes, {1024, kMaxSharedBytes});
  } catch (const std::runtime_error& error) {
    throw LaunchError(error.what());
  }
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  if (blocks > 1u << 20) {
    throw LaunchError(std::string(name) + ": the host runs at most 2^20 blocks, got " + std::to_string(blocks));
  }
  name_ = name;
  body_ = body;
  schedule_ = schedule;
  random_ = schedule.seed;
  gridDim = grid;
  blockDim = block;
  count_ = static_cast<int>(block.x * block.y * block.z);
  while (threads_.size() < static_cast<std::size_t>(count_)) {
    threads_.push_back(std::make_unique<Thread>());
  }
  if (observer_ != nullptr) {
    observer_->begin_launch(name, body.kernel, grid, block, shared_bytes);
  }
  try {
    for (const int index : new_order(static_cast<int>(blocks))) {
      const unsigned n = static_cast<unsigned>(index);
      blockIdx = {n % grid.x, n / grid.x % grid.y, n / (grid.x * grid.y)};
      run_block(shared_bytes);
    }
  } catch (...) {
    finish();
    threads_.clear();  // some are suspended for ever
    throw;
  }
  finish();
  if (observer_ != nullptr) {
    observer_->end_launch();
  }
}

// What the kernel did comes before what the caller does next.
void Grid::finish() {
  for (const std::unique_ptr<Thread>& thread : threads_) {
    thread->fiber.publish(&end_token_);
  }
  acquire(&end_token_);
  shared_.clear();
}

}  // namespace torch_hrr::cuda_on_host
