// The tables of a density, made once.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "kernels/assembly/connectome.h"

namespace torch_hrr::assembly {

// For p in [0, 1]. The tables used last are kept.
std::shared_ptr<const kernels::GapTables> gap_tables(double p);

namespace cuda {
// The same as bytes on a GPU. The first use on a device copies them there and must not be captured in a graph.
at::Tensor gap_tables(double p, c10::Device device);
}  // namespace cuda

}  // namespace torch_hrr::assembly
