// The gradient of layers that learn: its parameters, and how the CPU divides it.
//
// Weights are made again from those kept before every part of about sqrt(ticks) ticks, and the ticks are walked back
// with the formulas of plastic.h. The history of a unit without coupling depends on its own row alone, so rows are
// walked one by one; coupled units are walked together. The inputs are common to all units: without coupling every
// block of units sums their gradient by itself, in the order of the units, and the caller adds the blocks in their
// order; so bits depend on neither threads nor neighbours.
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
  // [blocks, learners, ticks, batch, size], on a GPU of the blocks together; nullptr where it is not wanted
  void* grad_inputs = nullptr;
  // On a GPU: BackwardSpace of every unit of all learners or, of coupled units, CoupledSpace of every learner. The
  // call's.
  void* workspace = nullptr;
};
int64_t workspace_bytes(Storage storage, const PlasticBackwardParams& params);
void queue(const CudaCall& call, const PlasticBackwardParams& params);

// Of float and of double; rows are blocks of units of all learners.
struct PlasticBackwardKernels {
  RowKernel<PlasticBackwardParams> of_float, of_double;
};
// Likewise where units are coupled; rows are learners.
struct CoupledBackwardKernels {
  RowKernel<PlasticBackwardParams> of_float, of_double;
};

KERNEL_ISA_BEGIN

// Units of a block: a function of their number alone.
KERNEL_HOST_DEVICE int64_t plastic_backward_block(int64_t units, bool for_inputs) {
  const int64_t groups = for_inputs ? (units + kInputSums * kPlasticGroup - 1) / (kInputSums * kPlasticGroup) : 1;
  return (groups > 1 ? groups : 1) * kPlasticGroup;
}
KERNEL_HOST_DEVICE int64_t plastic_backward_blocks(int64_t units, bool for_inputs) {
  const int64_t block = plastic_backward_block(units, for_inputs);
  return (units + block - 1) / block;
}

// Ticks between weights that are kept.
inline int64_t plastic_part(int64_t ticks) {
  return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(ticks))));
}

// What the walk of some units needs besides the arrays of the call; `lanes` units lie beside each other.
template <typename T>
struct BackwardSpace {
  T* kept;           // [parts + 1, lanes, size]: the weights before every part, and after all
  T* between;        // [part - 1, lanes, size]: after the ticks of one part but the last
  T* outputs;        // [part, batch, lanes]
  T* factors;        // [part, lanes]: what rows were multiplied by after a tick
  T* thetas;         // [part, lanes]
  T* starts;         // [parts + 1, lanes]: theta before every part
  T* gains;          // [batch, lanes]
  T* products;       // [batch, lanes]: dL/du
  T* moved;          // with `keeps_ticks`, [part, lanes, size]: dL/dW after a tick; gains and products are then of all
                     // ticks of a part too
  int64_t elements;  // of all
  int64_t ticks, part, row;

  // With nullptr for memory, only elements are counted.
  KERNEL_HOST_DEVICE BackwardSpace(const PlasticParams& p, int64_t part_length, int64_t lanes, bool keeps_ticks,
                                   T* memory)
      : elements(0), ticks(p.ticks), part(part_length), row(lanes * p.size) {
    const int64_t parts = (ticks + part - 1) / part;
    const int64_t samples = (keeps_ticks ? part : 1) * p.batch;
    kept = take((parts + 1) * row, memory);
    between = take((part - 1) * row, memory);
    outputs = take(part * p.batch * lanes, memory);
    factors = take(part * lanes, memory);
    thetas = take(part * lanes, memory);
    starts = take((parts + 1) * lanes, memory);
    gains = take(samples * lanes, memory);
    products = take(samples * lanes, memory);
    moved = take(keeps_ticks ? part * row : 0, memory);
  }

  KERNEL_HOST_DEVICE int64_t length(int64_t index) const {
    const int64_t left = ticks - index * part;
    return left < part ? left : part;
  }
  // The weights before tick k of a part, which are those after tick k - 1.
  KERNEL_HOST_DEVICE T* weights(int64_t index, int64_t k) const {
    return k == 0 ? kept + index * row : k == length(index) ? kept + (index + 1) * row : between + (k - 1) * row;
  }

 private:
  KERNEL_HOST_DEVICE T* take(int64_t count, T* memory) {
    T* const own = memory == nullptr ? nullptr : memory + elements;
    // Every array begins where a GPU's sectors do.
    elements += (count + kRowPadding - 1) / kRowPadding * kRowPadding;
    return own;
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
