// The edges of a random fiber that firing rows must know before they can be potentiated.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/assembly/kept_rows.h"
#include "kernels/assembly/rounds.h"

namespace torch_hrr::kernels {

class EdgeSearch {
 public:
  // `kept` are the rows of each fiber.
  EdgeSearch(const Brain& brain, std::vector<LentRows>& kept, ParallelFor parallel)
      : brain_(brain), kept_(kept), parallel_(parallel), searched_(brain.fibers.size()) {}

  // Searches for the edges from the firing rows to target slots that these rows do not know: `pairs` becomes (place in
  // `firing`, column) of each, ascending. Returns the chunks that the fiber has in use once they are filed.
  int64_t find(size_t fiber, std::vector<uint64_t>& pairs);

  // Puts the pairs into the fiber's table, with weight 1: the firing rows know every target slot then. The order of
  // pairs decides where edges lie, on every device.
  void file(Fiber& fiber, const std::vector<uint64_t>& pairs);

 private:
  const Area& source_of(const Fiber& fiber) const {
    return brain_.areas[static_cast<size_t>(fiber.source)];
  }
  const Area& target_of(const Fiber& fiber) const {
    return brain_.areas[static_cast<size_t>(fiber.target)];
  }
  const Brain::Firing& firing_of(const Fiber& fiber) const {
    return brain_.firing[static_cast<size_t>(fiber.source)];
  }
  void match(const Fiber& fiber, KeptRows& kept, int32_t least, int32_t slots);

  const Brain& brain_;
  std::vector<LentRows>& kept_;
  ParallelFor parallel_;
  // Which rows, of those that fired one after the other, know how many target slots.
  struct Searched {
    int64_t changes = -1;
    int64_t slots = -1;
    bool operator==(const Searched&) const = default;
  };
  Searched searched(const Fiber& fiber) const {
    return {firing_of(fiber).changes, target_of(fiber).slots[0]};
  }
  std::vector<Searched> searched_;  // by fiber, at the last search
  // Memory that rounds share.
  std::vector<int64_t> rows_;
  std::vector<int32_t> places_;  // of rows_ in `firing`
  std::vector<uint64_t> found_;
  std::vector<size_t> ends_;
  std::vector<uint32_t> bits_;
};

}  // namespace torch_hrr::kernels
