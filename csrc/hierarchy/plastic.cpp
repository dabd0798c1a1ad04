// plastic_scan: a layer that learns at every tick by a local rule.
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "csrc/execute.h"
#include "csrc/hierarchy/plastic.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "kernels/hierarchy/plastic_rows.h"

namespace torch_hrr::hierarchy {

PlasticOptions options_of(const char* op, std::string_view rule, double lr, std::string_view activation, int64_t every,
                          double tau, double decay, bool normalize, double temperature, double losers, bool scaled,
                          double power) {
  const PlasticOptions options{choice<kernels::LearningRule>(op, "rule", rule, kRules),
                               lr,
                               choice<kernels::Activation>(op, "activation", activation, kActivations),
                               std::min(every, kMostBetween),
                               tau,
                               decay,
                               normalize,
                               temperature,
                               losers,
                               scaled,
                               power};
  TORCH_CHECK_VALUE(std::isfinite(lr) && lr >= 0, op, ": lr must be finite and at least 0, got ", lr);
  TORCH_CHECK_VALUE(every >= 1, op, ": every must be at least 1, got ", every);
  // With 1 a unit that is silent once would have theta 0 for good.
  TORCH_CHECK_VALUE(std::isfinite(tau) && tau > 1, op, ": tau must be finite and above 1, got ", tau);
  TORCH_CHECK_VALUE(std::isfinite(decay) && decay >= 0, op, ": decay must be finite and at least 0, got ", decay);
  TORCH_CHECK_VALUE(std::isfinite(temperature) && temperature > 0, op, ": temperature must be finite and above 0, got ",
                    temperature);
  TORCH_CHECK_VALUE(std::isfinite(losers), op, ": losers must be finite, got ", losers);
  TORCH_CHECK_VALUE(std::isfinite(power) && power >= 0, op, ": power must be finite and at least 0, got ", power);
  return options;
}

void check_factors(const char* op, const PlasticOptions& options, at::ScalarType type) {
  if (compute_type(type) == at::kDouble) {
    return;
  }
  for (const auto& [name, value] :
       {std::pair{"lr", options.lr}, std::pair{"decay", options.decay}, std::pair{"temperature", options.temperature},
        std::pair{"losers", options.losers}, std::pair{"power", options.power}}) {
    TORCH_CHECK_VALUE(std::isfinite(static_cast<float>(value)), op, ": ", name, " must be finite in float32, got ",
                      value);
  }
  TORCH_CHECK_VALUE(static_cast<float>(options.temperature) >= std::numeric_limits<float>::min(), op,
                    ": temperature must be above 0 in float32, got ", options.temperature);
}

PlasticCall::PlasticCall(const PlasticOptions& options, const at::Tensor& inputs, const at::Tensor& weight,
                         at::ScalarType result_type)
    : type(compute_type(result_type)), time(weight.dim() - 2), every(steps_between(options.every, inputs.size(time))) {
  const int64_t size = weight.size(-1);
  padding = (kernels::kRowPadding - size % kernels::kRowPadding) % kernels::kRowPadding;
  ticks = at_ticks(inputs);
  params.learners = product_of(weight.sizes().slice(0, static_cast<size_t>(time)));
  params.ticks = ticks.size(time);
  // A batch is one dimension more than the weights have.
  params.batch = inputs.dim() > weight.dim() ? ticks.size(-2) : 1;
  params.units = weight.size(-2);
  params.size = size + padding;
  params.rule = options.rule;
  params.activation = options.activation;
  params.rate = options.lr;
  params.tau = options.tau;
  params.decay = options.decay;
  params.normalize = options.normalize;
  params.inputs = ticks.const_data_ptr();
}

at::Tensor PlasticCall::padded(const at::Tensor& rows) const {
  const at::Tensor typed = rows.to(type);
  return padding == 0 ? typed.contiguous() : at::constant_pad_nd(typed, {0, padding});
}

at::Tensor PlasticCall::at_ticks(const at::Tensor& inputs) const {
  return padded(inputs.slice(time, 0, std::nullopt, every));
}

at::Tensor PlasticCall::first_theta(const at::Tensor& weight, const OptionalTensor& theta) const {
  return is_given(theta)
             ? theta->to(type).contiguous()
             : at::ones(weight.sizes().slice(0, static_cast<size_t>(time) + 1), weight.options().dtype(type));
}

at::Tensor PlasticCall::moving_weight(const OptionalTensor& derivative, const at::Tensor& padded_weight) const {
  return is_given(derivative) ? padded(*derivative).clone() : at::zeros_like(padded_weight);
}

at::Tensor PlasticCall::moving_theta(const OptionalTensor& derivative, at::IntArrayRef sizes) const {
  const at::Tensor moving = at::zeros(sizes, ticks.options());
  if (is_given(derivative)) {
    moving.copy_(*derivative);
  }
  return moving;
}

namespace {

using at::Tensor;
using kernels::CompetingKernels;
using kernels::CompetingParams;
using kernels::LearningRule;
using kernels::PlasticKernels;
using kernels::PlasticParams;

struct PlasticScan : Operator {
  static constexpr const char* kName = "plastic_scan";
  static constexpr Operand kOperands[] = {{"inputs", kBatchedTogether}, {"weight", 2}, {"theta", 1}};
  using Signature = PlasticResults(const Tensor& inputs, const Tensor& weight, std::string_view rule, double lr,
                                   std::string_view activation, int64_t every, const OptionalTensor& theta, double tau,
                                   double decay, bool normalize, double temperature, double losers, bool scaled,
                                   double power);
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ScanContract<Int> contract(const Tensor& inputs, const Tensor& weight, std::string_view rule, double lr,
                                    std::string_view activation, int64_t every, const OptionalTensor& theta, double tau,
                                    const auto&... more) {
    return scan_contract<Int>(kName, options_of(kName, rule, lr, activation, every, tau, more...), inputs, weight,
                              theta);
  }

  static void run(const ScanContract<int64_t>& contract, const PlasticResults& results, const Tensor& inputs,
                  const Tensor& weight, std::string_view rule, double lr, std::string_view activation, int64_t every,
                  const OptionalTensor& theta, double tau, const auto&... more) {
    const PlasticOptions options = options_of(kName, rule, lr, activation, every, tau, more...);
    const auto& [outputs, changed, thresholds] = results;
    check_theta(theta);
    // Kernels work on padded rows of their compute type, in place where the result is that already.
    PlasticCall own(options, inputs, weight, contract[0].dtype);
    const auto place_for = [&](const Tensor& result) {
      return result.scalar_type() == own.type ? result : at::empty(result.sizes(), result.options().dtype(own.type));
    };
    const Tensor own_outputs = place_for(outputs);
    Tensor own_weight = place_for(changed);
    if (own.padding == 0) {
      own_weight.copy_(weight);
    } else {
      own_weight = own.padded(weight);
    }
    const Tensor own_thresholds = place_for(thresholds);
    if (options.rule == LearningRule::kBcm) {
      is_given(theta) ? own_thresholds.copy_(*theta) : own_thresholds.fill_(1);
    }
    PlasticParams& params = own.params;
    Tensor residual;
    if (params.coupled()) {
      residual = at::empty({params.learners, params.batch, params.size}, own.ticks.options());
      params.residual = residual.mutable_data_ptr();
    }
    params.weight = own_weight.mutable_data_ptr();
    params.theta = options.rule == LearningRule::kBcm ? own_thresholds.mutable_data_ptr() : nullptr;
    params.outputs = own_outputs.mutable_data_ptr();
    if (params.learners * params.ticks * params.units > 0) {
      const auto rows_of = [&](const auto& tables) {
        return own.type == at::kDouble ? tables.of_double : tables.of_float;
      };
      if (options.rule == LearningRule::kSoftHebb) {
        execute_rows(CompetingParams{params, options.temperature, options.losers, options.scaled, options.power},
                     params.learners, own_outputs, rows_of(kernels::kernel_table<CompetingKernels>()));
      } else {
        execute_rows(params, kernels::plastic_rows(params), own_outputs,
                     rows_of(kernels::kernel_table<PlasticKernels>()));
      }
    }
    const auto keep = [](const Tensor& result, const Tensor& computed) {
      if (!result.is_same(computed)) {
        result.copy_(computed);
      }
    };
    keep(outputs, own_outputs);
    keep(changed, own_weight.slice(-1, 0, weight.size(-1)));
    keep(thresholds, own_thresholds);
    // Rounded to 0, a threshold would be refused by the next call.
    if (options.rule == LearningRule::kBcm && (thresholds.scalar_type() != own.type || tau <= 2)) {
      thresholds.masked_fill_(thresholds.eq(0), smallest_normal(thresholds.scalar_type()));
    }
  }

  using Formula = PlasticFormula;
  static Formula formula(const Tensor&, const Tensor&, std::string_view rule, double lr, std::string_view activation,
                         int64_t every, const OptionalTensor&, double tau, const auto&... more) {
    return {options_of(kName, rule, lr, activation, every, tau, more...)};
  }

 private:
  static double smallest_normal(at::ScalarType type) {
    return type == at::kHalf ? 0x1p-14 : type == at::kDouble ? 0x1p-1022 : 0x1p-126;
  }

  // On a GPU, looking would wait for it.
  static void check_theta(const OptionalTensor& theta) {
    if (is_given(theta) && theta->is_cpu()) {
      const Tensor bad = at::logical_not(at::logical_and(theta->isfinite(), theta->gt(0)));
      TORCH_CHECK_VALUE(!bad.any().item<bool>(), kName, ": theta must be finite and above 0, got ",
                        theta->masked_select(bad)[0].item<double>());
    }
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<PlasticScan>(m);
}

}  // namespace
}  // namespace torch_hrr::hierarchy

namespace torch_hrr {

std::tuple<at::Tensor, at::Tensor, at::Tensor> plastic_scan(const at::Tensor& inputs, const at::Tensor& weight,
                                                            std::string_view rule, double lr,
                                                            std::string_view activation, int64_t every,
                                                            const std::optional<at::Tensor>& theta, double tau,
                                                            double decay, bool normalize, double temperature,
                                                            double losers, bool scaled, double power) {
  return call<hierarchy::PlasticScan>(inputs, weight, rule, lr, activation, every, theta, tau, decay, normalize,
                                      temperature, losers, scaled, power);
}

}  // namespace torch_hrr
