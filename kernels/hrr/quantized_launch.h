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

// Queries and items of quantized cleanup on a GPU. Queries are unit rows, or NaN.
struct DeviceCleanupParams {
  const void* rows = nullptr;  // [items][dim] at row_stride, of the storage type
  const int8_t* codes = nullptr;
  const float* bounds = nullptr;
  const int64_t* places = nullptr;  // [items]: a column of the matrix each, or -1; nullptr: the items' own numbers
  const void* queries = nullptr;    // [count][dim] in the compute type
  const int8_t* query_codes = nullptr;
  const float* query_bounds = nullptr;
  const void* thresholds = nullptr;  // [count]
  void* matrix = nullptr;            // [count][items] in the compute type
  int64_t row_stride = 0;
  int64_t items = 0;
  int64_t dim = 0;
  int64_t count = 0;
  Storage storage = Storage::kFloat;
  bool is_double = false;
};

void launch_quantize_rows(const QuantizeParams& params, CudaStream stream);
// matrix[j][place] = what the cosine of query j and an item is at least; -infinity where nothing is known.
void launch_code_bounds(const DeviceCleanupParams& params, CudaStream stream);
// matrix[j][place] = the cosine where the item may reach thresholds[j], else kExcluded.
void launch_left_cosines(const DeviceCleanupParams& params, CudaStream stream);

}  // namespace torch_hrr::kernels
