// Kernels of the gradient of layers whose units are not coupled: a warp for each row of weights, which walks the ticks
// back alone, and a thread for each element of the inputs' gradient. The CPU's bits.
#pragma once

#include "kernels/hierarchy/plastic.cuh"
#include "kernels/hierarchy/plastic_backward.h"

namespace torch_hrr::kernels {

// A warp's unit of all learners, and its part of the workspace.
template <typename T>
struct WarpUnit {
  int64_t place;  // learner * units + unit
  const T* inputs;
  BackwardSpace<T> space;

  KERNEL_DEVICE WarpUnit(const PlasticBackwardParams& g, int64_t part_length, int64_t own)
      : place(own),
        inputs(static_cast<const T*>(g.scan.inputs) + own / g.scan.units * g.scan.ticks * g.scan.batch * g.scan.size),
        space(g.scan, part_length, 1, g.grad_inputs != nullptr, nullptr) {
    T* const memory = static_cast<T*>(g.workspace) + own * space.elements;
    space = BackwardSpace<T>(g.scan, part_length, 1, g.grad_inputs != nullptr, memory);
  }
};

KERNEL_DEVICE int64_t warp_place() {
  return static_cast<int64_t>(blockIdx.x) * kPlasticWarps + warp_index();
}

// Ticks of a part forwards from `row`; with kKeeps the weights after each of them are stored, else those after all.
template <typename T, int kChunks, bool kKeeps>
KERNEL_DEVICE void replay(const PlasticParams& p, const PlasticFormulas<T>& formulas, const WarpUnit<T>& unit,
                          int64_t part) {
  const BackwardSpace<T>& space = unit.space;
  const int64_t length = space.length(part);
  T theta = space.starts[part];
  const auto tick = [&](int64_t k, WarpRow<T, kChunks>& row) {
    if (lane_index() == 0) {
      space.thetas[k] = theta;
    }
    const T* const x = unit.inputs + (part * space.part + k) * p.batch * p.size;
    const T factor = learn_row(p, formulas, TickPlaces<T>{x, space.outputs + k * p.batch, 1}, 1, row, theta);
    if (lane_index() == 0) {
      space.factors[k] = factor;
    }
  };
  if constexpr (kChunks > 0) {
    WarpRow<T, kChunks> row(space.weights(part, 0), p.size);
    for (int64_t k = 0; k < length; ++k) {
      tick(k, row);
      if (kKeeps || k + 1 == length) {
        row.store_to(space.weights(part, k + 1));
      }
    }
  } else {
    // A row in memory changes in place, so it is copied first.
    for (int64_t k = 0; k < length; ++k) {
      T* const after = space.weights(part, k + 1);
      WarpRow<T, 0>(space.weights(part, k), p.size).store_to(after);
      WarpRow<T, 0> row(after, p.size);
      tick(k, row);
    }
  }
  if (lane_index() == 0) {
    space.starts[part + 1] = theta;
  }
  // What the first lane has stored, all lanes read.
  warp_sync();
}

// The weights and thresholds before every part.
template <typename T, int kChunks>
__global__ void plastic_parts_kernel(PlasticBackwardParams g, int64_t part_length) {
  const PlasticParams& p = g.scan;
  if (warp_place() >= p.learners * p.units) {
    return;
  }
  const WarpUnit<T> unit(g, part_length, warp_place());
  const T* const weight = static_cast<const T*>(g.weight) + unit.place * p.size;
  for (int64_t i = lane_index(); i < p.size; i += kWarpSize) {
    unit.space.kept[i] = weight[i];
  }
  if (lane_index() == 0) {
    unit.space.starts[0] = g.theta == nullptr ? T{0} : static_cast<const T*>(g.theta)[unit.place];
  }
  warp_sync();
  const PlasticFormulas<T> formulas(p);
  for (int64_t part = 0; part * part_length < p.ticks; ++part) {
    replay<T, kChunks, false>(p, formulas, unit, part);
  }
}

// From the gradient of a row and of theta after a tick to those before it.
template <typename T, int kChunks>
KERNEL_DEVICE void pull_tick(const PlasticBackwardParams& g, const PlasticFormulas<T>& formulas,
                             const WarpUnit<T>& unit, int64_t part, int64_t k, WarpRow<T, kChunks>& row, T& of_theta) {
  const PlasticParams& p = g.scan;
  const BackwardSpace<T>& space = unit.space;
  const int64_t tick = part * space.part + k;
  const T* const x = unit.inputs + tick * p.batch * p.size;
  if (p.normalize) {
    row.move_across(space.weights(part, k + 1), space.factors[k]);
  }
  const bool keeps = g.grad_inputs != nullptr;
  if (keeps) {
    row.store_to(space.moved + k * p.size);
  }
  const T* const outputs = space.outputs + k * p.batch;
  T* const gains = space.gains + (keeps ? k * p.batch : 0);
  T* const products = space.products + (keeps ? k * p.batch : 0);
  const T theta = space.thetas[k];
  const T across = row.product(space.weights(part, k));
  const T of_square = formulas.through_square(across, of_theta);
  of_theta = formulas.kept_theta(of_theta);
  const T* const of_outputs = g.grad_outputs == nullptr
                                  ? nullptr
                                  : static_cast<const T*>(g.grad_outputs) +
                                        ((unit.place / p.units * p.ticks + tick) * p.batch) * p.units +
                                        unit.place % p.units;
  T squares = 0;
  T product = 0;
  for (int64_t b = 0; b < p.batch; ++b) {
    const T y = outputs[b];
    const T along = row.product(x + b * p.size);
    product = formulas.of_product(y, theta, of_outputs == nullptr ? T{0} : of_outputs[b * p.units], along, of_square);
    of_theta = formulas.through_gain(y, along, of_theta);
    squares = fused_multiply_add(y, y, squares);
    if (lane_index() == 0) {
      gains[b] = formulas.gain(y, theta);
      products[b] = product;
    }
  }
  const T loss = formulas.loss(squares / static_cast<T>(p.batch));
  warp_sync();
  row.for_elements([&](T& w, int64_t) { w = fused_multiply_add(-loss, w, w); });
  for (int64_t b = 0; b < p.batch; ++b) {
    const T own = products[b];
    row.for_elements([&](T& w, int64_t i) { w = fused_multiply_add(own, x[b * p.size + i], w); });
  }
  // Before the first lane stores those of the tick before.
  warp_sync();
}

// Parts from the last of [first, last) back.
template <typename T, int kChunks>
__global__ void plastic_pull_kernel(PlasticBackwardParams g, int64_t part_length, int64_t first, int64_t last) {
  const PlasticParams& p = g.scan;
  if (warp_place() >= p.learners * p.units) {
    return;
  }
  const PlasticFormulas<T> formulas(p);
  const WarpUnit<T> unit(g, part_length, warp_place());
  WarpRow<T, kChunks> row(static_cast<T*>(g.grad_weight) + unit.place * p.size, p.size);
  T* const thresholds = static_cast<T*>(g.grad_theta);
  T of_theta = thresholds == nullptr ? T{0} : thresholds[unit.place];
  for (int64_t part = last; part-- > first;) {
    replay<T, kChunks, true>(p, formulas, unit, part);
    for (int64_t k = unit.space.length(part); k-- > 0;) {
      pull_tick(g, formulas, unit, part, k, row, of_theta);
    }
  }
  if constexpr (kChunks > 0) {
    row.store();
  }
  if (thresholds != nullptr && lane_index() == 0) {
    thresholds[unit.place] = of_theta;
  }
}

// The gradient of a part's inputs: gain dL/dW + dL/du W, unit by unit of a block, then block by block.
template <typename T>
__global__ void plastic_spread_kernel(PlasticBackwardParams g, int64_t part_length, int64_t part) {
  const PlasticParams& p = g.scan;
  const BackwardSpace<T> first(g.scan, part_length, 1, true, static_cast<T*>(g.workspace));
  const int64_t ticks = first.length(part);
  const int64_t block = plastic_backward_block(p.units, true);
  const int64_t count = p.learners * ticks * p.batch * p.size;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * block_threads();
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * block_threads() + thread_rank(); e < count; e += threads) {
    const int64_t i = e % p.size;
    const int64_t b = e / p.size % p.batch;
    const int64_t k = e / (p.size * p.batch) % ticks;
    const int64_t learner = e / (p.size * p.batch * ticks);
    const T* const weights = first.weights(part, k);
    T total = 0;
    for (int64_t begin = 0; begin < p.units; begin += block) {
      const int64_t end = begin + block < p.units ? begin + block : p.units;
      T sum = 0;
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t place = (learner * p.units + unit) * first.elements;
        sum = fused_multiply_add(first.gains[place + k * p.batch + b], first.moved[place + k * p.size + i], sum);
        sum = fused_multiply_add(first.products[place + k * p.batch + b], weights[place + i], sum);
      }
      total = begin == 0 ? sum : total + sum;
    }
    static_cast<T*>(g.grad_inputs)[((learner * p.ticks + part * part_length + k) * p.batch + b) * p.size + i] = total;
  }
}

}  // namespace torch_hrr::kernels
