// A bounded cache of gap tables.
#include "csrc/assembly/gap_tables.h"

#include <list>
#include <mutex>

namespace torch_hrr::assembly {

std::shared_ptr<const kernels::GapTables> gap_tables(double p) {
  constexpr size_t kMaxTables = 64;
  struct Entry {
    double p;
    std::shared_ptr<const kernels::GapTables> tables;
  };
  static auto& kept = *new std::list<Entry>();
  static std::mutex mutex;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    for (auto entry = kept.begin(); entry != kept.end(); ++entry) {
      if (entry->p == p) {
        kept.splice(kept.begin(), kept, entry);
        return entry->tables;
      }
    }
  }
  const auto made = std::make_shared<kernels::GapTables>();
  kernels::make_gap_tables(p, *made);
  // Two threads may both have made them: equal tables.
  const std::lock_guard<std::mutex> lock(mutex);
  kept.push_front({p, made});
  if (kept.size() > kMaxTables) {
    kept.pop_back();
  }
  return made;
}

}  // namespace torch_hrr::assembly
