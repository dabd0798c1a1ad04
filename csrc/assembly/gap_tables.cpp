// A bounded cache of gap tables.
#include "csrc/assembly/gap_tables.h"

#include "csrc/cache.h"

namespace torch_hrr::assembly {

std::shared_ptr<const kernels::GapTables> gap_tables(double p) {
  constexpr size_t kMaxTables = 64;
  using Tables = std::shared_ptr<const kernels::GapTables>;
  static auto& kept = *new Recent<double, Tables>(kMaxTables);
  return kept.get(p, [](double density) -> Tables {
    auto made = std::make_shared<kernels::GapTables>();
    kernels::make_gap_tables(density, *made);
    return made;
  });
}

}  // namespace torch_hrr::assembly
