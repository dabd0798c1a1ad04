// Rows of a fiber's connectome that fired last, kept for as long as rounds run: those that match, leave or come back
// are not drawn again.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "csrc/assembly/rounds.h"

namespace torch_hrr::assembly {

class KeptRows {
 public:
  // Takes at most so many bytes, when the first row comes; none where the rows of a round would not be used again.
  KeptRows(const Fiber& fiber, const Area& target, int64_t bytes);

  // What kernels read and write; null where nothing is kept.
  const kernels::KeptEdges* edges() const {
    return memory_ != nullptr ? &edges_ : nullptr;
  }
  // Places of rows, -1 for those that have none. Valid until the next call.
  const int32_t* find(const Area& source, const std::vector<int64_t>& rows);
  // The same, once rows have taken the places that are free or belong to those that have not fired for longest.
  const int32_t* admit(const Area& source, const std::vector<int64_t>& rows);

 private:
  void assign(int32_t place, int32_t slot);

  int64_t blocks_ = 0;
  kernels::KeptEdges edges_;
  int64_t bytes_of_columns_ = 0;
  std::unique_ptr<void, decltype(&std::free)> memory_{nullptr, &std::free};
  std::vector<int32_t> place_of_;  // by source slot
  std::vector<int32_t> slot_of_;   // by place in use
  std::vector<int64_t> fired_;     // by place in use: the last call in which its row fired
  std::vector<int32_t> leaving_;   // places whose rows do not fire, the latest last
  std::vector<int32_t> places_;
  int64_t calls_ = 0;
};

}  // namespace torch_hrr::assembly
