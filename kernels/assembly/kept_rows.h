// Rows of connectomes that fired last: those that match, leave or come back, in later rounds, in other brains of the
// same seed or in later calls, are not drawn again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/assembly/rounds.h"

namespace torch_hrr::kernels {

// Of one fiber. They depend on its key, its density and the target's neurons, and on no brain's state.
class KeptRows {
 public:
  // Takes at most so many bytes, when the first row comes.
  KeptRows(const Fiber& fiber, const Area& source, const Area& target, int64_t bytes);

  // What kernels read and write; null where nothing is kept.
  const KeptEdges* edges() const {
    return memory_ != nullptr ? &edges_ : nullptr;
  }
  // Places of rows, -1 for those that have none. Valid until the next call.
  const int32_t* find(const std::vector<int64_t>& rows);
  // The same, once rows have taken the places that are free or belong to those that have not fired for long.
  const int32_t* admit(const Area& source, const std::vector<int64_t>& rows);

  // Whether these are rows of the same graph, with as many places.
  bool serve(const KeptRows& wanted) const;
  // The most memory that rows in use and their index hold, in whole pages; 0 where there is no row.
  int64_t bytes_held() const;

 private:
  int32_t* place_of(int64_t row);
  bool assign(int64_t row);

  uint64_t key_ = 0;
  double p_ = 0;
  int64_t n_ = 0;
  int64_t blocks_ = 0;
  int64_t bytes_of_list_ = 0;
  int64_t bytes_of_row_ = 0;
  int64_t page_ = 0;
  KeptEdges edges_;
  std::unique_ptr<void, decltype(&std::free)> memory_{nullptr, &std::free};
  // Rows with the same hash are linked: head_ by hash, the others by place in use. Ends are -1.
  std::vector<int32_t> head_;
  std::vector<int32_t> next_;
  std::vector<int32_t> row_of_;
  std::vector<int64_t> fired_;  // the last call in which the row fired, 0 once the hand has passed it
  size_t hand_ = 0;             // goes round the places in search of one to give up
  std::vector<int32_t> places_;
  int64_t calls_ = 0;
};

// For a fiber's rows, where so many fibers into areas of n neurons share a round.
constexpr int64_t bytes_to_keep(int64_t n, int64_t fibers) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  constexpr int64_t kBytesPerNeuron = 256;
  return std::min(kMostBytes / fibers, kBytesPerNeuron * n);
}

// Rows that nobody else uses until their owner is gone; then they wait for the next call.
struct GiveBack {
  void operator()(KeptRows* rows) const;
};
using LentRows = std::unique_ptr<KeptRows, GiveBack>;
LentRows lend_rows(const Fiber& fiber, const Area& source, const Area& target, int64_t bytes);

}  // namespace torch_hrr::kernels
