// The kernel of the tangents of layers whose units are coupled: a block for each layer. The formulas and the bits are
// the CPU's, see plastic_coupled_tangent.isa.cpp.
#pragma once

#include "kernels/hierarchy/plastic.cuh"
#include "kernels/hierarchy/plastic_tangent.h"

namespace torch_hrr::kernels {

// A learner's workspace.
template <typename T>
struct CoupledTangentSpace {
  T* weight;          // [units, size]
  T* outputs;         // [batch, units], of a tick
  T* residual;        // [batch, size]: what units leave of the inputs
  T* moved_residual;  // likewise: its tangent

  KERNEL_HOST_DEVICE CoupledTangentSpace(const PlasticParams& p, T* memory)
      : weight(memory),
        outputs(weight + p.units * p.size),
        residual(outputs + outputs_of(p)),
        moved_residual(residual + p.batch * p.size) {}

  static KERNEL_HOST_DEVICE int64_t elements(const PlasticParams& p) {
    return (p.units + 2 * p.batch) * p.size + outputs_of(p);
  }

 private:
  // Every array begins where a GPU's sectors do.
  static KERNEL_HOST_DEVICE int64_t outputs_of(const PlasticParams& p) {
    return (p.batch * p.units + kRowPadding - 1) / kRowPadding * kRowPadding;
  }
};

// A tick of coupled units and its tangent.
template <typename T>
struct MovedTick {
  CoupledTick<T> own;
  const T* dx;  // or nullptr for zeros
  T* dy;
  T* moved;  // [units, size]: of the weights, in place
};

// dy = f'(u) (dW x + W dx) of every sample, beside y: a warp for each unit and sample.
template <typename T>
KERNEL_DEVICE void move_outputs(const PlasticParams& p, const PlasticFormulas<T>& formulas, const MovedTick<T>& tick) {
  for (int64_t i = warp_index(); i < p.batch * p.units; i += warp_count()) {
    const int64_t row = i % p.units * p.size;
    const int64_t sample = i / p.units * p.size;
    WarpRow<T, 0> own(tick.own.before + row, p.size);
    const T y = formulas.output(own.product(tick.own.x + sample));
    T du = WarpRow<T, 0>(tick.moved + row, p.size).product(tick.own.x + sample);
    if (tick.dx != nullptr) {
      du = du + own.product(tick.dx + sample);
    }
    if (lane_index() == 0) {
      tick.own.y[i] = y;
      tick.dy[i] = du * formulas.slope(y);
    }
  }
}

// As learn_column, with the tangent.
template <typename T, bool kOne>
KERNEL_DEVICE void move_column(const PlasticParams& p, const PlasticFormulas<T>& formulas, const MovedTick<T>& tick,
                               const CoupledTangentSpace<T>& space, int64_t column) {
  const T loss = formulas.loss(T{0});
  T own = tick.own.x[column];
  T moved_own = tick.dx == nullptr ? T{0} : tick.dx[column];
  const auto visit = [&](int64_t b, const auto& body) {
    if constexpr (kOne) {
      body(own, moved_own);
    } else {
      T r = space.residual[b * p.size + column];
      T dr = space.moved_residual[b * p.size + column];
      body(r, dr);
      space.residual[b * p.size + column] = r;
      space.moved_residual[b * p.size + column] = dr;
    }
  };
  for (int64_t b = 0; !kOne && b < p.batch; ++b) {
    space.residual[b * p.size + column] = tick.own.x[b * p.size + column];
    space.moved_residual[b * p.size + column] = tick.dx == nullptr ? T{0} : tick.dx[b * p.size + column];
  }
  const auto explain = [](T y, T dy, T w, T v, T& r, T& dr) {
    dr = fused_multiply_add(-y, v, fused_multiply_add(-dy, w, dr));
    r = fused_multiply_add(-y, w, r);
  };
  const bool at_once = p.rule == LearningRule::kSubspace;
  for (int64_t j = 0; at_once && j < p.units; ++j) {
    const T w = tick.own.before[j * p.size + column];
    const T v = tick.moved[j * p.size + column];
    for (int64_t b = 0; b < p.batch; ++b) {
      const int64_t place = b * p.units + j;
      visit(b, [&](T& r, T& dr) { explain(tick.own.y[place], tick.dy[place], w, v, r, dr); });
    }
  }
  for (int64_t j = 0; j < p.units; ++j) {
    const T w = tick.own.before[j * p.size + column];
    const T v = tick.moved[j * p.size + column];
    T changed = fused_multiply_add(-loss, w, w);
    T moved_changed = fused_multiply_add(-loss, v, v);
    for (int64_t b = 0; b < p.batch; ++b) {
      const T y = tick.own.y[b * p.units + j];
      const T dy = tick.dy[b * p.units + j];
      visit(b, [&](T& r, T& dr) {
        if (!at_once) {
          explain(y, dy, w, v, r, dr);
        }
        const T gain = formulas.gain(y, T{0});
        changed = fused_multiply_add(gain, r, changed);
        moved_changed = fused_multiply_add(formulas.moved_gain(y, T{0}, dy, T{0}), r, moved_changed);
        moved_changed = fused_multiply_add(gain, dr, moved_changed);
      });
    }
    tick.own.after[j * p.size + column] = changed;
    tick.moved[j * p.size + column] = moved_changed;
  }
}

template <typename T, bool kOne>
__global__ void __launch_bounds__(kCoupledThreads) plastic_coupled_tangent_kernel(PlasticTangentParams d) {
  const PlasticParams& p = d.scan;
  const PlasticFormulas<T> formulas(p);
  const int64_t learner = blockIdx.x;
  const int64_t row = p.units * p.size;
  T* const memory = static_cast<T*>(d.workspace);
  const CoupledTangentSpace<T> space(p, memory + learner * CoupledTangentSpace<T>::elements(p));
  for (int64_t i = thread_rank(); i < row; i += block_threads()) {
    space.weight[i] = static_cast<const T*>(d.weight)[learner * row + i];
  }
  block_sync();
  for (int64_t tick = 0; tick < p.ticks; ++tick) {
    const int64_t first = (learner * p.ticks + tick) * p.batch;
    const T* const x = static_cast<const T*>(p.inputs) + first * p.size;
    const MovedTick<T> now{
        {x, space.outputs, space.weight, space.weight},
        d.tangent_inputs == nullptr ? nullptr : static_cast<const T*>(d.tangent_inputs) + first * p.size,
        static_cast<T*>(d.tangent_outputs) + first * p.units,
        static_cast<T*>(d.tangent_weight) + learner * row};
    move_outputs(p, formulas, now);
    block_sync();
    for (int64_t column = thread_rank(); column < p.size; column += block_threads()) {
      move_column<T, kOne>(p, formulas, now, space, column);
    }
    block_sync();
    if (p.normalize) {
      for (int64_t unit = warp_index(); unit < p.units; unit += warp_count()) {
        T* const weight = space.weight + unit * p.size;
        const T factor = WarpRow<T, 0>(weight, p.size).normalize();
        WarpRow<T, 0>(now.moved + unit * p.size, p.size).move_across(weight, factor);
      }
      block_sync();
    }
  }
}

}  // namespace torch_hrr::kernels
