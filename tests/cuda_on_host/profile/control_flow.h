// Which accesses of a warp's lanes belong together: the lanes of a warp walk through their traces as a GPU runs them.
//
// A trace is the sequence of basic blocks that a thread went through, with the accesses in each. Lanes in the same
// basic block go together. Where they part, each side runs until the immediate post-dominator of the block in which
// they parted, and there they are together again, as compilers for SIMT machines place reconvergence. Post-dominators
// are those of the control flow that the traces of the whole block of threads show.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/cuda_on_host/profile/memory_requests.h"

namespace torch_hrr::cuda_on_host::profile {

enum class Memory : uint8_t { kGlobal, kShared };
enum class Action : uint8_t { kLoad, kStore, kAtomic };

struct TracedAccess : Access {
  Memory memory = Memory::kGlobal;
  Action action = Action::kLoad;
};

using Node = uint32_t;  // a basic block within its chain of calls

struct Step {
  Node node;
  uint32_t first_access;
};

struct Trace {
  std::vector<Step> steps;
  std::vector<TracedAccess> accesses;

  void clear() {
    steps.clear();
    accesses.clear();
  }
};

class ControlFlow {
 public:
  // The flow of these traces and no others.
  void observe(const std::vector<Trace>& traces);

  Node immediate_post_dominator(Node node) const;
  static constexpr Node kExit = ~Node{0};

 private:
  void find_post_dominators();

  std::unordered_set<uint64_t> edges_;  // from << 32 | to
  std::unordered_map<Node, Node> immediate_;
};

// Calls request(lanes' accesses) for each request of the warp, in an order in which a GPU might issue them.
void walk_warp(const std::vector<const Trace*>& lanes, const ControlFlow& flow,
               const std::function<void(const std::vector<TracedAccess>&)>& request);

}  // namespace torch_hrr::cuda_on_host::profile
