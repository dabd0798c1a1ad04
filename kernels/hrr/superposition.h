// Weighted sums of rows in a fixed order, optionally normalised: parameters.
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/rows.h"

namespace torch_hrr::kernels {

// out[r] = sum_k w[r,k] x[r,k], divided by max(norm2, eps) where normalize is set. Map operand 0 places the first
// vector of a group, operand 1 its first weight; item strides step through K; weights == nullptr means all ones.
struct SuperpositionParams {
  const void* vectors = nullptr;
  const void* weights = nullptr;
  void* out = nullptr;
  int64_t rows = 0;
  int64_t items = 0;
  int64_t dim = 0;
  RowMap map;
  int64_t item_stride_vectors = 0;
  int64_t item_stride_weights = 0;
  bool normalize = true;
  double eps = 0;
};

int64_t workspace_bytes(Storage storage, const SuperpositionParams& params);
void queue(const CudaCall& call, const SuperpositionParams& params);

}  // namespace torch_hrr::kernels
