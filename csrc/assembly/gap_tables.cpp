// A small cache of gap tables.
#include "csrc/assembly/gap_tables.h"

#include <list>
#include <mutex>
#include <utility>

namespace torch_hrr::assembly {

std::shared_ptr<const kernels::GapTables> gap_tables(double p) {
  constexpr size_t kMaxTables = 64;
  using Tables = std::list<std::pair<double, std::shared_ptr<const kernels::GapTables>>>;
  static Tables cache;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto entry = cache.begin(); entry != cache.end(); ++entry) {
    if (entry->first == p) {
      cache.splice(cache.begin(), cache, entry);
      return entry->second;
    }
  }
  auto tables = std::make_shared<kernels::GapTables>();
  kernels::make_gap_tables(p, *tables);
  cache.emplace_front(p, tables);
  if (cache.size() > kMaxTables) {
    cache.pop_back();
  }
  return tables;
}

}  // namespace torch_hrr::assembly
