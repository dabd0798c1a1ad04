// The integer tables of a density, made once and kept.
#pragma once

#include <memory>

#include "kernels/assembly/connectome.h"

namespace torch_hrr::assembly {

// The tables of p in [0, 1]: from a cache of the densities used last, thread-safe, about 8 KiB each.
std::shared_ptr<const kernels::GapTables> gap_tables(double p);

}  // namespace torch_hrr::assembly
