// What the CUDA entry points take beside their parameters, for headers that include no CUDA header.
//
// Every call on a GPU is queue(call, parameters...), an overload for each kind of parameters, defined in a .cu file.
// Pointers are device pointers. Work is queued on the stream and nothing is synchronised or allocated, so calls can be
// captured in a graph. A call with zero rows launches nothing. What does not fit the device, and launches that fail,
// throw std::runtime_error.
#pragma once

#include <cstdint>

#include "kernels/storage.h"

struct CUstream_st;

namespace torch_hrr::kernels {

using CudaStream = CUstream_st*;  // cudaStream_t

struct CudaCall {
  Storage storage = Storage::kFloat;  // of the results
  void* workspace = nullptr;          // of workspace_bytes(storage, parameters...) bytes, aligned to 16
  CudaStream stream = nullptr;
};

// The shared memory that a block of the current device may have.
int64_t device_shared_bytes();

// The memory that a call works in: none, unless an overload for its parameters says otherwise.
template <typename... Params>
constexpr int64_t workspace_bytes(Storage, const Params&...) {
  return 0;
}

}  // namespace torch_hrr::kernels
