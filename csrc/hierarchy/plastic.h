// plastic_scan: its options, its derivatives as compositions of differentiable operators, and its binding to a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "csrc/autograd.h"
#include "csrc/types.h"
#include "kernels/hierarchy/plastic.h"

namespace torch_hrr::hierarchy {

// The arguments that are no tensors.
struct PlasticOptions {
  kernels::LearningRule rule;
  double lr;
  kernels::Activation activation;
  int64_t every;
  double tau;
  double decay;
  bool normalize;
};

// The derivatives of a call. They run the ticks again: backward keeps the weights of about 2 sqrt(T) ticks at a time,
// or of all where it is differentiated itself.
struct PlasticFormula {
  static constexpr size_t kResults = 3;
  PlasticOptions options;

  variable_list backward(const Saved& inputs, const variable_list& grads, const Wanted& wanted) const;
  variable_list jvp(const Saved& inputs, const variable_list& tangents) const;
};

namespace cuda {
// Queued on the current stream of the device that holds `outputs`.
void execute(const kernels::PlasticParams& params, const at::Tensor& outputs);
}  // namespace cuda

}  // namespace torch_hrr::hierarchy
