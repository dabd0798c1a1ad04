// The soft winners of each row, which stand in for the 0/1 mask of its k winners in training, and their derivative.
// Parameters; the formulas stand in cap_formulas.h.
//
// Soft winners: y = F((x - t) / tau) with the one threshold t at which sum y = k. F is the logistic function or the
// distribution function of Laplace's law. Their Jacobian, J = (diag(d) - d d^T / <d, 1>) / tau with d = F'((x - t) /
// tau), is symmetric, so J v is the gradient for an upstream v as well as the tangent in the direction v.
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/rows.h"

namespace torch_hrr::kernels {

enum class CapShape : int32_t { kSigmoid, kLaplace };

enum class CapResult : int32_t {
  kSoft,     // y
  kJacobian  // J v
};

// out[r] from rows of `inputs` and, for kJacobian, of the direction v, which map operands 0 and 1 place; all of one
// storage type, elements of a row side by side. A row of the inputs or of v that holds NaN or infinity gives a NaN row.
struct SoftCapParams {
  const void* inputs = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  int64_t rows = 0;
  int64_t n = 0;  // below 2^31
  int64_t k = 0;  // 0 to n
  RowMap map;
  double temperature = 1;  // tau, finite and above 0
  Storage storage = Storage::kFloat;
  CapShape shape = CapShape::kSigmoid;
  CapResult result = CapResult::kSoft;
};
void queue(const CudaCall& call, const SoftCapParams& params);

}  // namespace torch_hrr::kernels
