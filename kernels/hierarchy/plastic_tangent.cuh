// The kernel of the tangents of layers whose units are not coupled: a warp for each row of weights and its tangent. The
// CPU's bits.
#pragma once

#include "kernels/hierarchy/plastic.cuh"
#include "kernels/hierarchy/plastic_tangent.h"

namespace torch_hrr::kernels {

// Elements of a unit's workspace: its row, and its outputs of a tick. Each begins where a GPU's sectors do.
KERNEL_HOST_DEVICE int64_t plastic_tangent_space(const PlasticParams& p) {
  return p.size + (p.batch + kRowPadding - 1) / kRowPadding * kRowPadding;
}

template <typename T, int kChunks>
__global__ void plastic_tangent_kernel(PlasticTangentParams d) {
  const PlasticParams& p = d.scan;
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kPlasticWarps + warp_index();
  if (place >= p.learners * p.units) {
    return;
  }
  const PlasticFormulas<T> formulas(p);
  const int64_t learner = place / p.units;
  T* const weight = static_cast<T*>(d.workspace) + place * plastic_tangent_space(p);
  T* const outputs = weight + p.size;
  // Every lane reads and writes its own elements alone.
  for (int64_t i = lane_index(); i < p.size; i += kWarpSize) {
    weight[i] = static_cast<const T*>(d.weight)[place * p.size + i];
  }
  WarpRow<T, kChunks> row(weight, p.size);
  WarpRow<T, kChunks> moved(static_cast<T*>(d.tangent_weight) + place * p.size, p.size);
  T* const moved_thetas = static_cast<T*>(d.tangent_theta);
  T theta = d.theta == nullptr ? T{0} : static_cast<const T*>(d.theta)[place];
  T moved_theta = moved_thetas == nullptr ? T{0} : moved_thetas[place];
  for (int64_t tick = 0; tick < p.ticks; ++tick) {
    const int64_t first = (learner * p.ticks + tick) * p.batch;
    const T* const x = static_cast<const T*>(p.inputs) + first * p.size;
    const T* const dx =
        d.tangent_inputs == nullptr ? nullptr : static_cast<const T*>(d.tangent_inputs) + first * p.size;
    T* const moved_outputs = static_cast<T*>(d.tangent_outputs) + first * p.units + place % p.units;
    T squares = 0;
    T moved_squares = 0;
    for (int64_t b = 0; b < p.batch; ++b) {
      const T y = formulas.output(row.product(x + b * p.size));
      T du = moved.product(x + b * p.size);
      if (dx != nullptr) {
        du = du + row.product(dx + b * p.size);
      }
      const T dy = du * formulas.slope(y);
      squares = fused_multiply_add(y, y, squares);
      moved_squares = fused_multiply_add(y, dy, moved_squares);
      if (lane_index() == 0) {
        outputs[b] = y;
        moved_outputs[b * p.units] = dy;
      }
    }
    // What the first lane has stored, all lanes read.
    warp_sync();
    const T mean_square = squares / static_cast<T>(p.batch);
    const T moved_mean_square = formulas.twice_mean * moved_squares;
    const T loss = formulas.loss(mean_square);
    const T moved_loss = formulas.moved_loss(moved_mean_square);
    moved.for_elements([&](T& v, int64_t) { v = fused_multiply_add(-loss, v, v); });
    for (int64_t b = 0; b < p.batch; ++b) {
      const T gain = formulas.moved_gain(outputs[b], theta, moved_outputs[b * p.units], moved_theta);
      moved.for_elements([&](T& v, int64_t i) { v = fused_multiply_add(gain, x[b * p.size + i], v); });
    }
    if (p.rule == LearningRule::kOja) {
      moved.for_elements_beside(row, [&](T& v, T w) { v = fused_multiply_add(-moved_loss, w, v); });
    }
    row.for_elements([&](T& w, int64_t) { w = fused_multiply_add(-loss, w, w); });
    for (int64_t b = 0; b < p.batch; ++b) {
      const T gain = formulas.gain(outputs[b], theta);
      row.for_elements([&](T& w, int64_t i) { w = fused_multiply_add(gain, x[b * p.size + i], w); });
      if (dx != nullptr) {
        moved.for_elements([&](T& v, int64_t i) { v = fused_multiply_add(gain, dx[b * p.size + i], v); });
      }
    }
    if (p.normalize) {
      const T factor = row.normalize();
      row.store();
      moved.move_across(weight, factor);
    }
    moved_theta = formulas.next_theta(moved_theta, moved_mean_square);
    theta = formulas.next_theta(theta, mean_square);
    // Before the first lane stores those of the next tick.
    warp_sync();
  }
  if constexpr (kChunks > 0) {
    moved.store();
  }
  if (moved_thetas != nullptr && lane_index() == 0) {
    moved_thetas[place] = moved_theta;
  }
}

}  // namespace torch_hrr::kernels
