// The edges that firing rows must know before they can be potentiated.
#pragma once

#include <cstdint>
#include <vector>

#include "csrc/assembly/rounds.h"

namespace torch_hrr::assembly {

class EdgeSearch {
 public:
  EdgeSearch(const Brain& brain, bool threads) : brain_(brain), threads_(threads) {}

  // Makes the edges from the firing rows to every target slot known; sets `needed` to the chunks that this takes, and
  // changes nothing where the fiber has fewer.
  bool learn(Fiber& fiber, int64_t& needed);

 private:
  const Area& source_of(const Fiber& fiber) const {
    return brain_.areas[static_cast<size_t>(fiber.source)];
  }
  const Area& target_of(const Fiber& fiber) const {
    return brain_.areas[static_cast<size_t>(fiber.target)];
  }
  void match(const Fiber& fiber, int32_t least, int32_t slots);
  bool insert(Fiber& fiber, int32_t slots, int64_t& needed);

  const Brain& brain_;
  bool threads_;
  // Memory that rounds share.
  std::vector<int64_t> rows_;
  std::vector<uint32_t> bits_;
  std::vector<uint64_t> pairs_;
};

}  // namespace torch_hrr::assembly
