// The procedural connectome's CUDA side, in builds that have it: queued on the current stream, no synchronisation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace torch_hrr::assembly::cuda {

// counts[..., n] = edges from winners[..., k] under a connectome_key; contiguous, counts not empty.
void connectome_inputs(const at::Tensor& winners, double p, uint64_t key, const at::Tensor& counts);

}  // namespace torch_hrr::assembly::cuda
