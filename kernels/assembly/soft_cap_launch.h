// The CUDA entry point of soft winners. Plain C++: includes no CUDA header.
#pragma once

#include "kernels/assembly/soft_cap.h"
#include "kernels/cuda/stream.h"

namespace torch_hrr::kernels {

// All pointers are device pointers; work is queued on the stream and nothing is synchronised or allocated, so calls can
// be captured in a graph. No rows launch nothing; a failed launch throws std::runtime_error.
void launch_soft_cap(const SoftCapParams& params, CudaStream stream);

}  // namespace torch_hrr::kernels
