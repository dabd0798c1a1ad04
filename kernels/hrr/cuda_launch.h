// The CUDA entry points of the HRR family. Plain C++: includes no CUDA header.
//
// All pointers are device pointers; work is queued on the stream and nothing is synchronised or allocated, so calls
// can be captured in a graph. No rows launch nothing. Rows that no native transform reaches (algorithm_for(dim) is
// kLibrary) and failed launches throw std::runtime_error.
#pragma once

#include <cstdint>

#include "kernels/cuda/fft_twiddles.h"
#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/superposition.h"

struct CUstream_st;

namespace torch_hrr::kernels {

using CudaStream = CUstream_st*;  // cudaStream_t

enum class CudaStorage : int32_t { kFloat, kDouble, kHalf, kBFloat16 };

// The twiddle table that the binding launchers take: computed on the host, uploaded by the caller once a device and
// compute type (double for kDouble, float for the others), kept for as long as kernels may run.
constexpr int64_t twiddle_table_bytes(CudaStorage storage) {
  return static_cast<int64_t>(kTwiddleTablePoints) * static_cast<int64_t>(storage == CudaStorage::kDouble
                                                                              ? sizeof(TwiddlePoint<double>)
                                                                              : sizeof(TwiddlePoint<float>));
}
inline void fill_twiddle_table(CudaStorage storage, void* host_memory) {
  if (storage == CudaStorage::kDouble) {
    fill_twiddle_table(static_cast<TwiddlePoint<double>*>(host_memory));
  } else {
    fill_twiddle_table(static_cast<TwiddlePoint<float>*>(host_memory));
  }
}

void launch_binding(CudaStorage storage, const BindingParams& params, const void* twiddles, CudaStream stream);
void launch_binding_backward(CudaStorage storage, const BindingBackwardParams& params, const void* twiddles,
                             CudaStream stream);
void launch_record(CudaStorage storage, const RecordParams& params, const void* twiddles, CudaStream stream);

// workspace: superposition_workspace_bytes(storage, params) bytes, aligned to 16; null where that is 0.
int64_t superposition_workspace_bytes(CudaStorage storage, const SuperpositionParams& params);
void launch_superposition(CudaStorage storage, const SuperpositionParams& params, void* workspace, CudaStream stream);

}  // namespace torch_hrr::kernels
