// The second derivatives of plastic_scan, and tangents that can be differentiated, tick by tick in operators of torch:
// the formulas of a tick and of its gradient for tensors that move along a direction. Of units that compete these are
// the first derivatives too.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/slice_backward.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>

#include "csrc/hierarchy/plastic.h"
#include "kernels/hierarchy/plastic_backward.h"

namespace torch_hrr::hierarchy {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::Activation;
using kernels::LearningRule;

// A tensor and its derivative along a direction, by the rules of forward mode; no derivative is 0.
struct Dual {
  Tensor value, moved;

  Dual() = default;
  Dual(const Tensor& constant) : value(constant) {}  // NOLINT: a constant stands wherever a dual does
  Dual(const Tensor& own, const Tensor& derivative) : value(own), moved(derivative) {}

  bool defined() const {
    return value.defined();
  }
  // Of a linear map.
  template <typename Map>
  Dual mapped(const Map& map) const {
    return {map(value), moved.defined() ? map(moved) : moved};
  }
  Dual select(int64_t dim, int64_t index) const {
    return mapped([&](const Tensor& x) { return x.select(dim, index); });
  }
  Dual squeeze(int64_t dim) const {
    return mapped([&](const Tensor& x) { return x.squeeze(dim); });
  }
  Dual unsqueeze(int64_t dim) const {
    return mapped([&](const Tensor& x) { return x.unsqueeze(dim); });
  }
  Dual transpose(int64_t first, int64_t second) const {
    return mapped([&](const Tensor& x) { return x.transpose(first, second); });
  }
  Dual tril() const {
    return mapped([](const Tensor& x) { return x.tril(); });
  }
  Dual sum(int64_t dim, bool keepdim = false) const {
    return mapped([&](const Tensor& x) { return x.sum(dim, keepdim); });
  }
  Dual mean(int64_t dim) const {
    return mapped([&](const Tensor& x) { return x.mean(dim); });
  }
  Dual clone() const {
    return mapped([](const Tensor& x) { return x.clone(); });
  }
  // Times a number that depends on the value.
  Dual with(const Tensor& own, const Tensor& slope) const {
    return {own, moved.defined() ? moved * slope : moved};
  }
  Dual square() const {
    return with(value.square(), 2 * value);
  }
  Dual sqrt() const {
    const Tensor root = value.sqrt();
    return with(root, 0.5 / root);
  }
  // Of a number above 0.
  Dual pow(double exponent) const {
    return with(value.pow(exponent), exponent * value.pow(exponent - 1));
  }
};

Tensor total(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : a + b;
}
template <typename Product>
Dual product_rule(const Dual& a, const Dual& b, const Product& product) {
  return {product(a.value, b.value), total(a.moved.defined() ? product(a.moved, b.value) : Tensor(),
                                           b.moved.defined() ? product(a.value, b.moved) : Tensor())};
}
Dual operator*(const Dual& a, const Dual& b) {
  return product_rule(a, b, [](const Tensor& x, const Tensor& y) { return x * y; });
}
Dual matmul(const Dual& a, const Dual& b) {
  return product_rule(a, b, [](const Tensor& x, const Tensor& y) { return at::matmul(x, y); });
}
Dual operator*(const at::Scalar& a, const Dual& b) {
  return b.mapped([&](const Tensor& x) { return a * x; });
}
Dual operator/(const Dual& a, const at::Scalar& b) {
  return a.mapped([&](const Tensor& x) { return x / b; });
}
// (a' - (a / b) b') / b
Dual operator/(const Dual& a, const Dual& b) {
  const Tensor quotient = a.value / b.value;
  const Tensor moved = total(a.moved, b.moved.defined() ? -(quotient * b.moved) : b.moved);
  return {quotient, moved.defined() ? moved / b.value : moved};
}
Dual operator+(const Dual& a, const Dual& b) {
  return {a.value + b.value, total(a.moved, b.moved)};
}
Dual operator-(const Dual& a, const Dual& b) {
  return {a.value - b.value, total(a.moved, b.moved.defined() ? -b.moved : b.moved)};
}
Dual operator-(const at::Scalar& a, const Dual& b) {
  return {a - b.value, b.moved.defined() ? -b.moved : b.moved};
}
Dual operator+(const Dual& a, const at::Scalar& b) {
  return {a.value + b, a.moved};
}
Dual softmax(const Dual& x) {
  const Tensor own = at::softmax(x.value, -1);
  return {own, x.moved.defined() ? own * (x.moved - (own * x.moved).sum(-1, /*keepdim=*/true)) : x.moved};
}
Dual tanh(const Dual& x) {
  const Tensor own = at::tanh(x.value);
  return x.with(own, 1 - own.square());
}
Dual relu(const Dual& x) {
  return x.with(at::relu(x.value), x.value > 0);
}
Dual ones_like(const Dual& x) {
  return at::ones_like(x.value);
}

// The weights and thresholds before a tick, or derivatives of both.
struct State {
  Dual weight, theta;
};

// Arguments, of tangents any may be undefined, and the state before the first tick.
struct Arguments {
  Dual inputs;
  State first;
};

// In the type that is computed in, with their derivatives along `direction`.
Arguments arguments_of(const PlasticOptions& options, const PlasticTensors& tensors, const PlasticTensors& direction) {
  const bool learns_theta = options.rule == LearningRule::kBcm;
  at::ScalarType type = compute_type(promote(tensors.inputs, tensors.weight));
  type = tensors.theta.defined() ? c10::promoteTypes(type, tensors.theta.scalar_type()) : type;
  const auto along = [&](const Tensor& x, const Tensor& moved) {
    return Dual(x.to(type), moved.defined() ? moved.to(type) : moved);
  };
  const Dual weight = along(tensors.weight, direction.weight);
  const size_t without_last = static_cast<size_t>(tensors.weight.dim()) - 1;
  const Tensor theta = tensors.theta.defined() && learns_theta
                           ? tensors.theta
                           : weight.value.new_ones_symint(tensors.weight.sym_sizes().slice(0, without_last));
  return {along(tensors.inputs, direction.inputs), {weight, along(theta, learns_theta ? direction.theta : Tensor())}};
}

// The ticks of one call; x are [..., B, n], y [..., B, m].
class Ticks {
 public:
  Ticks(const PlasticOptions& options, Arguments arguments)
      : o_(options), time_(arguments.first.weight.value.dim() - 2), arguments_(std::move(arguments)) {
    const Tensor& inputs = arguments_.inputs.value;
    batched_ = inputs.dim() > time_ + 2;
    batch_ = batched_ ? inputs.sym_size(-2) : SymInt(1);
    const int64_t steps = inputs.sym_size(time_).guard_int(__FILE__, __LINE__);
    every_ = steps_between(o_.every, steps);
    count_ = (steps + every_ - 1) / every_;
  }

  int64_t count() const {
    return count_;
  }
  const State& first() const {
    return arguments_.first;
  }
  bool learns_theta() const {
    return o_.rule == LearningRule::kBcm;
  }

  Dual x(int64_t tick) const {
    return with_batch(arguments_.inputs.select(time_, tick * every_));
  }
  // Of something shaped as the outputs.
  Dual at_tick(const Dual& outputs, int64_t tick) const {
    return with_batch(outputs.select(time_, tick));
  }
  // Outputs, or what is shaped as they, of all ticks.
  Tensor gathered(const std::vector<Tensor>& ticks) const {
    const Tensor& inputs = arguments_.inputs.value;
    if (ticks.empty()) {
      c10::SymDimVector sizes(inputs.sym_sizes().begin(), inputs.sym_sizes().end());
      sizes[static_cast<size_t>(time_)] = 0;
      sizes.back() = first().weight.value.sym_size(-2);
      return inputs.new_zeros_symint(sizes);
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
    const Tensor& inputs = arguments_.inputs.value;
    if (ticks.empty()) {
      return at::zeros_like(inputs);
    }
    return at::slice_backward_symint(gathered(ticks), inputs.sym_sizes(), time_, 0, inputs.sym_size(time_), every_);
  }

  Dual outputs(const State& state, int64_t tick) const {
    const Dual u = matmul(x(tick), state.weight.transpose(-1, -2));
    if (competes()) {
      return softmax(u / o_.temperature);
    }
    const Dual y = o_.activation == Activation::kTanh ? tanh(u) : u;
    return rectified() ? relu(y) : y;
  }

  // The state after a tick with outputs y.
  State next(const State& state, int64_t tick, const Dual& y) const {
    const Dual squares = y.square().mean(-2);
    State after;
    after.weight = unscaled(state, x(tick), y, squares);
    if (o_.normalize) {
      after.weight = Scaled(after.weight).unit();
    }
    after.theta = state.theta + (squares - state.theta) / o_.tau;
    return after;
  }

  // From the gradients of the outputs (undefined: 0) and of the state after a tick, those of its inputs and of the
  // state before; that of the inputs is undefined if it is not wanted.
  struct Pulled {
    Dual x;
    State state;
  };
  Pulled pull(const State& state, int64_t tick, const Dual& grad, const State& after, bool for_inputs) const {
    const Dual own = x(tick);
    const Dual y = outputs(state, tick);
    const Dual squares = y.square().mean(-2);
    Dual weight = after.weight;
    if (o_.normalize) {
      weight = Scaled(unscaled(state, own, y, squares)).across(weight);
    }
    if (competes()) {
      return pull_competing({weight, after.theta}, state.weight, own, y, grad, for_inputs);
    }
    const Dual step = o_.lr * weight;
    const Dual mean_step = step / batch_;
    Pulled before;
    before.state.weight = (1 - o_.lr * o_.decay) * weight;
    before.state.theta = (1 - 1 / o_.tau) * after.theta;
    Dual dsquares = after.theta / o_.tau;
    Dual dy = matmul(own, mean_step.transpose(-1, -2));  // of taught
    Dual taught = y;
    if (learns_theta()) {
      const Dual theta = state.theta.unsqueeze(-2);
      taught = y * (y - theta);
      before.state.theta = before.state.theta - (dy * y).sum(-2);
      dy = dy * (2 * y - theta);
    }
    if (for_inputs) {
      before.x = matmul(taught, mean_step);
    }
    if (o_.rule == LearningRule::kOja) {
      before.state.weight = before.state.weight - squares.unsqueeze(-1) * step;
      dsquares = dsquares - (step * state.weight).sum(-1);
    } else if (kernels::is_coupled(o_.rule)) {
      const Dual products = coupled(sum_over_batch(y, y) / batch_);
      before.state.weight = before.state.weight - matmul(products.transpose(-1, -2), step);
      const Dual dproducts = coupled(matmul(mean_step, state.weight.transpose(-1, -2)));
      dy = dy - matmul(y, dproducts + dproducts.transpose(-1, -2));
    }
    dy = dy + 2 * y * (dsquares / batch_).unsqueeze(-2);
    const Dual du = (grad.defined() ? dy + grad : dy) * slope(y);
    before.state.weight = before.state.weight + sum_over_batch(du, own);
    if (for_inputs) {
      before.x = before.x + matmul(du, state.weight);
    }
    return before;
  }

 private:
  // Rows as scale times rows whose squares neither over- nor underflow, and their norms; a row of zeros has norm 1. The
  // scale is a constant: what is made of both does not depend on it.
  struct Scaled {
    Tensor scale;
    Dual rows, norms;

    explicit Scaled(const Dual& weight) {
      const Tensor largest = weight.value.detach().abs().amax(-1, /*keepdim=*/true);
      scale = at::where(largest > 0, largest, 1);
      rows = weight / scale;
      const Dual squares = rows.square().sum(-1, /*keepdim=*/true);
      norms = (squares + at::where(squares.value > 0, 0, at::ones_like(squares.value))).sqrt();
    }
    Dual unit() const {
      return rows / norms;
    }
    // The derivative of unit() along `moved`, and its own transpose: what lies across the row, divided by its norm.
    Dual across(const Dual& moved) const {
      const Dual own = unit();
      return (moved - own * (own * moved).sum(-1, /*keepdim=*/true)) / norms / scale;
    }
  };

  // What a tick makes of units that compete, see kernels/hierarchy/competition.h.
  struct Competing {
    Dual products;   // u, [..., B, m]
    Tensor factors;  // of the outputs in the shares; undefined if all are 1
    Dual shares;     // s
    Dual mean;       // E[s u], [..., m, 1]
    Dual raw;        // the step before it is scaled
    Tensor pick;     // what the largest element is of raw: the sum of the product; undefined if not scaled
    Dual largest;    // and what the step is divided by, [..., 1, 1]
    Dual step;
    Dual norm, slope, rate;  // |W_j|, [..., m, 1], and the rate's factor and its slope; undefined if the factor is 1
  };
  Competing compete(const Dual& w, const Dual& x, const Dual& y) const {
    Competing c;
    c.products = matmul(x, w.transpose(-1, -2));
    c.shares = y;
    const bool any = w.value.sym_size(-2) > 0;
    if (any && o_.losers != 1) {
      const Tensor winner = c.products.value.detach().argmax(-1, /*keepdim=*/true);
      c.factors = at::full_like(c.products.value.detach(), o_.losers).scatter(-1, winner, 1);
      c.shares = y * c.factors;
    }
    c.mean = (c.shares * c.products).mean(-2).unsqueeze(-1);
    c.raw = sum_over_batch(c.shares, x) / batch_ - c.mean * w;
    c.step = c.raw;
    if (any && o_.scaled) {
      const Tensor raw = c.raw.value.detach();
      const Tensor largest = raw.abs().eq(raw.abs().amax({-2, -1}, /*keepdim=*/true)).to(raw.scalar_type());
      c.pick = raw.sign() * largest / largest.sum({-2, -1}, /*keepdim=*/true);
      c.largest = sum_of_all(c.raw * c.pick) + kernels::kLeastStep;
      c.step = c.raw / c.largest;
    }
    if (o_.power > 0) {
      const Dual squares = w.square().sum(-1, /*keepdim=*/true);
      const Tensor full = squares.value.detach().ne(0).to(w.value.scalar_type());
      c.norm = (squares + (1 - full)).sqrt();
      const Dual off = c.norm * full + (-1);
      const Tensor sign = off.value.detach().sign();
      const Dual base = off * sign + kernels::kLeastDistance;
      c.rate = base.pow(o_.power);
      c.slope = o_.power * base.pow(o_.power - 1) * (sign * full);
    }
    return c;
  }
  // From the gradients of the outputs and of the state after a tick, before rows are scaled to norm 1.
  Pulled pull_competing(const State& after, const Dual& w, const Dual& x, const Dual& y, const Dual& grad,
                        bool for_inputs) const {
    const Competing c = compete(w, x, y);
    Pulled before;
    before.state = after;
    Dual step = o_.lr * after.weight;
    if (c.rate.defined()) {
      const Dual of_rate = (step * (c.step - o_.decay * w)).sum(-1, /*keepdim=*/true);
      before.state.weight = before.state.weight + of_rate * c.slope * w / c.norm;
      step = c.rate * step;
    }
    before.state.weight = before.state.weight - o_.decay * step;
    if (c.pick.defined()) {
      step = step / c.largest;
      step = step - sum_of_all(step * c.step) * c.pick;
    }
    before.state.weight = before.state.weight - c.mean * step;
    const Dual mean_step = step / batch_;
    const Dual across = (w * mean_step).sum(-1).unsqueeze(-2);
    Dual dy = matmul(x, mean_step.transpose(-1, -2)) - c.products * across;  // of the shares
    dy = c.factors.defined() ? dy * c.factors : dy;
    dy = grad.defined() ? dy + grad : dy;
    const Dual du = y * (dy - (dy * y).sum(-1, /*keepdim=*/true)) / o_.temperature - c.shares * across;
    before.state.weight = before.state.weight + sum_over_batch(du, x);
    if (for_inputs) {
      before.x = matmul(c.shares, mean_step) + matmul(du, w);
    }
    return before;
  }

  // Of a matrix, [..., 1, 1].
  static Dual sum_of_all(const Dual& matrix) {
    return matrix.sum(-1, /*keepdim=*/true).sum(-2, /*keepdim=*/true);
  }
  bool competes() const {
    return o_.rule == LearningRule::kSoftHebb;
  }
  bool rectified() const {
    return learns_theta() || o_.activation == Activation::kRelu;
  }
  Dual with_batch(const Dual& tick) const {
    return batched_ ? tick : tick.unsqueeze(-2);
  }
  static Dual sum_over_batch(const Dual& a, const Dual& b) {
    return matmul(a.transpose(-1, -2), b);
  }
  Dual coupled(const Dual& products) const {
    return o_.rule == LearningRule::kGha ? products.tril() : products;
  }
  // f'(u) from f(u)
  Dual slope(const Dual& y) const {
    const Dual own = o_.activation == Activation::kTanh ? 1 - y.square() : ones_like(y);
    return rectified() ? own * (y.value > 0) : own;
  }
  Dual unscaled(const State& state, const Dual& x, const Dual& y, const Dual& squares) const {
    if (competes()) {
      const Competing c = compete(state.weight, x, y);
      const Dual change = o_.lr * (c.step - o_.decay * state.weight);
      return state.weight + (c.rate.defined() ? c.rate * change : change);
    }
    const Dual taught = learns_theta() ? y * (y - state.theta.unsqueeze(-2)) : y;
    Dual step = sum_over_batch(taught, x) / batch_;
    if (o_.rule == LearningRule::kOja) {
      step = step - squares.unsqueeze(-1) * state.weight;
    } else if (kernels::is_coupled(o_.rule)) {
      step = step - matmul(coupled(sum_over_batch(y, y) / batch_), state.weight);
    }
    return (1 - o_.lr * o_.decay) * state.weight + o_.lr * step;
  }

  const PlasticOptions& o_;
  int64_t time_;
  Arguments arguments_;
  bool batched_ = false;
  SymInt batch_;
  int64_t every_ = 1;
  int64_t count_ = 0;
};

// The gradients of all inputs, as ticks, and of the state before the first tick.
struct PulledBack {
  std::vector<Dual> inputs;
  State state;
};
PulledBack pull_back(const Ticks& ticks, const Dual& outputs, State after, bool for_inputs, bool keeps_all) {
  // States are kept where a part of this many ticks begins, and within one part at a time.
  const int64_t part = std::max<int64_t>(1, keeps_all ? ticks.count() : kernels::plastic_part(ticks.count()));
  const auto next = [&](const State& state, int64_t tick) {
    return ticks.next(state, tick, ticks.outputs(state, tick));
  };
  std::vector<State> starts;
  State state = ticks.first();
  for (int64_t tick = 0; tick < ticks.count(); ++tick) {
    if (tick % part == 0) {
      starts.push_back(state);
    }
    // What follows the last start is made again with its part.
    if (tick < (ticks.count() - 1) / part * part) {
      state = next(state, tick);
    }
  }
  std::vector<Dual> pulled(static_cast<size_t>(for_inputs ? ticks.count() : 0));
  for (size_t i = starts.size(); i-- > 0;) {
    const int64_t begin = static_cast<int64_t>(i) * part;
    const int64_t end = std::min(begin + part, ticks.count());
    std::vector<State> states{starts[i]};
    for (int64_t tick = begin; tick + 1 < end; ++tick) {
      states.push_back(next(states.back(), tick));
    }
    for (int64_t tick = end - 1; tick >= begin; --tick) {
      const Dual grad = outputs.defined() ? ticks.at_tick(outputs, tick) : outputs;
      Ticks::Pulled before = ticks.pull(states[static_cast<size_t>(tick - begin)], tick, grad, after, for_inputs);
      if (for_inputs) {
        pulled[static_cast<size_t>(tick)] = before.x;
      }
      after = before.state;
    }
  }
  return {std::move(pulled), std::move(after)};
}

// The gradient of the state after all ticks: copies, since without ticks they are results, which are never arguments.
State last_gradient(const Ticks& ticks, const PlasticGradients& grads) {
  const auto or_zeros = [](const Tensor& grad, const Tensor& like) {
    return grad.defined() ? grad.to(like.scalar_type()).clone() : at::zeros_like(like);
  };
  const State& first = ticks.first();
  return {or_zeros(grads.weight, first.weight.value),
          or_zeros(ticks.learns_theta() ? grads.theta : Tensor(), first.theta.value)};
}

// Of the gradient of the weights, so that it has a history wherever the others have one.
Tensor none_of(const Tensor& weight) {
  return weight.slice(-2, 0, 0).sum(-1);
}

// What part_of(gradient) is of the gradients of inputs, weight and theta.
template <typename PartOf>
PlasticResults pulled_through(const PlasticOptions& options, const PlasticTensors& tensors,
                              const PlasticGradients& grads, const PlasticTensors& direction, bool for_inputs,
                              bool keeps_all, const PartOf& part_of) {
  const Ticks ticks(options, arguments_of(options, tensors, direction));
  const State after = last_gradient(ticks, grads);
  const Tensor outputs = grads.outputs.defined() ? grads.outputs.to(after.weight.value.scalar_type()) : grads.outputs;
  const auto [pulled, state] = pull_back(ticks, outputs, after, for_inputs, keeps_all);
  const Tensor weight = part_of(state.weight);
  const Tensor none = none_of(weight);
  std::vector<Tensor> inputs;
  for (const Dual& tick : pulled) {
    inputs.push_back(part_of(tick));
  }
  return {for_inputs ? ticks.spread(inputs) : none, weight, ticks.learns_theta() ? part_of(state.theta) : none};
}

}  // namespace

PlasticResults compose_curvature(const PlasticOptions& options, const PlasticTensors& tensors,
                                 const PlasticGradients& grads, const PlasticTensors& direction, bool for_inputs,
                                 bool keeps_all) {
  return pulled_through(options, tensors, grads, direction, for_inputs, keeps_all,
                        [](const Dual& own) { return own.moved.defined() ? own.moved : at::zeros_like(own.value); });
}

PlasticResults compose_gradient(const PlasticOptions& options, const PlasticTensors& tensors,
                                const PlasticGradients& grads, bool for_inputs) {
  return pulled_through(options, tensors, grads, {}, for_inputs, /*keeps_all=*/false,
                        [](const Dual& own) { return own.value; });
}

PlasticResults compose_jvp(const PlasticOptions& options, const PlasticTensors& tensors,
                           const PlasticTensors& tangents) {
  Arguments arguments = arguments_of(options, tensors, tangents);
  for (Dual* const x : {&arguments.first.weight, &arguments.first.theta}) {
    // Copies: without ticks they are results, which are never arguments.
    x->moved = x->moved.defined() ? x->moved.clone() : at::zeros_like(x->value);
  }
  const Ticks ticks(options, arguments);
  State state = ticks.first();
  std::vector<Tensor> outputs;
  for (int64_t tick = 0; tick < ticks.count(); ++tick) {
    const Dual y = ticks.outputs(state, tick);
    state = ticks.next(state, tick, y);
    outputs.push_back(y.moved);
  }
  const Tensor none = none_of(state.weight.moved);
  return {ticks.gathered(outputs), state.weight.moved, ticks.learns_theta() ? state.theta.moved : none};
}

}  // namespace torch_hrr::hierarchy
