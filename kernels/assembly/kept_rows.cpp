// Places of rows, which of them are given up, and what waits for the next call.
#include "kernels/assembly/kept_rows.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <new>

#include "kernels/huge_pages.h"

namespace torch_hrr::kernels {
namespace {

// Bytes of rows that wait.
constexpr int64_t kMostWaiting = int64_t{96} << 20;
constexpr int64_t kPage = 4096;
constexpr int64_t kLargePage = int64_t{2} << 20;

// Null where there is no memory.
void* paged_memory(int64_t bytes, int64_t page) {
  const int64_t alignment = page == kLargePage ? kLargePage : 64;
  const auto size = static_cast<size_t>((bytes + alignment - 1) / alignment * alignment);
  void* const memory = std::aligned_alloc(static_cast<size_t>(alignment), size);
  if (memory != nullptr && page == kLargePage) {
    prefer_huge_pages(memory, size);
  }
  return memory;
}

// Rows that wait, the latest first.
struct Waiting {
  std::mutex mutex;
  std::list<std::unique_ptr<KeptRows>> rows;
  int64_t bytes = 0;
};
Waiting& waiting() {
  static auto& all = *new Waiting;
  return all;
}

}  // namespace

KeptRows::KeptRows(const Fiber& fiber, const Area& source, const Area& target, int64_t bytes) {
  if (fiber.connectome == nullptr || fiber.connectome->empty != 0) {
    return;
  }
  const GapTables& tables = *fiber.connectome;
  key_ = fiber.key();
  p_ = tables.p;
  n_ = target.n;
  edges_.first_block = target.first / tables.width;
  blocks_ = block_count(tables, target.n) - edges_.first_block;
  if (tables.p >= kLeastInBits) {
    edges_.capacity = tables.width / 16;
  } else {
    // Four standard deviations above the mean, and what is drawn at once.
    const double edges = tables.p * static_cast<double>(std::min(tables.width, target.n));
    const auto columns = static_cast<int64_t>(edges + 4 * std::sqrt(edges));
    edges_.capacity = (columns / kListGrain + 2) * kListGrain;
  }
  bytes_of_list_ = edges_.capacity * bytes_of_column(tables);
  bytes_of_row_ = blocks_ * (bytes_of_list_ + static_cast<int64_t>(sizeof(int32_t)));
  edges_.places = std::min(bytes / bytes_of_row_, source.n);
  // Large pages where the lists of a block fill some, since small ones can take longer to come than rows to be drawn,
  // and few rows of all blocks may still wait.
  const bool large = edges_.places * bytes_of_list_ >= 2 * kLargePage && 2 * blocks_ * kLargePage < kMostWaiting;
  page_ = large ? kLargePage : kPage;
}

bool KeptRows::serve(const KeptRows& wanted) const {
  return key_ == wanted.key_ && p_ == wanted.p_ && n_ == wanted.n_ && edges_.first_block == wanted.edges_.first_block &&
         edges_.places >= wanted.edges_.places;
}

int64_t KeptRows::bytes_held() const {
  const auto used = static_cast<int64_t>(row_of_.size());
  if (used == 0) {
    return 0;
  }
  // The lists of every block begin and end within a page.
  const int64_t lists = blocks_ * (used * bytes_of_list_ / page_ + 2) * page_;
  const int64_t lengths = blocks_ * edges_.places * static_cast<int64_t>(sizeof(int32_t)) + page_;
  constexpr auto kIndex = static_cast<int64_t>(4 * sizeof(int32_t) + sizeof(int64_t));
  return std::min(lists + lengths, edges_.places * bytes_of_row_) + edges_.places * kIndex;
}

// Where the place of a row stands: at the end of its list, -1, for a row that has none.
int32_t* KeptRows::place_of(int64_t row) {
  // The upper bits of Fibonacci hashing.
  const uint32_t hash = static_cast<uint32_t>(row) * 0x9e3779b1u;
  int32_t* place = &head_[static_cast<size_t>(uint64_t{hash} * head_.size() >> 32)];
  while (*place >= 0 && row_of_[static_cast<size_t>(*place)] != row) {
    place = &next_[static_cast<size_t>(*place)];
  }
  return place;
}

const int32_t* KeptRows::find(const std::vector<int64_t>& rows) {
  places_.clear();
  for (const int64_t row : rows) {
    places_.push_back(head_.empty() ? -1 : *place_of(row));
  }
  return places_.data();
}

const int32_t* KeptRows::admit(const Area& source, const std::vector<int64_t>& rows) {
  if (memory_ == nullptr && edges_.places > 0) {
    memory_.reset(paged_memory(edges_.places * bytes_of_row_, page_));
    if (memory_ == nullptr) {
      edges_.places = 0;
    } else {
      edges_.columns = memory_.get();
      const int64_t lengths = edges_.places * blocks_ * static_cast<int64_t>(sizeof(int32_t));
      edges_.lengths =
          reinterpret_cast<int32_t*>(static_cast<char*>(memory_.get()) + edges_.places * bytes_of_row_ - lengths);
      const auto places = static_cast<size_t>(edges_.places);
      head_.assign(places, -1);
      for (std::vector<int32_t>* each : {&next_, &row_of_, &places_}) {
        each->reserve(places);
      }
      fired_.reserve(places);
    }
  }
  if (memory_ == nullptr) {
    return find(rows);
  }
  ++calls_;
  for (int64_t i = 0; i < *source.winner_count; ++i) {
    const int32_t place = *place_of(source.winners[i]);
    if (place >= 0) {
      fired_[static_cast<size_t>(place)] = calls_;
    }
  }
  bool fits = true;
  places_.clear();
  for (const int64_t row : rows) {
    fits = fits && (*place_of(row) >= 0 || assign(row));
    places_.push_back(*place_of(row));
  }
  return places_.data();
}

// Gives the row a place; false where rows that fire have them all.
bool KeptRows::assign(int64_t row) {
  const size_t used = row_of_.size();
  auto place = static_cast<int32_t>(used);
  if (static_cast<int64_t>(used) < edges_.places) {
    row_of_.push_back(-1);
    next_.push_back(-1);
    fired_.push_back(0);
  } else {
    // A row that fired since the hand came by has another turn.
    size_t steps = 0;
    for (;; ++steps) {
      hand_ = hand_ + 1 < used ? hand_ + 1 : 0;
      if (steps == 2 * used) {
        return false;
      }
      if (fired_[hand_] == 0) {
        break;
      }
      fired_[hand_] = fired_[hand_] == calls_ ? calls_ : 0;
    }
    place = static_cast<int32_t>(hand_);
    int32_t* const link = place_of(row_of_[hand_]);
    *link = next_[hand_];
    next_[hand_] = -1;
  }
  row_of_[static_cast<size_t>(place)] = static_cast<int32_t>(row);
  fired_[static_cast<size_t>(place)] = calls_;
  *place_of(row) = place;
  for (int64_t block = 0; block < blocks_; ++block) {
    edges_.lengths[block * edges_.places + place] = KeptEdges::kNotDrawn;
  }
  return true;
}

LentRows lend_rows(const Fiber& fiber, const Area& source, const Area& target, int64_t bytes) {
  LentRows lent(new KeptRows(fiber, source, target, bytes));
  Waiting& all = waiting();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (auto rows = all.rows.begin(); rows != all.rows.end(); ++rows) {
    if ((*rows)->serve(*lent)) {
      all.bytes -= (*rows)->bytes_held();
      lent.reset(rows->release());
      all.rows.erase(rows);
      break;
    }
  }
  return lent;
}

void GiveBack::operator()(KeptRows* given) const {
  constexpr size_t kMostFibers = 1024;  // since they are searched one by one
  std::list<std::unique_ptr<KeptRows>> own, leaving;
  std::unique_ptr<KeptRows> rows(given);
  const int64_t bytes = rows->bytes_held();
  if (bytes == 0 || bytes > kMostWaiting) {
    return;
  }
  try {
    own.push_front(std::move(rows));
  } catch (const std::bad_alloc&) {
    // This is called by destructors.
    return;
  }
  Waiting& all = waiting();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.rows.splice(all.rows.begin(), own);
  all.bytes += bytes;
  while (all.bytes > kMostWaiting || all.rows.size() > kMostFibers) {
    all.bytes -= all.rows.back()->bytes_held();
    leaving.splice(leaving.end(), all.rows, std::prev(all.rows.end()));
  }
}

}  // namespace torch_hrr::kernels
