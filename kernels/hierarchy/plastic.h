// Learning at every tick of a layer y = f(W x): parameters, the formulas of one unit, and the order of its sums.
//
//   hebb       dW = E[y x^T]
//   oja        dW_j = E[y_j x] - E[y_j^2] W_j
//   gha        dW_j = E[y_j (x - sum_{i <= j} y_i W_i)]
//   subspace   dW_j = E[y_j (x - sum_i y_i W_i)]
//   bcm        dW_j = E[y_j (y_j - theta_j) x], theta_j += (E[y_j^2] - theta_j) / tau
//
// E is the mean over the batch, and W += rate (dW - decay W); the tick's outputs come from the weights before. Products
// with a row are summed in kSumLanes partial sums, element i in partial sum i % kSumLanes, which are then added by
// halves: that is a warp's sum, so the CPU and CUDA give the same bits.
#pragma once

#include <cstdint>

#include "kernels/lanes.h"
#include "kernels/math.h"

namespace torch_hrr::kernels {

enum class LearningRule : int32_t { kHebb, kOja, kGha, kSubspace, kBcm };
enum class Activation : int32_t { kLinear, kRelu, kTanh };

constexpr int kSumLanes = 32;
// Rows of inputs and weights are padded with zeros to a multiple of this, so that vectors need no tails.
constexpr int64_t kRowPadding = 16;

// Whether units learn from each other's outputs.
KERNEL_HOST_DEVICE constexpr bool is_coupled(LearningRule rule) {
  return rule == LearningRule::kGha || rule == LearningRule::kSubspace;
}

// All arrays are contiguous, of float or of double.
struct PlasticParams {
  const void* inputs = nullptr;  // [learners, ticks, batch, size]
  void* weight = nullptr;        // [learners, units, size], in place
  void* theta = nullptr;         // [learners, units], in place; bcm alone
  void* outputs = nullptr;       // [learners, ticks, batch, units]
  void* residual = nullptr;      // [learners, batch, size], workspace of coupled rules
  int64_t learners = 0;
  int64_t ticks = 0;
  int64_t batch = 0;
  int64_t units = 0;
  int64_t size = 0;  // of an input, padded
  LearningRule rule = LearningRule::kOja;
  Activation activation = Activation::kTanh;
  double rate = 0;
  double tau = 0;
  double decay = 0;
  bool normalize = false;  // every row to norm 1 after its update

  KERNEL_HOST_DEVICE bool coupled() const {
    return is_coupled(rule);
  }
};

KERNEL_ISA_BEGIN

template <typename L>
KERNEL_HOST_DEVICE L positive_part(L x) {
  const L zero = lanes_of<L>(0);
  return select(x < zero, zero, x);
}

// The numbers of one call in the type of its arrays, and the formulas of units in the lanes of L.
template <typename T>
struct PlasticFormulas {
  LearningRule rule;
  Activation activation;
  T rate, share, inverse_tau, decay;

  explicit KERNEL_HOST_DEVICE PlasticFormulas(const PlasticParams& p)
      : rule(p.rule),
        activation(p.activation),
        rate(static_cast<T>(p.rate)),
        share(static_cast<T>(p.rate / static_cast<double>(p.batch))),
        inverse_tau(static_cast<T>(1 / p.tau)),
        decay(static_cast<T>(p.decay)) {}

  // y = f(u); of bcm never negative
  template <typename L>
  KERNEL_HOST_DEVICE L output(L u) const {
    if (activation == Activation::kTanh) {
      u = hyperbolic_tangent(u);
    }
    return activation == Activation::kRelu || rule == LearningRule::kBcm ? positive_part(u) : u;
  }
  // W += gain x
  template <typename L>
  KERNEL_HOST_DEVICE L gain(L y, L theta) const {
    return lanes_of<L>(share) * (rule == LearningRule::kBcm ? y * (y - theta) : y);
  }
  // W -= loss W
  template <typename L>
  KERNEL_HOST_DEVICE L loss(L mean_square) const {
    const L own = lanes_of<L>(decay);
    return lanes_of<L>(rate) * (rule == LearningRule::kOja ? own + mean_square : own);
  }
  template <typename L>
  KERNEL_HOST_DEVICE L next_theta(L theta, L mean_square) const {
    return fused_multiply_add(mean_square - theta, lanes_of<L>(inverse_tau), theta);
  }
};

// What a row of this squared norm is multiplied by to have norm 1; a row of zeros stays one.
template <typename T>
KERNEL_HOST_DEVICE T norm_factor(T squares) {
  return squares > T{0} ? T{1} / square_root(squares) : T{1};
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
