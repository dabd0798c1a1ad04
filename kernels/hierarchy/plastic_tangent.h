// The tangents of layers that learn: parameters.
#pragma once

#include "kernels/hierarchy/plastic.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {

// Arrays as in PlasticParams; of `scan`, weight, theta and outputs are not used.
struct PlasticTangentParams {
  PlasticParams scan;
  const void* weight = nullptr;          // before the first tick
  const void* theta = nullptr;           // likewise; bcm alone
  const void* tangent_inputs = nullptr;  // or nullptr for zeros
  void* tangent_weight = nullptr;        // in place: of the weights before the first tick, then of those after all
  void* tangent_theta = nullptr;         // in place, likewise; bcm alone
  void* tangent_outputs = nullptr;
  void* workspace = nullptr;  // on a GPU: the call's
};
int64_t workspace_bytes(Storage storage, const PlasticTangentParams& params);
void queue(const CudaCall& call, const PlasticTangentParams& params);

// Of float and of double; rows are groups of units of all learners.
struct PlasticTangentKernels {
  RowKernel<PlasticTangentParams> of_float, of_double;
};
// Likewise where units are coupled; rows are learners.
struct CoupledTangentKernels {
  RowKernel<PlasticTangentParams> of_float, of_double;
};

}  // namespace torch_hrr::kernels
