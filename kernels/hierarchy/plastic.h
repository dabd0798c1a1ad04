// Learning at every tick of a layer y = f(W x): parameters, the formulas of one unit, and the order of its sums.
//
//   hebb       dW = E[y x^T]
//   oja        dW_j = E[y_j x] - E[y_j^2] W_j
//   gha        dW_j = E[y_j (x - sum_{i <= j} y_i W_i)]
//   subspace   dW_j = E[y_j (x - sum_i y_i W_i)]
//   bcm        dW_j = E[y_j (y_j - theta_j) x], theta_j += (E[y_j^2] - theta_j) / tau
//   softhebb   has kernels of its own, see competition.h
//
// E is the mean over the batch, and W += rate (dW - decay W); the tick's outputs come from the weights before. Products
// with a row are summed in kSumLanes partial sums, element i in partial sum i % kSumLanes, which are then added by
// halves: that is a warp's sum, so the CPU and CUDA give the same bits.
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/lanes.h"
#include "kernels/math.h"

namespace torch_hrr::kernels {

enum class LearningRule : int32_t { kHebb, kOja, kGha, kSubspace, kBcm, kSoftHebb };
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
// On a GPU layers are of float or of double; there are learners, ticks and units.
void queue(const CudaCall& call, const PlasticParams& params);

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
  T rate, share, twice_mean, inverse_tau, decay;

  explicit KERNEL_HOST_DEVICE PlasticFormulas(const PlasticParams& p)
      : rule(p.rule),
        activation(p.activation),
        rate(static_cast<T>(p.rate)),
        share(static_cast<T>(p.rate / static_cast<double>(p.batch))),
        twice_mean(static_cast<T>(2 / static_cast<double>(p.batch))),
        inverse_tau(static_cast<T>(1 / p.tau)),
        decay(static_cast<T>(p.decay)) {}

  KERNEL_HOST_DEVICE bool rectified() const {
    return activation == Activation::kRelu || rule == LearningRule::kBcm;
  }
  // y = f(u); of bcm never negative
  template <typename L>
  KERNEL_HOST_DEVICE L output(L u) const {
    if (activation == Activation::kTanh) {
      u = hyperbolic_tangent(u);
    }
    return rectified() ? positive_part(u) : u;
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

  // f'(u) from y = f(u)
  template <typename L>
  KERNEL_HOST_DEVICE L slope(L y) const {
    const L one = lanes_of<L>(1);
    const L own = activation == Activation::kTanh ? fused_multiply_add(-y, y, one) : one;
    return rectified() ? own * select(lanes_of<L>(0) < y, one, lanes_of<L>(0)) : own;
  }
  // d gain / dy
  template <typename L>
  KERNEL_HOST_DEVICE L gain_slope(L y, L theta) const {
    const L own = lanes_of<L>(share);
    return rule == LearningRule::kBcm ? own * (y + (y - theta)) : own;
  }

  // The tangents of gain and loss.
  template <typename L>
  KERNEL_HOST_DEVICE L moved_gain(L y, L theta, L dy, L dtheta) const {
    const L own = gain_slope(y, theta) * dy;
    return rule == LearningRule::kBcm ? own - lanes_of<L>(share) * (y * dtheta) : own;
  }
  template <typename L>
  KERNEL_HOST_DEVICE L moved_loss(L moved_mean_square) const {
    return rule == LearningRule::kOja ? lanes_of<L>(rate) * moved_mean_square : lanes_of<L>(0);
  }

  // Backward: `across` is (dL/dW) W and `along` (dL/dW) x for the weights W after the tick, before they are scaled;
  // of_theta is dL/dtheta after it.
  //
  // The gradient of y through E[y^2], divided by y: that of E[y^2], which the loss and theta take, times 2/B.
  template <typename L>
  KERNEL_HOST_DEVICE L through_square(L across, L of_theta) const {
    const L own = rule == LearningRule::kOja   ? lanes_of<L>(-rate) * across
                  : rule == LearningRule::kBcm ? lanes_of<L>(inverse_tau) * of_theta
                                               : lanes_of<L>(0);
    return lanes_of<L>(twice_mean) * own;
  }
  // dL/du of a sample whose outputs have the gradient `of_output`
  template <typename L>
  KERNEL_HOST_DEVICE L of_product(L y, L theta, L of_output, L along, L of_square) const {
    return fused_multiply_add(y, of_square, fused_multiply_add(gain_slope(y, theta), along, of_output)) * slope(y);
  }
  // dL/dtheta before the tick: what theta keeps, and what every sample adds.
  template <typename L>
  KERNEL_HOST_DEVICE L kept_theta(L of_theta) const {
    return fused_multiply_add(-of_theta, lanes_of<L>(inverse_tau), of_theta);
  }
  template <typename L>
  KERNEL_HOST_DEVICE L through_gain(L y, L along, L of_theta) const {
    return fused_multiply_add(lanes_of<L>(-share) * along, y, of_theta);
  }
};

// What a row of this squared norm is multiplied by to have norm 1; a row of zeros stays one.
template <typename T>
KERNEL_HOST_DEVICE T norm_factor(T squares) {
  return squares > T{0} ? T{1} / square_root(squares) : T{1};
}

// The power of two by which a row is multiplied before its squares are summed again: 1 unless this sum of them
// overflowed or lost bits to underflow.
template <typename T>
KERNEL_HOST_DEVICE T norm_scale(T squares) {
  constexpr bool kSingle = sizeof(T) == 4;
  constexpr T kLeast = static_cast<T>(kSingle ? 0x1p-90 : 0x1p-900);
  constexpr T kMost = static_cast<T>(kSingle ? 0x1.fffffep127 : 0x1.fffffffffffffp1023);
  constexpr T kUp = static_cast<T>(kSingle ? 0x1p100 : 0x1p950);
  constexpr T kDown = static_cast<T>(kSingle ? 0x1p-76 : 0x1p-600);
  return squares < kLeast ? kUp : squares > kMost ? kDown : T{1};
}

// The two factors together, as far as T holds them, of a row with this squared norm after the first.
template <typename T>
KERNEL_HOST_DEVICE T whole_factor(T squares, T scale) {
  constexpr T kMost = static_cast<T>(sizeof(T) == 4 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023);
  const T factor = squares > T{0} ? norm_factor(squares) * scale : T{1};
  return factor > kMost ? kMost : factor;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
