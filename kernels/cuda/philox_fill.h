// philox_fill on the GPU, with the same words as on the CPU.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/philox.h"

namespace torch_hrr::kernels {

// Asynchronous on the stream; params.out is device memory. Throws std::runtime_error if the launch fails.
void philox_fill_cuda(const PhiloxFillParams& params, cudaStream_t stream);

}  // namespace torch_hrr::kernels
