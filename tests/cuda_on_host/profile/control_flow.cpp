// Post-dominators of the blocks that threads went through, and the walk of a warp's lanes.
#include "tests/cuda_on_host/profile/control_flow.h"

#include <algorithm>
#include <utility>

namespace torch_hrr::cuda_on_host::profile {

void ControlFlow::observe(const std::vector<Trace>& traces) {
  std::unordered_set<uint64_t> edges;
  for (const Trace& trace : traces) {
    for (std::size_t i = 0; i < trace.steps.size(); ++i) {
      const Node next = i + 1 < trace.steps.size() ? trace.steps[i + 1].node : kExit;
      edges.insert(uint64_t{trace.steps[i].node} << 32 | next);
    }
  }
  if (edges != edges_) {
    edges_ = std::move(edges);
    find_post_dominators();
  }
}

Node ControlFlow::immediate_post_dominator(Node node) const {
  return immediate_.at(node);
}

// Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001), on the graph with its edges turned round.
void ControlFlow::find_post_dominators() {
  std::unordered_map<Node, std::vector<Node>> before;
  std::unordered_map<Node, std::vector<Node>> after;
  for (const uint64_t edge : edges_) {
    const auto from = static_cast<Node>(edge >> 32);
    const auto to = static_cast<Node>(edge);
    before[to].push_back(from);
    after[from].push_back(to);
  }
  // Nodes in post-order from the exit; every node reaches it.
  std::unordered_map<Node, std::size_t> place;
  std::vector<Node> order;
  std::unordered_set<Node> seen = {kExit};
  std::vector<std::pair<Node, std::size_t>> stack = {{kExit, 0}};
  while (!stack.empty()) {
    const Node node = stack.back().first;
    const std::vector<Node>& next = before[node];
    if (stack.back().second < next.size()) {
      const Node child = next[stack.back().second++];
      if (seen.insert(child).second) {
        stack.emplace_back(child, 0);
      }
    } else {
      place[node] = order.size();
      order.push_back(node);
      stack.pop_back();
    }
  }
  const std::size_t unknown = order.size();
  std::vector<std::size_t> dominator(order.size(), unknown);
  const std::size_t exit = place[kExit];
  dominator[exit] = exit;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = order.size() - 1; i-- > 0;) {
      std::size_t common = unknown;
      for (const Node successor : after[order[i]]) {
        std::size_t other = place[successor];
        if (dominator[other] == unknown) {
          continue;
        }
        if (common == unknown) {
          common = other;
          continue;
        }
        while (common != other) {
          std::size_t& lower = common < other ? common : other;
          lower = dominator[lower];
        }
      }
      if (dominator[i] != common) {
        dominator[i] = common;
        changed = true;
      }
    }
  }
  immediate_.clear();
  for (std::size_t i = 0; i < order.size(); ++i) {
    immediate_[order[i]] = order[dominator[i]];
  }
}

namespace {

struct Lane {
  const Trace* trace;
  std::size_t step = 0;

  bool ended() const {
    return step == trace->steps.size();
  }
  Node node() const {
    return trace->steps[step].node;
  }
  std::size_t first_access() const {
    return trace->steps[step].first_access;
  }
  std::size_t access_count() const {
    const bool last = step + 1 == trace->steps.size();
    return (last ? trace->accesses.size() : trace->steps[step + 1].first_access) - first_access();
  }
};

class Walk {
 public:
  Walk(const ControlFlow& flow, const std::function<void(const std::vector<TracedAccess>&)>& request)
      : flow_(flow), request_(request) {}

  // Until all have ended or stand before `stop`.
  void run(const std::vector<Lane*>& lanes, Node stop) {
    Node last = ControlFlow::kExit;
    for (;;) {
      std::vector<Lane*> active;
      for (Lane* lane : lanes) {
        if (!lane->ended() && lane->node() != stop) {
          active.push_back(lane);
        }
      }
      if (active.empty()) {
        return;
      }
      std::vector<std::vector<Lane*>> sides;
      for (Lane* lane : active) {
        const auto side = std::find_if(sides.begin(), sides.end(), [&](const std::vector<Lane*>& others) {
          return others.front()->node() == lane->node();
        });
        if (side == sides.end()) {
          sides.push_back({lane});
        } else {
          side->push_back(lane);
        }
      }
      if (sides.size() == 1) {
        last = active.front()->node();
        issue(active);
        continue;
      }
      const Node together = flow_.immediate_post_dominator(last);
      for (const std::vector<Lane*>& side : sides) {
        run(side, together);
      }
    }
  }

 private:
  void issue(const std::vector<Lane*>& lanes) {
    std::size_t most = 0;
    for (const Lane* lane : lanes) {
      most = std::max(most, lane->access_count());
    }
    for (std::size_t i = 0; i < most; ++i) {
      together_.clear();
      for (const Lane* lane : lanes) {
        if (i < lane->access_count()) {
          together_.push_back(lane->trace->accesses[lane->first_access() + i]);
        }
      }
      request_(together_);
    }
    for (Lane* lane : lanes) {
      ++lane->step;
    }
  }

  const ControlFlow& flow_;
  const std::function<void(const std::vector<TracedAccess>&)>& request_;
  std::vector<TracedAccess> together_;
};

}  // namespace

void walk_warp(const std::vector<const Trace*>& lanes, const ControlFlow& flow,
               const std::function<void(const std::vector<TracedAccess>&)>& request) {
  std::vector<Lane> state;
  for (const Trace* trace : lanes) {
    state.push_back({trace});
  }
  std::vector<Lane*> all;
  for (Lane& lane : state) {
    all.push_back(&lane);
  }
  Walk(flow, request).run(all, ControlFlow::kExit);
}

}  // namespace torch_hrr::cuda_on_host::profile
