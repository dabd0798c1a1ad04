// _field_control_: a step of robots that learn control, each by a field of its own.
#include "kernels/field/control.h"
#include "csrc/execute.h"
#include "csrc/field/field.h"
#include "csrc/operator.h"
#include "csrc/overlap.h"

namespace torch_hrr::field {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::ControlParams;

struct FieldControl : Operator {
  static constexpr const char* kName = "_field_control_";
  static constexpr Operand kOperands[] = {
      {.name = "field", .trailing = kNoBatchAtAll, .written = true},
      {.name = "weights", .trailing = kNotBatched, .written = true},
      {.name = "state", .trailing = kNotBatched, .written = true},
      {.name = "prediction", .trailing = kNotBatched, .written = true},
      {.name = "key", .trailing = kNotBatched, .written = true},
      {.name = "result", .trailing = kNotBatched, .written = true},
      {"places", kNotBatched},
      {"sensory", kNotBatched},
      {"reward", kNotBatched},
      {"ended", kNotBatched},
  };
  using Signature = void(Tensor& field, Tensor& weights, Tensor& state, Tensor& prediction, Tensor& key, Tensor& result,
                         const Tensor& places, const Tensor& sensory, const Tensor& reward, const Tensor& ended,
                         double decay, double diffusion, double discount, double critic_rate, double motor_rate,
                         double correlation, double deviation, bool learns, bool discrete, bool dense);
  static constexpr Derivative kDerivative = Derivative::kNone;

  static void check_number(const char* name, double value, double most) {
    TORCH_CHECK_VALUE(value >= 0 && value <= most, kName, ": ", name, " must be in [0, ", most, "], got ", value);
  }

  static ControlParams check(const Tensor& field, const Tensor& weights, const Tensor& state, const Tensor& prediction,
                             const Tensor& key, const Tensor& result, const Tensor& places, const Tensor& sensory,
                             const Tensor& reward, const Tensor& ended, double decay, double diffusion, double discount,
                             double critic_rate, double motor_rate, double correlation, double deviation, bool learns,
                             bool discrete, bool dense) {
    const Argument all[] = {{"field", field},           {"weights", weights}, {"state", state},
                            {"prediction", prediction}, {"result", result},   {"places", places},
                            {"sensory", sensory},       {"reward", reward},   {"ended", ended}};
    check_floating(kName, {{"field", field}});
    TORCH_CHECK_TYPE(field.scalar_type() == at::kFloat || field.scalar_type() == at::kDouble, kName,
                     ": field must be float32 or float64, got ", field.scalar_type());
    check_rank(kName, {"field", field}, kFieldDims, "[..., D, H, W, C]");
    for (const Argument& argument : all) {
      check_floating(kName, {argument});
      check_same_device(kName, {"field", field}, argument);
      TORCH_CHECK_TYPE(argument.tensor.scalar_type() == field.scalar_type(), kName, ": ", argument.name,
                       " must have the field's dtype ", field.scalar_type(), ", got ", argument.tensor.scalar_type());
      TORCH_CHECK_VALUE(argument.tensor.is_contiguous(), kName, ": ", argument.name, " must be contiguous");
    }
    check_strided(kName, {"key", key});
    TORCH_CHECK_TYPE(key.scalar_type() == at::kLong, kName, ": key must be int64, got ", key.scalar_type());
    check_same_device(kName, {"field", field}, {"key", key});
    TORCH_CHECK_VALUE(key.is_contiguous(), kName, ": key must be contiguous");

    const c10::ArrayRef<SymInt> own = field.sym_sizes();
    const c10::ArrayRef<SymInt> batch = own.slice(0, own.size() - kFieldDims);
    const auto last = [&](const Argument& argument, int64_t trailing) {
      check_rank(kName, argument, trailing, "after those of the robots");
      return argument.tensor.sym_size(-1).guard_int(__FILE__, __LINE__);
    };
    ControlParams params;
    params.sensors = last({"sensory", sensory}, 1);
    params.motors = (last({"state", state}, 1) - kernels::ControlHead::kSize - params.sensors) / 2;
    params.measures = last({"result", result}, 1) != params.motors;
    TORCH_CHECK_VALUE(places.dim() >= 3, kName, ": places must have at least 3 dimensions, got ", places.dim());
    params.maps = places.sym_size(-3).guard_int(__FILE__, __LINE__);
    TORCH_CHECK_VALUE(params.sensors >= 1 && params.motors >= 1 && params.maps >= 1, kName,
                      ": sensory, motors and maps must be at least 1, got ", params.sensors, ", ", params.motors,
                      " and ", params.maps);
    const auto sized = [&](const Argument& argument, std::initializer_list<int64_t> trailing) {
      Sizes<SymInt> sizes(batch.begin(), batch.end());
      for (const int64_t size : trailing) {
        sizes.push_back(size);
      }
      TORCH_CHECK_VALUE(same_sizes<SymInt>(argument.tensor.sym_sizes(), sizes), kName, ": ", argument.name,
                        " must have shape ", c10::ArrayRef<SymInt>(sizes), ", got ", argument.tensor.sym_sizes());
    };
    TORCH_CHECK_VALUE(same_sizes<SymInt>(weights.sym_sizes(), own), kName, ": weights must have shape ", own, ", got ",
                      weights.sym_sizes());
    sized({"state", state}, {params.state_size()});
    sized({"prediction", prediction}, {params.sensors});
    sized({"key", key}, {2});
    sized({"result", result}, {params.out_size()});
    sized({"places", places}, {params.maps, 3, params.sensors + 1});
    sized({"sensory", sensory}, {params.sensors});
    sized({"reward", reward}, {});
    sized({"ended", ended}, {});
    for (int64_t axis = 0; axis < 3; ++axis) {
      params.sizes[axis] = field.sym_size(axis - kFieldDims).guard_int(__FILE__, __LINE__);
      TORCH_CHECK_VALUE(params.sizes[axis] >= 1, kName, ": field must have places, got shape ", own);
    }
    params.channels = field.sym_size(-1).guard_int(__FILE__, __LINE__);
    TORCH_CHECK_VALUE(params.channels >= params.maps * (1 + params.motors), kName, ": field must have at least ",
                      params.maps * (1 + params.motors), " channels, got ", params.channels);
    check_number("decay", decay, 1);
    check_number("diffusion", diffusion, 1.0 / 6);
    check_number("discount", discount, 1);
    check_number("critic_rate", critic_rate, 1);
    check_number("motor_rate", motor_rate, 1);
    check_number("correlation", correlation, 1);
    check_number("deviation", deviation, 1e6);
    params.decay = decay;
    params.diffusion = diffusion;
    params.discount = discount;
    params.critic_rate = critic_rate;
    params.motor_rate = motor_rate;
    params.correlation = correlation;
    params.deviation = deviation;
    params.learns = learns;
    params.discrete = discrete;
    params.dense = dense || diffusion > 0;
    return params;
  }

  static void run(ControlParams params, const Tensor& field, const Tensor& weights, const Tensor& state,
                  const Tensor& prediction, const Tensor& key, const Tensor& result, const Tensor& places,
                  const Tensor& sensory, const Tensor& reward, const Tensor& ended, double, double, double, double,
                  double, double, double, bool, bool, bool) {
    constexpr size_t kWritten = 6;
    check_overlap(kName,
                  {{"field", field},
                   {"weights", weights},
                   {"state", state},
                   {"prediction", prediction},
                   {"key", key},
                   {"result", result},
                   {"places", places},
                   {"sensory", sensory},
                   {"reward", reward},
                   {"ended", ended}},
                  kWritten);
    params.rows = reward.numel();
    if (params.rows == 0) {
      return;
    }
    params.field = field.mutable_data_ptr();
    params.weights = weights.mutable_data_ptr();
    params.state = state.mutable_data_ptr();
    params.prediction = prediction.mutable_data_ptr();
    params.key = key.mutable_data_ptr<int64_t>();
    params.out = result.mutable_data_ptr();
    params.places = places.const_data_ptr();
    params.sensory = sensory.const_data_ptr();
    params.reward = reward.const_data_ptr();
    params.ended = ended.const_data_ptr();
    execute_rows(params, params.rows, field,
                 kernels::kernel_table<kernels::RowKernel<ControlParams>>(storage_of(field)));
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<FieldControl>(m);
}

}  // namespace
}  // namespace torch_hrr::field
