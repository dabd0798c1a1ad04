// plastic_scan and its derivatives: options, contract, operands of kernels, and as compositions of differentiable
// operators what has no kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "csrc/autograd.h"
#include "csrc/contract.h"
#include "csrc/operator.h"
#include "csrc/rows.h"
#include "csrc/types.h"
#include "kernels/hierarchy/competition.h"
#include "kernels/hierarchy/plastic_backward.h"
#include "kernels/hierarchy/plastic_tangent.h"

namespace torch_hrr::hierarchy {

constexpr Choice<kernels::LearningRule> kRules[] = {
    {"hebb", kernels::LearningRule::kHebb}, {"oja", kernels::LearningRule::kOja},
    {"gha", kernels::LearningRule::kGha},   {"subspace", kernels::LearningRule::kSubspace},
    {"bcm", kernels::LearningRule::kBcm},   {"softhebb", kernels::LearningRule::kSoftHebb}};
constexpr Choice<kernels::Activation> kActivations[] = {{"linear", kernels::Activation::kLinear},
                                                        {"relu", kernels::Activation::kRelu},
                                                        {"tanh", kernels::Activation::kTanh}};

// The arguments that are no tensors.
struct PlasticOptions {
  kernels::LearningRule rule;
  double lr;
  kernels::Activation activation;
  int64_t every;
  double tau;
  double decay;
  bool normalize;
  double temperature;
  double losers;
  bool scaled;
  double power;
};
// Beyond this no sequence has a second tick, and sums with it still fit.
constexpr int64_t kMostBetween = int64_t{1} << 61;
PlasticOptions options_of(const char* op, std::string_view rule, double lr, std::string_view activation, int64_t every,
                          double tau, double decay, bool normalize, double temperature, double losers, bool scaled,
                          double power);
// Calls an operator whose last arguments are the options.
template <typename Op, typename... Args>
auto call_with(const PlasticOptions& o, const Args&... args) {
  return call<Op>(args..., name_of(o.rule, kRules), o.lr, name_of(o.activation, kActivations), o.every, o.tau, o.decay,
                  o.normalize, o.temperature, o.losers, o.scaled, o.power);
}

// Steps from one tick to the next as strides take them: never more than there are.
inline int64_t steps_between(int64_t every, int64_t steps) {
  return std::min(every, std::max<int64_t>(steps, 1));
}
// ValueError unless what weights are multiplied by is finite where they are computed, and a temperature above 0 there.
void check_factors(const char* op, const PlasticOptions& options, at::ScalarType type);

// Of outputs, weight and theta.
template <typename Int>
using ScanContract = std::array<ResultContract<Int>, 3>;

template <typename Int>
ScanContract<Int> scan_contract(const char* op, const PlasticOptions& options, const at::Tensor& inputs,
                                const at::Tensor& weight, const OptionalTensor& theta) {
  const Argument first{"inputs", inputs};
  const Argument second{"weight", weight};
  check_floating(op, {first, second});
  check_rank(op, second, 2, "[..., m, n]");
  const int64_t batched = inputs.dim() - weight.dim();
  TORCH_CHECK_VALUE(batched == 0 || batched == 1, op,
                    ": inputs must be [..., T, n] or [..., T, B, n] beside weight [..., m, n], got ", inputs.dim(),
                    " and ", weight.dim(), " dimensions");
  check_not_empty_last<Int>(op, second);
  check_same_last<Int>(op, first, second);
  const c10::ArrayRef<Int> given = sizes_of<Int>(inputs);
  const c10::ArrayRef<Int> own = sizes_of<Int>(weight);
  const size_t leading = own.size() - 2;
  for (size_t i = 0; i < leading; ++i) {
    TORCH_CHECK_VALUE(equal(given[i], own[i]), op, ": inputs and weight must have the same leading dimensions, got ",
                      given[i], " and ", own[i], " at dimension ", i);
  }
  Sizes<Int> outputs(given.begin(), given.end());
  outputs[leading] = (given[leading] + Int(options.every - 1)) / Int(options.every);
  outputs.back() = own[leading];
  if (batched == 1) {
    TORCH_CHECK_VALUE(holds(at_most(Int(1), given[leading + 1])), op, ": inputs must have a batch of at least 1, got ",
                      given[leading + 1]);
  }
  at::ScalarType type = promote(inputs, weight);
  Sizes<Int> thresholds(own.begin(), own.end() - 1);
  if (options.rule != kernels::LearningRule::kBcm) {
    thresholds.back() = Int(0);
  }
  if (is_given(theta)) {
    const Argument third{"theta", *theta};
    check_floating(op, {first, third});
    const c10::ArrayRef<Int> found = sizes_of<Int>(*theta);
    TORCH_CHECK_VALUE(options.rule == kernels::LearningRule::kBcm || same_sizes<Int>(found, thresholds), op,
                      ": theta must be None or empty for rule '", name_of(options.rule, kRules), "', which has none");
    TORCH_CHECK_VALUE(same_sizes<Int>(found, thresholds), op,
                      ": theta must have the shape of weight without its last dimension, got ", found, " beside ", own);
    type = c10::promoteTypes(type, theta->scalar_type());
  }
  check_factors(op, options, type);
  check_numel<Int>(op, outputs);
  Sizes<Int> weights(own.begin(), own.end());
  return {{{outputs, type}, {weights, type}, {thresholds, type}}};
}

// A derivative of an argument or result that has these sizes, if it is given; `type` becomes what it promotes to.
template <typename Int>
void check_derivative(const char* op, const Argument& first, const Argument& given, const Sizes<Int>& sizes,
                      at::ScalarType& type) {
  if (!given.tensor.defined()) {
    return;
  }
  check_floating(op, {first, given});
  const c10::ArrayRef<Int> found = sizes_of<Int>(given.tensor);
  TORCH_CHECK_VALUE(same_sizes<Int>(found, sizes), op, ": ", given.name, " must have the shape ",
                    c10::ArrayRef<Int>(sizes), ", got ", found);
  type = c10::promoteTypes(type, given.tensor.scalar_type());
}

// What kernels take of a call: padded rows of the compute type, and parameters without results.
struct PlasticCall {
  PlasticCall(const PlasticOptions& options, const at::Tensor& inputs, const at::Tensor& weight,
              at::ScalarType result_type);

  at::Tensor padded(const at::Tensor& rows) const;
  // Of the inputs or something of their shape, at the ticks.
  at::Tensor at_ticks(const at::Tensor& inputs) const;
  // The thresholds that bcm begins with.
  at::Tensor first_theta(const at::Tensor& weight, const OptionalTensor& theta) const;
  // A derivative of the weights that a kernel changes in place: a copy, or zeros.
  at::Tensor moving_weight(const OptionalTensor& derivative, const at::Tensor& padded_weight) const;
  // Likewise of the thresholds, with these sizes.
  at::Tensor moving_theta(const OptionalTensor& derivative, at::IntArrayRef sizes) const;

  at::ScalarType type;
  int64_t time;     // the dimension of inputs that is time
  int64_t every;    // as steps_between
  int64_t padding;  // zeros at the end of a row
  at::Tensor ticks;
  kernels::PlasticParams params;
};

// Arguments of a call or derivatives of them, and gradients of its results.
struct PlasticTensors {
  at::Tensor inputs, weight, theta;  // theta may be undefined, of tangents any, which are then 0
};
struct PlasticGradients {
  at::Tensor outputs, weight, theta;  // any may be undefined, and is 0
};
using PlasticResults = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
// How the gradients of inputs, weight and theta for constant `grads` move along `direction`. By the symmetry of second
// derivatives it is also the gradient of the product of `grads` with the tangents of plastic_scan along `direction`.
// Weights are kept of about 2 sqrt(T) ticks at a time, or with `keeps_all` of all, where it is differentiated itself.
// Without for_inputs, their gradient is [..., 0].
PlasticResults compose_curvature(const PlasticOptions& options, const PlasticTensors& tensors,
                                 const PlasticGradients& grads, const PlasticTensors& direction, bool for_inputs,
                                 bool keeps_all);
// The gradients themselves, of rules without a kernel for them; weights are kept of about 2 sqrt(T) ticks at a time.
PlasticResults compose_gradient(const PlasticOptions& options, const PlasticTensors& tensors,
                                const PlasticGradients& grads, bool for_inputs);
// The tangents of the results, for a derivative of them.
PlasticResults compose_jvp(const PlasticOptions& options, const PlasticTensors& tensors,
                           const PlasticTensors& tangents);

// The same by the operator, which has kernels.
PlasticResults tangents_of(const PlasticOptions& options, const PlasticTensors& tensors,
                           const PlasticTensors& tangents);

// The derivatives of a call, by private operators.
struct PlasticFormula {
  static constexpr size_t kResults = 3;
  PlasticOptions options;

  variable_list backward(const Saved& inputs, const variable_list& grads, const Wanted& wanted) const;
  variable_list jvp(const Saved& inputs, const variable_list& tangents) const;
};

}  // namespace torch_hrr::hierarchy
