// The first derivative of plastic_scan as an operator, and the formula that calls it.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <array>
#include <tuple>

#include "csrc/execute.h"
#include "csrc/hierarchy/plastic.h"
#include "csrc/operator.h"
#include "kernels/hierarchy/plastic_backward.h"

namespace torch_hrr::hierarchy {
namespace {

using at::Tensor;
using kernels::LearningRule;
using kernels::PlasticBackwardParams;

// The gradient is linear in those of the results: for them, its transpose is the tangent of plastic_scan. For the
// arguments, it moves by the curvature, which is symmetric.
struct BackwardFormula {
  static constexpr size_t kResults = 3;
  PlasticOptions options;
  bool for_inputs;

  // The tangent is of the arguments alone.
  bool reads(size_t input, const Wanted& wanted) const {
    return input < 3 || wanted[0] || wanted[1] || wanted[2];
  }
  variable_list backward(const Saved& inputs, const variable_list& grads, const Wanted& wanted) const;
  variable_list jvp(const Saved& inputs, const variable_list& tangents) const;

  PlasticTensors direction(const Tensor& of_inputs, const Tensor& of_weight, const Tensor& of_theta) const {
    return {of_inputs, of_weight, options.rule == LearningRule::kBcm ? of_theta : Tensor()};
  }
  PlasticResults curvature(const Saved& inputs, const PlasticTensors& direction, bool wants_inputs) const {
    return compose_curvature(options, {inputs[0], inputs[1], inputs[2]}, {inputs[3], inputs[4], inputs[5]}, direction,
                             wants_inputs, /*keeps_all=*/at::GradMode::is_enabled());
  }
};

// The gradients of inputs, weight and theta from those of the results, absent ones being 0; without for_inputs the
// first is [..., 0].
struct PlasticScanBackward : Operator {
  static constexpr const char* kName = "_plastic_scan_backward";
  static constexpr Operand kOperands[] = {{"inputs", kBatchedTogether}, {"weight", 2},      {"theta", 1},
                                          {"grad_outputs", 2},          {"grad_weight", 2}, {"grad_theta", 1}};
  using Signature = PlasticResults(const Tensor& inputs, const Tensor& weight, const OptionalTensor& theta,
                                   const OptionalTensor& grad_outputs, const OptionalTensor& grad_weight,
                                   const OptionalTensor& grad_theta, bool for_inputs, std::string_view rule, double lr,
                                   std::string_view activation, int64_t every, double tau, double decay, bool normalize,
                                   double temperature, double losers, bool scaled, double power);
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ScanContract<Int> contract(const Tensor& inputs, const Tensor& weight, const OptionalTensor& theta,
                                    const OptionalTensor& grad_outputs, const OptionalTensor& grad_weight,
                                    const OptionalTensor& grad_theta, bool for_inputs, const auto&... numbers) {
    const PlasticOptions options = options_of(kName, numbers...);
    ScanContract<Int> results = scan_contract<Int>(kName, options, inputs, weight, theta);
    at::ScalarType type = results[0].dtype;
    const Argument first{"inputs", inputs};
    check_derivative<Int>(kName, first, {"grad_outputs", lanes::tensor_of(grad_outputs)}, results[0].sizes, type);
    check_derivative<Int>(kName, first, {"grad_weight", lanes::tensor_of(grad_weight)}, results[1].sizes, type);
    check_derivative<Int>(kName, first, {"grad_theta", lanes::tensor_of(grad_theta)}, results[2].sizes, type);
    const c10::ArrayRef<Int> given = sizes_of<Int>(inputs);
    results[0].sizes = Sizes<Int>(given.begin(), given.end());
    if (!for_inputs) {
      results[0].sizes.resize(static_cast<size_t>(weight.dim()) - 1);
      results[0].sizes.back() = Int(0);
    }
    for (ResultContract<Int>& result : results) {
      result.dtype = type;
    }
    return results;
  }

  static void run(const ScanContract<int64_t>& contract, const PlasticResults& results, const Tensor& inputs,
                  const Tensor& weight, const OptionalTensor& theta, const OptionalTensor& grad_outputs,
                  const OptionalTensor& grad_weight, const OptionalTensor& grad_theta, bool for_inputs,
                  const auto&... numbers) {
    const PlasticOptions options = options_of(kName, numbers...);
    const auto& [of_inputs, of_weight, of_theta] = results;
    if (options.rule == LearningRule::kSoftHebb) {
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      const at::ScalarType type = compute_type(contract[0].dtype);
      const auto [own_inputs, own_weight, none] =
          compose_gradient(options, {inputs.to(type), weight.to(type), {}},
                           {lanes::tensor_of(grad_outputs), lanes::tensor_of(grad_weight), {}}, for_inputs);
      of_inputs.copy_(own_inputs);
      of_weight.copy_(own_weight);
      return;
    }
    const PlasticCall own(options, inputs, weight, contract[0].dtype);
    PlasticBackwardParams params;
    params.scan = own.params;
    const Tensor own_weight = own.padded(weight);
    params.weight = own_weight.const_data_ptr();
    Tensor own_outputs;
    if (is_given(grad_outputs)) {
      own_outputs = grad_outputs->to(own.type).contiguous();
      params.grad_outputs = own_outputs.const_data_ptr();
    }
    const Tensor changed = own.moving_weight(grad_weight, own_weight);
    params.grad_weight = changed.mutable_data_ptr();
    Tensor own_theta;
    const Tensor thresholds = own.moving_theta(grad_theta, of_theta.sizes());
    if (options.rule == LearningRule::kBcm) {
      own_theta = own.first_theta(weight, theta);
      params.theta = own_theta.const_data_ptr();
      params.grad_theta = thresholds.mutable_data_ptr();
    }
    Tensor sums;
    // A GPU adds the blocks of units itself, and coupled units are one.
    const int64_t blocks =
        inputs.is_cpu() && !params.scan.coupled() ? kernels::plastic_backward_blocks(params.scan.units, for_inputs) : 1;
    if (for_inputs) {
      Sizes<int64_t> sizes{blocks};
      sizes.append(own.ticks.sizes().begin(), own.ticks.sizes().end());
      sums = at::empty(sizes, own.ticks.options());
      params.grad_inputs = sums.mutable_data_ptr();
    }
    if (params.scan.learners * params.scan.ticks * params.scan.units > 0) {
      execute(params, blocks, changed);
    }
    const int64_t size = weight.size(-1);
    if (for_inputs) {
      if (own.every > 1 || params.scan.units == 0) {
        of_inputs.zero_();
      }
      if (params.scan.units > 0) {
        const Tensor total = sums[0];
        for (int64_t block = 1; block < blocks; ++block) {
          total.add_(sums[block]);
        }
        of_inputs.slice(own.time, 0, std::nullopt, own.every).copy_(total.slice(-1, 0, size));
      }
    }
    of_weight.copy_(changed.slice(-1, 0, size));
    of_theta.copy_(thresholds);
  }

  static void execute(const PlasticBackwardParams& params, int64_t blocks, const Tensor& of_weight) {
    const auto with = [&](const auto& tables) {
      execute_rows(params, params.scan.learners * blocks, of_weight,
                   of_weight.scalar_type() == at::kDouble ? tables.of_double : tables.of_float);
    };
    params.scan.coupled() ? with(kernels::kernel_table<kernels::CoupledBackwardKernels>())
                          : with(kernels::kernel_table<kernels::PlasticBackwardKernels>());
  }

  using Formula = BackwardFormula;
  static Formula formula(const Tensor&, const Tensor&, const OptionalTensor&, const OptionalTensor&,
                         const OptionalTensor&, const OptionalTensor&, bool for_inputs, const auto&... numbers) {
    return {options_of(kName, numbers...), for_inputs};
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<PlasticScanBackward>(m);
}

// The gradients of a call's arguments, the first three of `inputs`.
PlasticResults gradients_of(const PlasticOptions& options, const Saved& inputs, const PlasticGradients& grads,
                            bool for_inputs) {
  return call_with<PlasticScanBackward>(
      options, inputs[0], inputs[1], optional_of(inputs[2]), optional_of(grads.outputs), optional_of(grads.weight),
      options.rule == LearningRule::kBcm ? optional_of(grads.theta) : std::nullopt, for_inputs);
}

variable_list BackwardFormula::backward(const Saved& inputs, const variable_list& grads, const Wanted& wanted) const {
  const PlasticTensors along = direction(for_inputs ? grads[0] : Tensor(), grads[1], grads[2]);
  variable_list results(6);
  if (wanted[0] || wanted[1] || wanted[2]) {
    std::tie(results[0], results[1], results[2]) = curvature(inputs, along, wanted[0]);
  }
  if (wanted[3] || wanted[4] || wanted[5]) {
    std::tie(results[3], results[4], results[5]) = tangents_of(options, {inputs[0], inputs[1], inputs[2]}, along);
  }
  return results;
}

variable_list BackwardFormula::jvp(const Saved& inputs, const variable_list& tangents) const {
  const auto given = [&](size_t first) {
    return tangents[first].defined() || tangents[first + 1].defined() || tangents[first + 2].defined();
  };
  std::array<Tensor, 3> moved;
  const auto add = [&](const PlasticResults& part) {
    const auto& [of_inputs, of_weight, of_theta] = part;
    size_t i = 0;
    for (const Tensor& each : {of_inputs, of_weight, of_theta}) {
      moved[i] = moved[i].defined() ? moved[i] + each : each;
      ++i;
    }
  };
  if (given(0)) {
    add(curvature(inputs, direction(tangents[0], tangents[1], tangents[2]), for_inputs));
  }
  if (given(3)) {
    add(gradients_of(options, inputs, {tangents[3], tangents[4], tangents[5]}, for_inputs));
  }
  return {moved[0], moved[1], moved[2]};
}

}  // namespace

variable_list PlasticFormula::backward(const Saved& inputs, const variable_list& grads, const Wanted& wanted) const {
  const auto [of_inputs, of_weight, of_theta] =
      gradients_of(options, inputs, {grads[0], grads[1], grads[2]}, wanted[0]);
  return {wanted[0] ? of_inputs : Tensor(), wanted[1] ? of_weight : Tensor(), wanted[2] ? of_theta : Tensor()};
}

}  // namespace torch_hrr::hierarchy
