// The CUDA entry points of codes of rows. Plain C++: includes no CUDA header.
//
// All pointers are device pointers; work is queued on the stream and nothing is synchronised or allocated, so calls can
// be captured in a graph. No rows launch nothing; a failed launch throws std::runtime_error.
#pragma once

#include "kernels/cuda/stream.h"
#include "kernels/hrr/quantized_rows.h"

namespace torch_hrr::kernels {

// In the matrix of quantized cleanup: an item that is absent or excluded, and one whose cosine is NaN.
constexpr int kExcluded = -3;
constexpr int kNotANumber = -2;

// On a GPU queries are unit rows, or NaN, with codes and bounds as items have. Places are columns of the matrix.
struct DeviceCleanupParams : CleanupParams {
  const int8_t* query_codes = nullptr;
  const float* query_bounds = nullptr;
  const void* thresholds = nullptr;  // [count]
  void* matrix = nullptr;            // [count][items] in the compute type
};

void launch_quantize_rows(const QuantizeParams& params, CudaStream stream);
// matrix[j][place] = what the cosine of query j and an item is at least; -infinity where nothing is known.
void launch_code_bounds(const DeviceCleanupParams& params, CudaStream stream);
// matrix[j][place] = the cosine where the item may reach thresholds[j], else kExcluded.
void launch_left_cosines(const DeviceCleanupParams& params, CudaStream stream);

}  // namespace torch_hrr::kernels
