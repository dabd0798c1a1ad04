// The CUDA entry points of the assembly family. Plain C++: includes no CUDA header.
//
// All pointers are device pointers; work is queued on the stream and nothing is synchronised or allocated, so calls
// can be captured in a graph. A call with zero rows launches nothing. Failed launches throw std::runtime_error.
#pragma once

#include <cstdint>

#include "kernels/assembly/soft_cap.h"
#include "kernels/assembly/winners.h"
#include "kernels/cuda/stream.h"

namespace torch_hrr::kernels {

// The winners of every row by ascending index; params.sorted is not looked at, params.values may be null. workspace:
// winners_workspace_bytes(params) bytes, aligned to 16; null where that is 0.
int64_t winners_workspace_bytes(const WinnersParams& params);
void launch_winners(const WinnersParams& params, void* workspace, CudaStream stream);

// keys[i] orders as int64 what element values[i] orders, equal for equal elements: a stable descending sort of the keys
// of a row's winners gives the order of params.sorted.
void launch_winner_keys(Element element, const void* values, int64_t count, int64_t* keys, CudaStream stream);

void launch_soft_cap(const SoftCapParams& params, CudaStream stream);

}  // namespace torch_hrr::kernels
