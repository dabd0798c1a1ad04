// The gradient of layers whose units are not coupled: its parameters, and how the CPU divides it.
//
// A unit's history depends on its own row alone. So a row's weights are made again from those kept before every part of
// about sqrt(ticks) ticks, and the ticks are walked back with the formulas of plastic.h. The inputs are common to all
// units: every block of units sums their gradient by itself, in the order of the units, and the caller adds the blocks
// in their order; so bits depend on neither threads nor neighbours.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/hierarchy/plastic.h"
#include "kernels/hierarchy/plastic_rows.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {

// Inputs have at most so many sums.
constexpr int64_t kInputSums = 8;

// Arrays as in PlasticParams; of `scan`, weight, theta and outputs are not used.
struct PlasticBackwardParams {
  PlasticParams scan;
  const void* weight = nullptr;        // before the first tick
  const void* theta = nullptr;         // likewise; bcm alone
  const void* grad_outputs = nullptr;  // or nullptr for zeros
  void* grad_weight = nullptr;         // in place: of the weights after all ticks, then of those before
  void* grad_theta = nullptr;          // in place, likewise; bcm alone
  void* grad_inputs = nullptr;         // [blocks, learners, ticks, batch, size], or nullptr where it is not wanted
};

// Of float and of double; rows are blocks of units of all learners.
struct PlasticBackwardKernels {
  RowKernel<PlasticBackwardParams> of_float, of_double;
};

KERNEL_ISA_BEGIN

// Units of a block: a function of their number alone.
inline int64_t plastic_backward_block(int64_t units, bool for_inputs) {
  const int64_t groups = for_inputs ? (units + kInputSums * kPlasticGroup - 1) / (kInputSums * kPlasticGroup) : 1;
  return (groups > 1 ? groups : 1) * kPlasticGroup;
}
inline int64_t plastic_backward_blocks(int64_t units, bool for_inputs) {
  const int64_t block = plastic_backward_block(units, for_inputs);
  return (units + block - 1) / block;
}

// Ticks between weights that are kept.
inline int64_t plastic_part(int64_t ticks) {
  return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(ticks))));
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
