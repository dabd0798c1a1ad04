// philox_fill on the GPU, with the same words as on the CPU.
#pragma once

#include "kernels/cuda/call.h"
#include "kernels/philox.h"

namespace torch_hrr::kernels {

void queue(const CudaCall& call, const PhiloxFillParams& params);

}  // namespace torch_hrr::kernels
