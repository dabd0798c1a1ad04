// The type of a CUDA stream, for headers that include no CUDA header.
#pragma once

struct CUstream_st;

namespace torch_hrr::kernels {

using CudaStream = CUstream_st*;  // cudaStream_t

}  // namespace torch_hrr::kernels
