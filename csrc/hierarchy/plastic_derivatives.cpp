// Derivatives of plastic_scan, tick by tick, in differentiable operators.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/slice_backward.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "csrc/hierarchy/plastic.h"
#include "kernels/hierarchy/plastic_backward.h"

namespace torch_hrr::hierarchy {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::Activation;
using kernels::LearningRule;

// The weights and thresholds before a tick, or derivatives of both.
struct State {
  Tensor weight, theta;
};

Tensor sum_over_batch(const Tensor& a, const Tensor& b) {
  return at::matmul(a.transpose(-1, -2), b);
}

// The ticks of one call; x are [..., B, n], y [..., B, m].
class Ticks {
 public:
  Ticks(const PlasticOptions& options, const PlasticTensors& tensors) : o_(options), time_(tensors.weight.dim() - 2) {
    at::ScalarType type = compute_type(promote(tensors.inputs, tensors.weight));
    type = tensors.theta.defined() ? c10::promoteTypes(type, tensors.theta.scalar_type()) : type;
    inputs_ = tensors.inputs.to(type);
    first_.weight = tensors.weight.to(type);
    const c10::SymIntArrayRef sizes = tensors.weight.sym_sizes();
    first_.theta = tensors.theta.defined()
                       ? tensors.theta.to(type)
                       : first_.weight.new_ones_symint(sizes.slice(0, static_cast<size_t>(time_) + 1));
    batched_ = inputs_.dim() > first_.weight.dim();
    batch_ = batched_ ? inputs_.sym_size(-2) : SymInt(1);
    const int64_t steps = inputs_.sym_size(time_).guard_int(__FILE__, __LINE__);
    count_ = (steps + o_.every - 1) / o_.every;
  }

  int64_t count() const {
    return count_;
  }
  const State& first() const {
    return first_;
  }
  bool learns_theta() const {
    return o_.rule == LearningRule::kBcm;
  }
  Tensor zeros_like_theta() const {
    return at::zeros_like(first_.theta);
  }

  // Of something shaped as the inputs at every step.
  Tensor at_step(const Tensor& inputs, int64_t tick) const {
    return with_batch(inputs.select(time_, tick * o_.every));
  }
  Tensor x(int64_t tick) const {
    return at_step(inputs_, tick);
  }
  // Of something shaped as the outputs.
  Tensor at_tick(const Tensor& outputs, int64_t tick) const {
    return with_batch(outputs.select(time_, tick));
  }
  // Outputs, or what is shaped as they, of all ticks.
  Tensor gathered(const std::vector<Tensor>& ticks) const {
    if (ticks.empty()) {
      c10::SymDimVector sizes(inputs_.sym_sizes().begin(), inputs_.sym_sizes().end());
      sizes[static_cast<size_t>(time_)] = 0;
      sizes.back() = first_.weight.sym_size(-2);
      return inputs_.new_zeros_symint(sizes);
    }
    std::vector<Tensor> own;
    own.reserve(ticks.size());
    for (const Tensor& tick : ticks) {
      own.push_back(batched_ ? tick : tick.squeeze(-2));
    }
    return at::stack(own, time_);
  }
  // The gradient of the inputs at ticks as one of all inputs.
  Tensor spread(const std::vector<Tensor>& ticks) const {
    if (ticks.empty()) {
      return at::zeros_like(inputs_);
    }
    return at::slice_backward_symint(gathered(ticks), inputs_.sym_sizes(), time_, 0, inputs_.sym_size(time_), o_.every);
  }

  Tensor outputs(const State& state, int64_t tick) const {
    const Tensor u = at::matmul(x(tick), state.weight.transpose(-1, -2));
    const Tensor y = o_.activation == Activation::kTanh ? at::tanh(u) : u;
    return rectified() ? at::relu(y) : y;
  }

  // The state after a tick.
  State next(const State& state, int64_t tick) const {
    const Tensor y = outputs(state, tick);
    const Tensor squares = y.square().mean(-2);
    State after;
    after.weight = normalized(unscaled(state, x(tick), y, squares));
    after.theta = state.theta + (squares - state.theta) / o_.tau;
    return after;
  }

  // The tangents of outputs and of the state after a tick.
  struct Moved {
    Tensor y;
    State state;
  };
  Moved tangent(const State& state, const State& moved, int64_t tick, const Tensor& inputs) const {
    const Tensor own = x(tick);
    const Tensor y = outputs(state, tick);
    Tensor along = at::matmul(own, moved.weight.transpose(-1, -2));
    const Tensor dx = inputs.defined() ? at_step(inputs, tick) : Tensor();
    if (dx.defined()) {
      along = along + at::matmul(dx, state.weight.transpose(-1, -2));
    }
    const Tensor dy = along * slope(y);
    const Tensor squares = y.square().mean(-2);
    const Tensor dsquares = 2 * (y * dy).mean(-2);
    Tensor taught = y;
    Tensor dtaught = dy;
    if (learns_theta()) {
      taught = y * (y - state.theta.unsqueeze(-2));
      dtaught = dy * (2 * y - state.theta.unsqueeze(-2)) - y * moved.theta.unsqueeze(-2);
    }
    Tensor step = sum_over_batch(dtaught, own);
    if (dx.defined()) {
      step = step + sum_over_batch(taught, dx);
    }
    step = step / batch_;
    if (o_.rule == LearningRule::kOja) {
      step = step - dsquares.unsqueeze(-1) * state.weight - squares.unsqueeze(-1) * moved.weight;
    } else if (kernels::is_coupled(o_.rule)) {
      const Tensor products = coupled(sum_over_batch(y, y) / batch_);
      const Tensor dproducts = coupled((sum_over_batch(dy, y) + sum_over_batch(y, dy)) / batch_);
      step = step - at::matmul(dproducts, state.weight) - at::matmul(products, moved.weight);
    }
    Moved after;
    after.y = dy;
    after.state.weight = (1 - o_.lr * o_.decay) * moved.weight + o_.lr * step;
    after.state.theta = moved.theta + (dsquares - moved.theta) / o_.tau;
    if (o_.normalize) {
      const Tensor plain = unscaled(state, own, y, squares);
      after.state.weight = through_normalization(plain, after.state.weight);
    }
    return after;
  }

  // From the gradients of the outputs (undefined: 0) and of the state after a tick, those of its inputs and of the
  // state before; that of the inputs is undefined if it is not wanted.
  struct Pulled {
    Tensor x;
    State state;
  };
  Pulled pull(const State& state, int64_t tick, const Tensor& grad, const State& after, bool for_inputs) const {
    const Tensor own = x(tick);
    const Tensor y = outputs(state, tick);
    const Tensor squares = y.square().mean(-2);
    // The projection is its own transpose.
    const Tensor weight =
        o_.normalize ? through_normalization(unscaled(state, own, y, squares), after.weight) : after.weight;
    const Tensor step = o_.lr * weight;
    const Tensor mean_step = step / batch_;
    Pulled before;
    before.state.weight = (1 - o_.lr * o_.decay) * weight;
    before.state.theta = (1 - 1 / o_.tau) * after.theta;
    Tensor dsquares = after.theta / o_.tau;
    Tensor dy = at::matmul(own, mean_step.transpose(-1, -2));  // of taught
    Tensor taught = y;
    if (learns_theta()) {
      const Tensor theta = state.theta.unsqueeze(-2);
      taught = y * (y - theta);
      before.state.theta = before.state.theta - (dy * y).sum(-2);
      dy = dy * (2 * y - theta);
    }
    if (for_inputs) {
      before.x = at::matmul(taught, mean_step);
    }
    if (o_.rule == LearningRule::kOja) {
      before.state.weight = before.state.weight - squares.unsqueeze(-1) * step;
      dsquares = dsquares - (step * state.weight).sum(-1);
    } else if (kernels::is_coupled(o_.rule)) {
      const Tensor products = coupled(sum_over_batch(y, y) / batch_);
      before.state.weight = before.state.weight - at::matmul(products.transpose(-1, -2), step);
      const Tensor dproducts = coupled(at::matmul(mean_step, state.weight.transpose(-1, -2)));
      dy = dy - at::matmul(y, dproducts + dproducts.transpose(-1, -2));
    }
    dy = dy + 2 * y * (dsquares / batch_).unsqueeze(-2);
    const Tensor du = (grad.defined() ? dy + grad : dy) * slope(y);
    before.state.weight = before.state.weight + sum_over_batch(du, own);
    if (for_inputs) {
      before.x = before.x + at::matmul(du, state.weight);
    }
    return before;
  }

 private:
  bool rectified() const {
    return learns_theta() || o_.activation == Activation::kRelu;
  }
  Tensor with_batch(const Tensor& tick) const {
    return batched_ ? tick : tick.unsqueeze(-2);
  }
  Tensor coupled(const Tensor& products) const {
    return o_.rule == LearningRule::kGha ? products.tril() : products;
  }
  // f'(u) from f(u)
  Tensor slope(const Tensor& y) const {
    const Tensor own = o_.activation == Activation::kTanh ? 1 - y.square() : at::ones_like(y);
    return rectified() ? own * (y > 0) : own;
  }
  Tensor unscaled(const State& state, const Tensor& x, const Tensor& y, const Tensor& squares) const {
    const Tensor taught = learns_theta() ? y * (y - state.theta.unsqueeze(-2)) : y;
    Tensor step = sum_over_batch(taught, x) / batch_;
    if (o_.rule == LearningRule::kOja) {
      step = step - squares.unsqueeze(-1) * state.weight;
    } else if (kernels::is_coupled(o_.rule)) {
      step = step - at::matmul(coupled(sum_over_batch(y, y) / batch_), state.weight);
    }
    return (1 - o_.lr * o_.decay) * state.weight + o_.lr * step;
  }
  // Norms of rows; 1 for a row of zeros, which normalisation leaves alone.
  static Tensor norms(const Tensor& weight) {
    const Tensor squares = weight.square().sum(-1, /*keepdim=*/true);
    return at::where(squares > 0, squares, 1).sqrt();
  }
  Tensor normalized(const Tensor& weight) const {
    return o_.normalize ? weight / norms(weight) : weight;
  }
  // The derivative of normalisation at `weight` along `moved`: what lies across the row, divided by its norm.
  static Tensor through_normalization(const Tensor& weight, const Tensor& moved) {
    const Tensor norm = norms(weight);
    const Tensor unit = weight / norm;
    return (moved - unit * (unit * moved).sum(-1, /*keepdim=*/true)) / norm;
  }

  const PlasticOptions& o_;
  int64_t time_;
  Tensor inputs_;
  State first_;
  bool batched_ = false;
  SymInt batch_;
  int64_t count_ = 0;
};

// The states before the ticks from `begin` to `end`, from that before the first.
std::vector<State> states_of(const Ticks& ticks, const State& first, int64_t begin, int64_t end) {
  std::vector<State> states{first};
  for (int64_t tick = begin; tick + 1 < end; ++tick) {
    states.push_back(ticks.next(states.back(), tick));
  }
  return states;
}

}  // namespace

PlasticResults compose_backward(const PlasticOptions& options, const PlasticTensors& tensors,
                                const PlasticGradients& grads, bool for_inputs, bool keeps_all) {
  const Ticks ticks(options, tensors);
  const auto in_type = [&](const Tensor& grad) {
    return grad.defined() ? grad.to(ticks.first().weight.scalar_type()) : grad;
  };
  const Tensor outputs = in_type(grads.outputs);
  State after;
  // A copy: without ticks it is the result, which is never an argument.
  after.weight = grads.weight.defined() ? in_type(grads.weight).clone() : at::zeros_like(ticks.first().weight);
  after.theta = ticks.learns_theta() && grads.theta.defined() ? in_type(grads.theta).clone() : ticks.zeros_like_theta();
  // States are kept where a part of this many ticks begins, and within one part at a time.
  const int64_t part = std::max<int64_t>(1, keeps_all ? ticks.count() : kernels::plastic_part(ticks.count()));
  std::vector<State> starts;
  State state = ticks.first();
  for (int64_t tick = 0; tick < ticks.count(); ++tick) {
    if (tick % part == 0) {
      starts.push_back(state);
    }
    // What follows the last start is made again with its part.
    if (tick < (ticks.count() - 1) / part * part) {
      state = ticks.next(state, tick);
    }
  }
  std::vector<Tensor> pulled(static_cast<size_t>(for_inputs ? ticks.count() : 0));
  for (size_t i = starts.size(); i-- > 0;) {
    const int64_t begin = static_cast<int64_t>(i) * part;
    const int64_t end = std::min(begin + part, ticks.count());
    const std::vector<State> states = states_of(ticks, starts[i], begin, end);
    for (int64_t tick = end - 1; tick >= begin; --tick) {
      const Tensor grad = outputs.defined() ? ticks.at_tick(outputs, tick) : outputs;
      Ticks::Pulled before = ticks.pull(states[static_cast<size_t>(tick - begin)], tick, grad, after, for_inputs);
      if (for_inputs) {
        pulled[static_cast<size_t>(tick)] = before.x;
      }
      after = before.state;
    }
  }
  // Of the gradient of the weights, so that it has a history wherever the others have one.
  const Tensor none = after.weight.slice(-2, 0, 0).sum(-1);
  return {for_inputs ? ticks.spread(pulled) : none, after.weight, ticks.learns_theta() ? after.theta : none};
}

PlasticResults compose_jvp(const PlasticOptions& options, const PlasticTensors& tensors,
                           const PlasticTensors& tangents) {
  const Ticks ticks(options, tensors);
  State state = ticks.first();
  const auto or_zeros = [&](const Tensor& tangent, const Tensor& like) {
    return tangent.defined() ? tangent.to(like.scalar_type()) : at::zeros_like(like);
  };
  // Copies: without ticks they are results, which are never arguments.
  State moved{or_zeros(tangents.weight, state.weight).clone(), or_zeros(tangents.theta, state.theta).clone()};
  const Tensor dx = tangents.inputs.defined() ? tangents.inputs.to(state.weight.scalar_type()) : tangents.inputs;
  std::vector<Tensor> outputs;
  for (int64_t tick = 0; tick < ticks.count(); ++tick) {
    Ticks::Moved after = ticks.tangent(state, moved, tick, dx);
    state = ticks.next(state, tick);
    outputs.push_back(after.y);
    moved = after.state;
  }
  // Of the tangent of the weights, so that it has a history wherever the others have one.
  const Tensor none = moved.weight.slice(-2, 0, 0).sum(-1);
  return {ticks.gathered(outputs), moved.weight, ticks.learns_theta() ? moved.theta : none};
}

}  // namespace torch_hrr::hierarchy
