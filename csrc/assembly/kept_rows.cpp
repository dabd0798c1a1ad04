// Places of rows, and which of them are given up.
#include "csrc/assembly/kept_rows.h"

#include <algorithm>
#include <cmath>

#include "csrc/huge_pages.h"

namespace torch_hrr::assembly {
namespace {

// In large pages where there are any: small ones can take longer to come than rows to be drawn. Null where there is no
// memory.
void* large_memory(int64_t bytes) {
  constexpr int64_t kPage = int64_t{2} << 20;
  const int64_t alignment = bytes < kPage ? 64 : kPage;
  const auto size = static_cast<size_t>((bytes + alignment - 1) / alignment * alignment);
  void* const memory = std::aligned_alloc(static_cast<size_t>(alignment), size);
  if (memory != nullptr) {
    prefer_huge_pages(memory, size);
  }
  return memory;
}

}  // namespace

KeptRows::KeptRows(const Fiber& fiber, const Area& target, int64_t bytes) {
  if (fiber.connectome == nullptr || fiber.connectome->empty != 0) {
    return;
  }
  const kernels::GapTables& tables = *fiber.connectome;
  blocks_ = kernels::block_count(tables, target.n);
  // Four standard deviations above the mean, and what is drawn at once.
  const double edges = tables.p * static_cast<double>(std::min(tables.width, target.n));
  const auto columns = static_cast<int64_t>(edges + 4 * std::sqrt(edges));
  edges_.capacity = (columns / kernels::kListGrain + 2) * kernels::kListGrain;
  const int64_t bytes_of_list = edges_.capacity * kernels::bytes_of_column(tables);
  const int64_t bytes_of_row = blocks_ * (bytes_of_list + static_cast<int64_t>(sizeof(int32_t)));
  edges_.places = std::min<int64_t>(bytes / bytes_of_row, INT32_MAX);
  bytes_of_columns_ = edges_.places * blocks_ * bytes_of_list;
}

const int32_t* KeptRows::find(const Area& source, const std::vector<int64_t>& rows) {
  places_.clear();
  for (const int64_t row : rows) {
    const int32_t slot = source.slot_of[row];
    places_.push_back(slot >= 0 && slot < static_cast<int32_t>(place_of_.size()) ? place_of_[static_cast<size_t>(slot)]
                                                                                 : -1);
  }
  return places_.data();
}

const int32_t* KeptRows::admit(const Area& source, const std::vector<int64_t>& rows) {
  if (edges_.places == 0) {
    return find(source, rows);
  }
  ++calls_;
  place_of_.resize(static_cast<size_t>(source.slots[0]), -1);
  if (memory_ == nullptr) {
    memory_.reset(large_memory(bytes_of_columns_ + edges_.places * blocks_ * static_cast<int64_t>(sizeof(int32_t))));
    if (memory_ == nullptr) {
      edges_.places = 0;
      return find(source, rows);
    }
    edges_.columns = memory_.get();
    edges_.lengths = reinterpret_cast<int32_t*>(static_cast<char*>(memory_.get()) + bytes_of_columns_);
  }
  for (int64_t i = 0; i < *source.winner_count; ++i) {
    const int32_t place = place_of_[static_cast<size_t>(source.slot_of[source.winners[i]])];
    if (place >= 0) {
      fired_[static_cast<size_t>(place)] = calls_;
    }
  }
  leaving_.clear();
  bool listed = false;
  for (const int64_t row : rows) {
    const int32_t slot = source.slot_of[row];
    if (place_of_[static_cast<size_t>(slot)] >= 0) {
      continue;
    }
    if (static_cast<int64_t>(slot_of_.size()) < edges_.places) {
      slot_of_.push_back(-1);
      fired_.push_back(calls_);
      assign(static_cast<int32_t>(slot_of_.size()) - 1, slot);
      continue;
    }
    if (!listed) {
      listed = true;
      for (size_t place = 0; place < fired_.size(); ++place) {
        if (fired_[place] != calls_) {
          leaving_.push_back(static_cast<int32_t>(place));
        }
      }
      std::stable_sort(leaving_.begin(), leaving_.end(), [&](int32_t a, int32_t b) {
        return fired_[static_cast<size_t>(a)] > fired_[static_cast<size_t>(b)];
      });
    }
    if (leaving_.empty()) {
      break;
    }
    assign(leaving_.back(), slot);
    leaving_.pop_back();
  }
  return find(source, rows);
}

void KeptRows::assign(int32_t place, int32_t slot) {
  int32_t& owner = slot_of_[static_cast<size_t>(place)];
  if (owner >= 0) {
    place_of_[static_cast<size_t>(owner)] = -1;
  }
  owner = slot;
  place_of_[static_cast<size_t>(slot)] = place;
  fired_[static_cast<size_t>(place)] = calls_;
  for (int64_t block = 0; block < blocks_; ++block) {
    edges_.lengths[block * edges_.places + place] = kernels::KeptEdges::kNotDrawn;
  }
}

}  // namespace torch_hrr::assembly
