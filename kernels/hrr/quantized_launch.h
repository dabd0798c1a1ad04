// The search over codes of rows on a GPU: parameters.
#pragma once

#include "kernels/hrr/quantized_rows.h"

namespace torch_hrr::kernels {

// In the matrix of quantized cleanup: an item that is absent or excluded, and one whose cosine is NaN.
constexpr int kExcluded = -3;
constexpr int kNotANumber = -2;

// On a GPU queries are unit rows, or NaN, with codes and bounds as items have. Places are columns of the matrix.
struct DeviceCleanupParams : CleanupParams {
  const int8_t* query_codes = nullptr;
  const float* query_bounds = nullptr;
  // [count], or null: then matrix[j][place] is what the cosine of query j and an item is at least, -infinity where
  // nothing is known, else the cosine where the item may reach thresholds[j], or kExcluded.
  const void* thresholds = nullptr;
  void* matrix = nullptr;  // [count][items] in the compute type
};
void queue(const CudaCall& call, const DeviceCleanupParams& params);

}  // namespace torch_hrr::kernels
