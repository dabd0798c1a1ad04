// The tangents of plastic_scan as an operator, and the formula that calls it.
#include <ATen/ops/zeros.h>

#include "csrc/execute.h"
#include "csrc/hierarchy/plastic.h"
#include "csrc/operator.h"
#include "kernels/hierarchy/plastic_rows.h"
#include "kernels/hierarchy/plastic_tangent.h"

namespace torch_hrr::hierarchy {
namespace {

using at::Tensor;
using kernels::LearningRule;
using kernels::PlasticTangentParams;

// The tangents of outputs, weight and theta from those of the arguments, absent ones being 0.
struct PlasticScanTangent : Operator {
  static constexpr const char* kName = "_plastic_scan_tangent";
  static constexpr Operand kOperands[] = {{"inputs", kBatchedTogether}, {"weight", 2},         {"theta", 1},
                                          {"tangent_inputs", 2},        {"tangent_weight", 2}, {"tangent_theta", 1}};
  using Signature = PlasticResults(const Tensor& inputs, const Tensor& weight, const OptionalTensor& theta,
                                   const OptionalTensor& tangent_inputs, const OptionalTensor& tangent_weight,
                                   const OptionalTensor& tangent_theta, std::string_view rule, double lr,
                                   std::string_view activation, int64_t every, double tau, double decay, bool normalize,
                                   double temperature, double losers, bool scaled, double power);
  static constexpr Derivative kDerivative = Derivative::kComposition;

  template <typename Int>
  static ScanContract<Int> contract(const Tensor& inputs, const Tensor& weight, const OptionalTensor& theta,
                                    const OptionalTensor& tangent_inputs, const OptionalTensor& tangent_weight,
                                    const OptionalTensor& tangent_theta, const auto&... numbers) {
    const PlasticOptions options = options_of(kName, numbers...);
    ScanContract<Int> results = scan_contract<Int>(kName, options, inputs, weight, theta);
    at::ScalarType type = results[0].dtype;
    const Argument first{"inputs", inputs};
    const c10::ArrayRef<Int> given = sizes_of<Int>(inputs);
    check_derivative<Int>(kName, first, {"tangent_inputs", lanes::tensor_of(tangent_inputs)},
                          Sizes<Int>(given.begin(), given.end()), type);
    check_derivative<Int>(kName, first, {"tangent_weight", lanes::tensor_of(tangent_weight)}, results[1].sizes, type);
    check_derivative<Int>(kName, first, {"tangent_theta", lanes::tensor_of(tangent_theta)}, results[2].sizes, type);
    for (ResultContract<Int>& result : results) {
      result.dtype = type;
    }
    return results;
  }

  static void run(const ScanContract<int64_t>& contract, const PlasticResults& results, const Tensor& inputs,
                  const Tensor& weight, const OptionalTensor& theta, const OptionalTensor& tangent_inputs,
                  const OptionalTensor& tangent_weight, const OptionalTensor& tangent_theta, const auto&... numbers) {
    const PlasticOptions options = options_of(kName, numbers...);
    const auto& [outputs, of_weight, of_theta] = results;
    if (options.rule == LearningRule::kSoftHebb) {
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      const at::ScalarType type = compute_type(contract[0].dtype);
      const auto [own_outputs, own_weight, none] =
          compose_jvp(options, {inputs.to(type), weight.to(type), {}},
                      {lanes::tensor_of(tangent_inputs), lanes::tensor_of(tangent_weight), {}});
      outputs.copy_(own_outputs);
      of_weight.copy_(own_weight);
      return;
    }
    const PlasticCall own(options, inputs, weight, contract[0].dtype);
    PlasticTangentParams params;
    params.scan = own.params;
    const Tensor own_weight = own.padded(weight);
    params.weight = own_weight.const_data_ptr();
    Tensor own_inputs;
    if (is_given(tangent_inputs)) {
      own_inputs = own.at_ticks(*tangent_inputs);
      params.tangent_inputs = own_inputs.const_data_ptr();
    }
    const Tensor changed = own.moving_weight(tangent_weight, own_weight);
    params.tangent_weight = changed.mutable_data_ptr();
    Tensor own_theta;
    const Tensor thresholds = own.moving_theta(tangent_theta, of_theta.sizes());
    if (options.rule == LearningRule::kBcm) {
      own_theta = own.first_theta(weight, theta);
      params.theta = own_theta.const_data_ptr();
      params.tangent_theta = thresholds.mutable_data_ptr();
    }
    const Tensor own_outputs = at::empty(outputs.sizes(), own_weight.options());
    params.tangent_outputs = own_outputs.mutable_data_ptr();
    if (params.scan.learners * params.scan.ticks * params.scan.units > 0) {
      execute(params, changed);
    }
    outputs.copy_(own_outputs);
    of_weight.copy_(changed.slice(-1, 0, weight.size(-1)));
    of_theta.copy_(thresholds);
  }

  static void execute(const PlasticTangentParams& params, const Tensor& of_weight) {
    const auto with = [&](const auto& tables) {
      execute_rows(params, kernels::plastic_rows(params.scan), of_weight,
                   of_weight.scalar_type() == at::kDouble ? tables.of_double : tables.of_float);
    };
    params.scan.coupled() ? with(kernels::kernel_table<kernels::CoupledTangentKernels>())
                          : with(kernels::kernel_table<kernels::PlasticTangentKernels>());
  }

  static PlasticResults compose(const Tensor& inputs, const Tensor& weight, const OptionalTensor& theta,
                                const OptionalTensor& tangent_inputs, const OptionalTensor& tangent_weight,
                                const OptionalTensor& tangent_theta, const auto&... numbers) {
    return compose_jvp(
        options_of(kName, numbers...), {inputs, weight, lanes::tensor_of(theta)},
        {lanes::tensor_of(tangent_inputs), lanes::tensor_of(tangent_weight), lanes::tensor_of(tangent_theta)});
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<PlasticScanTangent>(m);
}

}  // namespace

PlasticResults tangents_of(const PlasticOptions& options, const PlasticTensors& tensors,
                           const PlasticTensors& tangents) {
  return call_with<PlasticScanTangent>(options, tensors.inputs, tensors.weight, optional_of(tensors.theta),
                                       optional_of(tangents.inputs), optional_of(tangents.weight),
                                       optional_of(tangents.theta));
}

variable_list PlasticFormula::jvp(const Saved& inputs, const variable_list& tangents) const {
  const auto [outputs, weight, theta] =
      tangents_of(options, {inputs[0], inputs[1], inputs[2]}, {tangents[0], tangents[1], tangents[2]});
  return {outputs, weight, theta};
}

}  // namespace torch_hrr::hierarchy
