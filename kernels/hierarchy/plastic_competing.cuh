// The kernel of units that compete: a block for each layer. The bits are the CPU's, see plastic_competing.isa.cpp.
#pragma once

#include "kernels/hierarchy/competition.h"
#include "kernels/hierarchy/plastic.cuh"

namespace torch_hrr::kernels {

// For a maximum over the block.
constexpr std::size_t kCompetingSharedBytes = kCoupledThreads / kWarpSize * sizeof(uint64_t);

template <typename T>
class CompetingLayer {
 public:
  KERNEL_DEVICE CompetingLayer(const CompetingParams& params, int64_t learner)
      : c_(params),
        p_(params.scan),
        formulas_(params),
        weight_(static_cast<T*>(p_.weight) + learner * p_.units * p_.size),
        products_(static_cast<T*>(params.workspace) + learner * params.workspace_elements()),
        shares_(products_ + p_.batch * p_.units),
        rates_(shares_ + p_.batch * p_.units),
        means_(rates_ + p_.units) {}

  // Inputs [batch, size] and outputs [batch, units] of a tick.
  KERNEL_DEVICE void learn(const T* x, T* outputs) const {
    multiply(x);
    block_sync();
    for (int64_t b = warp_index(); b < p_.batch; b += warp_count()) {
      compete(products_ + b * p_.units, outputs + b * p_.units, shares_ + b * p_.units);
    }
    block_sync();
    for (int64_t j = thread_rank(); j < p_.units; j += block_threads()) {
      T sum = 0;
      for (int64_t b = 0; b < p_.batch; ++b) {
        sum = fused_multiply_add(shares_[b * p_.units + j], products_[b * p_.units + j], sum);
      }
      means_[j] = sum / static_cast<T>(p_.batch);
    }
    block_sync();
    weigh(c_.scaled ? formulas_.scale_of(largest_step(x)) : T{1});
    block_sync();
    update(x);
    block_sync();
    if (p_.normalize) {
      for (int64_t j = warp_index(); j < p_.units; j += warp_count()) {
        (void)row(j).normalize();
      }
      block_sync();
    }
  }

 private:
  KERNEL_DEVICE WarpRow<T, 0> row(int64_t j) const {
    return WarpRow<T, 0>(weight_ + j * p_.size, p_.size);
  }

  // W x of every sample, a warp for each unit and sample, and what every unit multiplies its rate by.
  KERNEL_DEVICE void multiply(const T* x) const {
    for (int64_t i = warp_index(); i < p_.batch * p_.units; i += warp_count()) {
      const T product = row(i % p_.units).product(x + i / p_.units * p_.size);
      if (lane_index() == 0) {
        products_[i] = product;
      }
    }
    for (int64_t j = warp_index(); j < p_.units; j += warp_count()) {
      const T rate = c_.power == 0 ? T{1} : formulas_.rate_of(row(j).product(weight_ + j * p_.size));
      if (lane_index() == 0) {
        rates_[j] = rate;
      }
    }
  }

  // A warp for a sample.
  KERNEL_DEVICE void compete(const T* u, T* y, T* s) const {
    T largest = -NumberLimits<T>::kInfinity;
    for (int64_t i = lane_index(); i < p_.units; i += kWarpSize) {
      largest = u[i] > largest ? u[i] : largest;
    }
    largest = warp_reduce(largest, [](T a, T b) { return b > a ? b : a; });
    T sum = 0;
    int64_t winner = p_.units;
    for (int64_t i = lane_index(); i < p_.units; i += kWarpSize) {
      s[i] = formulas_.excited(u[i], largest);
      sum = sum + s[i];
      winner = winner == p_.units && u[i] == largest ? i : winner;
    }
    sum = warp_sum(sum);
    winner = warp_reduce(winner, [](int64_t a, int64_t b) { return b < a ? b : a; });
    for (int64_t i = lane_index(); i < p_.units; i += kWarpSize) {
      const T output = s[i] / sum;
      y[i] = output;
      s[i] = i == winner ? output : formulas_.losers * output;
    }
  }

  // The largest |dW| of the layer. The bits of numbers that are not negative have their order.
  KERNEL_DEVICE T largest_step(const T* x) const {
    T largest = 0;
    for (int64_t e = thread_rank(); e < p_.units * p_.size; e += block_threads()) {
      const int64_t j = e / p_.size;
      T step = -means_[j] * weight_[e];
      for (int64_t b = 0; b < p_.batch; ++b) {
        step = fused_multiply_add(formulas_.per_sample * shares_[b * p_.units + j], x[b * p_.size + e - j * p_.size],
                                  step);
      }
      const T own = magnitude(step);
      largest = own > largest ? own : largest;
    }
    return number_of(block_max(bits_of(largest), dynamic_shared<bits_t<T>>()));
  }

  // Gains in place of shares, and losses in place of means.
  KERNEL_DEVICE void weigh(T scale) const {
    for (int64_t j = thread_rank(); j < p_.units; j += block_threads()) {
      means_[j] = formulas_.loss(rates_[j], scale, means_[j]);
      for (int64_t b = 0; b < p_.batch; ++b) {
        T& share = shares_[b * p_.units + j];
        share = formulas_.gain(rates_[j], scale, share);
      }
    }
  }

  KERNEL_DEVICE void update(const T* x) const {
    for (int64_t e = thread_rank(); e < p_.units * p_.size; e += block_threads()) {
      const int64_t j = e / p_.size;
      T w = weight_[e];
      w = fused_multiply_add(-means_[j], w, w);
      for (int64_t b = 0; b < p_.batch; ++b) {
        w = fused_multiply_add(shares_[b * p_.units + j], x[b * p_.size + e - j * p_.size], w);
      }
      weight_[e] = w;
    }
  }

  const CompetingParams& c_;
  const PlasticParams& p_;
  Competition<T> formulas_;
  T* weight_;    // [units, size]
  T* products_;  // [batch, units]
  T* shares_;    // [batch, units]
  T* rates_;     // [units]
  T* means_;     // [units]
};

template <typename T>
__global__ void __launch_bounds__(kCoupledThreads, 1) plastic_competing_kernel(CompetingParams params) {
  const PlasticParams& p = params.scan;
  const int64_t learner = blockIdx.x;
  const CompetingLayer<T> layer(params, learner);
  for (int64_t tick = 0; tick < p.ticks; ++tick) {
    const int64_t first = (learner * p.ticks + tick) * p.batch;
    layer.learn(static_cast<const T*>(p.inputs) + first * p.size, static_cast<T*>(p.outputs) + first * p.units);
  }
}

}  // namespace torch_hrr::kernels
