// The tables of a density, made once, and the connectome's CUDA side, in builds that have it.
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
// counts[..., n] = edges from winners[..., k] under a connectome_key; contiguous, counts not empty. Queued on the
// current stream, no synchronisation but for the tables.
void connectome_inputs(const at::Tensor& winners, double p, uint64_t key, const at::Tensor& counts);
}  // namespace cuda

}  // namespace torch_hrr::assembly
