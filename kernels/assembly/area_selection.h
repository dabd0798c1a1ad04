// What an area's neurons receive in a round, and which of them win.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/assembly/kept_rows.h"
#include "kernels/assembly/rounds.h"

namespace torch_hrr::kernels {

// An area that is fired into, what fires into it, and its new winners, ascending.
struct AreaRound {
  int32_t area = 0;
  std::vector<Fiber*> fibers;
  std::vector<Stimulus*> stimuli;
  std::vector<int64_t> winners;  // of a fixed area from the start
  std::vector<int64_t> inputs;   // theirs, in units of 2^-24, where none is scaled or taken from
  std::vector<uint8_t> wins;     // by slot
};

class Selection {
 public:
  // `kept` are the rows of each fiber.
  Selection(Brain& brain, std::vector<LentRows>& kept, ParallelFor parallel)
      : brain_(brain), kept_(kept), parallel_(parallel) {}

  // Brings the counts of the target's fibers up to date and selects its winners. The area is not fixed.
  void choose(AreaRound& target);

 private:
  struct Candidate {
    int64_t input;
    int64_t neuron;
    int64_t order;  // of equal inputs the lower one wins
  };

  Area& area_of(int32_t index) {
    return brain_.areas[static_cast<size_t>(index)];
  }
  KeptRows& kept_of(const Fiber& fiber) {
    return *kept_[static_cast<size_t>(&fiber - brain_.fibers.data())];
  }
  void deliver(Fiber& fiber);
  void add_rows(const Fiber& fiber, const std::vector<int64_t>& rows, int32_t sign, const int32_t* places, bool afresh);
  void add_excess(const Fiber& fiber, size_t slots);
  void* scratch(int64_t bytes);
  void choose_by_bound(AreaRound& target, bool scaled);
  void choose_densely(AreaRound& target, bool scaled);
  void add_candidate(const Area& area, int64_t input, int64_t neuron);
  void add_candidates_by_sums(const AreaRound& target, int64_t bound);
  void add_all_candidates(const AreaRound& target, int64_t bound, int shift);

  Brain& brain_;
  std::vector<LentRows>& kept_;
  ParallelFor parallel_;
  // Memory that rounds share.
  std::vector<int64_t> entered_, left_, excess_, ordered_, inputs_;
  std::unique_ptr<void, decltype(&std::free)> scratch_{nullptr, &std::free};
  int64_t scratch_bytes_ = 0;
  std::vector<int32_t> indices_;
  std::vector<uint32_t> sums_;
  std::vector<const int32_t*> sources_;
  std::vector<const double*> scales_;
  std::vector<Candidate> candidates_;
};

}  // namespace torch_hrr::kernels
