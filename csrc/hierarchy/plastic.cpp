// plastic_scan: a layer that learns at every tick by a local rule.
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <cmath>

#include "csrc/execute.h"
#include "csrc/hierarchy/plastic.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "csrc/types.h"
#include "kernels/hierarchy/plastic_rows.h"

namespace torch_hrr::hierarchy {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::Activation;
using kernels::LearningRule;
using kernels::PlasticParams;
using Results = std::tuple<Tensor, Tensor, Tensor>;

constexpr Choice<LearningRule> kRules[] = {{"hebb", LearningRule::kHebb},
                                           {"oja", LearningRule::kOja},
                                           {"gha", LearningRule::kGha},
                                           {"subspace", LearningRule::kSubspace},
                                           {"bcm", LearningRule::kBcm}};
constexpr Choice<Activation> kActivations[] = {
    {"linear", Activation::kLinear}, {"relu", Activation::kRelu}, {"tanh", Activation::kTanh}};

PlasticOptions options_of(const char* op, std::string_view rule, double lr, std::string_view activation, int64_t every,
                          double tau, double decay, bool normalize) {
  const PlasticOptions options{choice<LearningRule>(op, "rule", rule, kRules),
                               lr,
                               choice<Activation>(op, "activation", activation, kActivations),
                               every,
                               tau,
                               decay,
                               normalize};
  TORCH_CHECK_VALUE(std::isfinite(lr) && lr >= 0, op, ": lr must be finite and at least 0, got ", lr);
  TORCH_CHECK_VALUE(every >= 1, op, ": every must be at least 1, got ", every);
  // With 1 a unit that is silent once would have theta 0 for good.
  TORCH_CHECK_VALUE(std::isfinite(tau) && tau > 1, op, ": tau must be finite and above 1, got ", tau);
  TORCH_CHECK_VALUE(std::isfinite(decay) && decay >= 0, op, ": decay must be finite and at least 0, got ", decay);
  return options;
}

// Whether inputs have a batch within every tick: one dimension more than the weights.
bool has_batch(const Tensor& inputs, const Tensor& weight) {
  return inputs.dim() > weight.dim();
}

struct PlasticScan : Operator {
  static constexpr const char* kName = "plastic_scan";
  static constexpr Operand kOperands[] = {{"inputs", kBatchedTogether}, {"weight", 2}, {"theta", 1}};
  using Signature = Results(const Tensor& inputs, const Tensor& weight, std::string_view rule, double lr,
                            std::string_view activation, int64_t every, const OptionalTensor& theta, double tau,
                            double decay, bool normalize);
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static std::array<ResultContract<Int>, 3> contract(const Tensor& inputs, const Tensor& weight, std::string_view rule,
                                                     double lr, std::string_view activation, int64_t every,
                                                     const OptionalTensor& theta, double tau, double decay,
                                                     bool normalize) {
    const PlasticOptions options = options_of(kName, rule, lr, activation, every, tau, decay, normalize);
    const Argument first{"inputs", inputs};
    const Argument second{"weight", weight};
    check_floating(kName, {first, second});
    check_rank(kName, second, 2, "[..., m, n]");
    const int64_t batched = inputs.dim() - weight.dim();
    TORCH_CHECK_VALUE(batched == 0 || batched == 1, kName,
                      ": inputs must be [..., T, n] or [..., T, B, n] beside weight [..., m, n], got ", inputs.dim(),
                      " and ", weight.dim(), " dimensions");
    check_not_empty_last<Int>(kName, second);
    check_same_last<Int>(kName, first, second);
    const c10::ArrayRef<Int> given = sizes_of<Int>(inputs);
    const c10::ArrayRef<Int> own = sizes_of<Int>(weight);
    const size_t leading = own.size() - 2;
    for (size_t i = 0; i < leading; ++i) {
      TORCH_CHECK_VALUE(equal(given[i], own[i]), kName,
                        ": inputs and weight must have the same leading dimensions, got ", given[i], " and ", own[i],
                        " at dimension ", i);
    }
    Sizes<Int> outputs(given.begin(), given.end());
    outputs[leading] = (given[leading] + Int(every - 1)) / Int(every);
    outputs.back() = own[leading];
    if (batched == 1) {
      TORCH_CHECK_VALUE(holds(at_most(Int(1), given[leading + 1])), kName,
                        ": inputs must have a batch of at least 1, got ", given[leading + 1]);
    }
    at::ScalarType type = promote(inputs, weight);
    Sizes<Int> thresholds(own.begin(), own.end() - 1);
    if (is_given(theta)) {
      TORCH_CHECK_VALUE(options.rule == LearningRule::kBcm, kName, ": theta must be None for rule '", rule,
                        "', which has none");
      const Argument third{"theta", *theta};
      check_floating(kName, {first, third});
      const c10::ArrayRef<Int> found = sizes_of<Int>(*theta);
      bool fits = found.size() == thresholds.size();
      for (size_t i = 0; fits && i < found.size(); ++i) {
        fits = equal(found[i], thresholds[i]);
      }
      TORCH_CHECK_VALUE(fits, kName, ": theta must have the shape of weight without its last dimension, got ", found,
                        " beside ", own);
      type = c10::promoteTypes(type, theta->scalar_type());
    } else if (options.rule != LearningRule::kBcm) {
      thresholds.back() = Int(0);
    }
    check_numel<Int>(kName, outputs);
    Sizes<Int> weights(own.begin(), own.end());
    return {{{outputs, type}, {weights, type}, {thresholds, type}}};
  }

  static void run(const std::array<ResultContract<int64_t>, 3>& contract, const Results& results, const Tensor& inputs,
                  const Tensor& weight, std::string_view rule, double lr, std::string_view activation, int64_t every,
                  const OptionalTensor& theta, double tau, double decay, bool normalize) {
    const PlasticOptions options = options_of(kName, rule, lr, activation, every, tau, decay, normalize);
    const auto& [outputs, changed, thresholds] = results;
    const at::ScalarType type = compute_type(contract[0].dtype);
    check_theta(theta);
    // Kernels work on padded rows of their compute type, in place where the result is that already.
    const int64_t size = weight.size(-1);
    const int64_t padding = (kernels::kRowPadding - size % kernels::kRowPadding) % kernels::kRowPadding;
    const auto prepared = [&](const Tensor& rows) {
      const Tensor typed = rows.to(type);
      return padding == 0 ? typed.contiguous() : at::constant_pad_nd(typed, {0, padding});
    };
    const auto place_for = [&](const Tensor& result) {
      return result.scalar_type() == type ? result : at::empty(result.sizes(), result.options().dtype(type));
    };
    const int64_t time = weight.dim() - 2;
    const Tensor ticks = prepared(inputs.slice(time, 0, std::nullopt, every));
    const Tensor own_outputs = place_for(outputs);
    Tensor own_weight = place_for(changed);
    if (padding == 0) {
      own_weight.copy_(weight);
    } else {
      own_weight = prepared(weight);
    }
    const Tensor own_thresholds = place_for(thresholds);
    if (options.rule == LearningRule::kBcm) {
      is_given(theta) ? own_thresholds.copy_(*theta) : own_thresholds.fill_(1);
    }
    PlasticParams params;
    params.learners = product_of(weight.sizes().slice(0, static_cast<size_t>(time)));
    params.ticks = ticks.size(time);
    params.batch = has_batch(inputs, weight) ? ticks.size(-2) : 1;
    params.units = weight.size(-2);
    params.size = size + padding;
    params.rule = options.rule;
    params.activation = options.activation;
    params.rate = lr;
    params.tau = tau;
    params.decay = decay;
    params.normalize = normalize;
    Tensor residual;
    if (params.coupled()) {
      residual = at::empty({params.learners, params.batch, params.size}, ticks.options());
      params.residual = residual.mutable_data_ptr();
    }
    params.inputs = ticks.const_data_ptr();
    params.weight = own_weight.mutable_data_ptr();
    params.theta = options.rule == LearningRule::kBcm ? own_thresholds.mutable_data_ptr() : nullptr;
    params.outputs = own_outputs.mutable_data_ptr();
    if (params.learners * params.ticks * params.units > 0) {
      execute(params, own_outputs);
    }
    const auto keep = [](const Tensor& result, const Tensor& own) {
      if (!result.is_same(own)) {
        result.copy_(own);
      }
    };
    keep(outputs, own_outputs);
    keep(changed, own_weight.slice(-1, 0, size));
    keep(thresholds, own_thresholds);
  }

  using Formula = PlasticFormula;
  static Formula formula(const Tensor&, const Tensor&, std::string_view rule, double lr, std::string_view activation,
                         int64_t every, const OptionalTensor&, double tau, double decay, bool normalize) {
    return {options_of(kName, rule, lr, activation, every, tau, decay, normalize)};
  }

 private:
  // On a GPU, looking would wait for it.
  static void check_theta(const OptionalTensor& theta) {
    if (is_given(theta) && theta->is_cpu()) {
      const Tensor bad = at::logical_not(theta->isfinite());
      TORCH_CHECK_VALUE(!bad.any().item<bool>(), kName, ": theta must be finite, got ",
                        theta->masked_select(bad)[0].item<double>());
    }
  }

  static void execute(const PlasticParams& params, const Tensor& outputs) {
#if defined(TORCH_HRR_WITH_CUDA)
    if (outputs.is_cuda()) {
      return cuda::execute(params, outputs);
    }
#endif
    const auto& tables = kernels::kernel_table<kernels::PlasticKernels>();
    execute_rows_on_cpu(params, kernels::plastic_rows(params),
                        outputs.scalar_type() == at::kDouble ? tables.of_double : tables.of_float);
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
                                                            double decay, bool normalize) {
  return call<hierarchy::PlasticScan>(inputs, weight, rule, lr, activation, every, theta, tau, decay, normalize);
}

}  // namespace torch_hrr
