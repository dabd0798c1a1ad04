// field_evolve: steps of decay, diffusion and keyed noise of a field [..., D, H, W, C], or of some of its planes.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <vector>

#include "csrc/execute.h"
#include "csrc/field/field.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "csrc/types.h"
#include "kernels/field/evolve_channels.h"

namespace torch_hrr::field {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::Boundary;
using kernels::EvolveParams;
using kernels::FieldPart;
using kernels::Stencil;

constexpr const char* kName = "field_evolve";
constexpr Choice<Boundary> kBoundaries[] = {
    {"replicate", Boundary::kReplicate}, {"zeros", Boundary::kZeros}, {"circular", Boundary::kCircular}};
constexpr Choice<Stencil> kStencils[] = {
    {"laplace", Stencil::kLaplace}, {"box", Stencil::kBox}, {"binomial", Stencil::kBinomial}};

// The names, which a node that outlives the call may hold.
struct Scheme {
  Boundary boundary;
  Stencil stencil;

  std::string_view boundary_name() const {
    return name_of(boundary, kBoundaries);
  }
  std::string_view stencil_name() const {
    return name_of(stencil, kStencils);
  }
};

Scheme scheme_of(const char* op, std::string_view boundary, std::string_view stencil) {
  return {choice(op, "boundary", boundary, kBoundaries), choice(op, "stencil", stencil, kStencils)};
}

void check_decay(const char* op, double decay) {
  TORCH_CHECK_VALUE(decay >= 0 && decay <= 1, op, ": decay must be in [0, 1], got ", decay);
}
void check_diffusion(const char* op, double diffusion, Stencil stencil) {
  if (stencil == Stencil::kLaplace) {
    // In float32, of which a tensor may be: beyond, the finest checkerboard would grow.
    constexpr double kLargest = 1.0f / 6;
    TORCH_CHECK_VALUE(diffusion >= 0 && diffusion <= kLargest, op,
                      ": diffusion must be in [0, 1/6] with stencil 'laplace', which is unstable beyond, got ",
                      diffusion);
  } else {
    TORCH_CHECK_VALUE(diffusion >= 0 && diffusion <= 1, op, ": diffusion must be in [0, 1] with stencil '",
                      name_of(stencil, kStencils), "', got ", diffusion);
  }
}

void check_noise(const char* op, const Tensor& field, double noise, const OptionalTensor& key) {
  TORCH_CHECK_VALUE(std::isfinite(noise) && noise >= 0, op, ": noise must be a finite number >= 0, got ", noise);
  const bool given = is_given(key);
  TORCH_CHECK_VALUE(given || noise == 0, op, ": key must be given where noise is above 0, got None");
  if (given) {
    check_strided(op, {"key", *key});
    TORCH_CHECK_TYPE(key->scalar_type() == at::kUInt64 || key->scalar_type() == at::kLong, op,
                     ": key must be uint64 or int64, got ", key->scalar_type());
    TORCH_CHECK_VALUE(key->dim() == 1 && equal(key->sym_size(0), SymInt(2)), op,
                      ": key must have sizes [2] (seed, offset), got ", key->sym_sizes());
    check_same_device(op, {"field", field}, {"key", *key});
  }
}

template <typename Int>
ResultContract<Int> evolve_contract(const char* op, const Tensor& field, const Int& steps, double noise,
                                    const OptionalTensor& key) {
  const Sizes<Int> sizes = field_sizes<Int>(op, field);
  TORCH_CHECK_VALUE(holds(at_most(0, steps)), op, ": steps must be at least 0, got ", steps);
  check_noise(op, field, noise, key);
  check_numel<Int>(op, sizes);
  return {sizes, field.scalar_type()};
}

// With the numbers of a step, where they are the host's.
template <typename Int>
ResultContract<Int> step_contract(const char* op, const Tensor& field, double decay, double diffusion, const Int& steps,
                                  std::string_view boundary, std::string_view stencil, double noise,
                                  const OptionalTensor& key) {
  auto result = evolve_contract<Int>(op, field, steps, noise, key);
  check_decay(op, decay);
  check_diffusion(op, diffusion, scheme_of(op, boundary, stencil).stencil);
  return result;
}

// A number of a step: the host's, or a tensor on a GPU, which the host need not wait for.
struct Number {
  double value = 0;
  Tensor held;

  Number(double number) : value(number) {}
  Number(const Tensor& number) {
    if (number.is_cpu()) {
      value = number.item<double>();
    } else {
      held = number;
    }
  }
};

EvolveParams params_of(const Tensor& field, const Tensor& out, const Number& decay, const Number& diffusion,
                       const Scheme& scheme, double noise) {
  EvolveParams params;
  static_cast<kernels::FieldShape&>(params) = shape_of(field);
  params.keep = 1 - decay.value;
  params.rate = diffusion.value;
  params.boundary = scheme.boundary;
  params.stencil = scheme.stencil;
  params.noise = noise;
  params.field = field.const_data_ptr();
  params.out = out.mutable_data_ptr();
  return params;
}

// All steps of as many channels as occupy the threads, then of the next ones.
void evolve_channels_on_cpu(kernels::EvolveChannels params, const kernels::EvolveChannelsKernels& kernels,
                            const Tensor& out) {
  const int64_t group = params.group();
  const int64_t together = std::min(params.channels, (at::get_num_threads() + group - 1) / group * group);
  const Tensor volumes =
      at::empty({together * params.volume_elements()}, out.options().dtype(compute_type(out.scalar_type())));
  params.volumes = volumes.mutable_data_ptr();
  for (params.item = 0; params.item < params.batch; ++params.item) {
    for (params.first_channel = 0; params.first_channel < params.channels; params.first_channel += together) {
      params.count = std::min(together, params.channels - params.first_channel);
      execute_rows_on_cpu(params, params.depth * params.height, kernels.gather);
      execute_rows_on_cpu(params, params.count, kernels.evolve);
      execute_rows_on_cpu(params, params.depth * params.height, kernels.scatter);
    }
  }
}

// The steps go to and fro between `out` and a second buffer, and end in `out`.
void evolve_on_cpu(EvolveParams params, const uint64_t* key, int64_t steps, const Tensor& out) {
  if (key != nullptr) {
    params.seed = key[0];
    params.first = key[1];
  }
  kernels::EvolveChannels channels;
  static_cast<EvolveParams&>(channels) = params;
  channels.steps = steps;
  channels.number_bytes = out.scalar_type() == at::kDouble ? 8 : 4;
  const auto& by_channel = kernels::kernel_table<kernels::EvolveChannelsKernels>(storage_of(out));
  if (by_channel.pays(channels)) {
    return evolve_channels_on_cpu(channels, by_channel, out);
  }
  Tensor other;
  if (steps > 1) {
    other = at::empty_like(out);
    lanes::prefer_huge_pages(other);
  }
  const auto& kernel = kernels::kernel_table<kernels::RowKernel<EvolveParams>>(storage_of(out));
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor& target = (steps - step) % 2 == 1 ? out : other;
    params.out = target.mutable_data_ptr();
    execute_rows_on_cpu(params, params.stepping().lines(), kernel);
    params.field = target.const_data_ptr();
    params.first += static_cast<uint64_t>(params.noise_blocks());
  }
}

void evolve(const Tensor& out, const Tensor& field, const Number& decay, const Number& diffusion, int64_t steps,
            const Scheme& scheme, double noise, const OptionalTensor& key, const FieldPart& part = {}) {
  if (out.numel() == 0) {
    return;
  }
  if (steps == 0) {
    out.copy_(field);
    return;
  }
  const Tensor source = field.contiguous();
  const Tensor own_key = noise != 0 ? key->contiguous() : Tensor();
  const auto* const numbers = own_key.defined() ? static_cast<const uint64_t*>(own_key.const_data_ptr()) : nullptr;
  EvolveParams params = params_of(source, out, decay, diffusion, scheme, noise);
  params.part = part;
#if defined(TORCH_HRR_WITH_CUDA)
  if (out.is_cuda()) {
    kernels::EvolveNumbers held;
    held.key = numbers;
    const auto hold = [](const Number& number, const void*& pointer, kernels::Storage& storage) {
      if (number.held.defined()) {
        pointer = number.held.const_data_ptr();
        storage = storage_of(number.held);
      }
    };
    hold(decay, held.decay, held.decay_storage);
    hold(diffusion, held.diffusion, held.diffusion_storage);
    return execute_on_cuda(out, params, held, steps);
  }
#endif
  evolve_on_cpu(params, numbers, steps, out);
}

// Decay and diffusion as numbers: the field alone has a derivative. The matrix of a step is symmetric for every
// boundary, so that backward is the operator itself, on the gradient and without noise.
struct Evolve : Operator {
  static constexpr const char* kName = field::kName;
  static constexpr Operand kOperands[] = {{"field", kFieldDims}, {"key", kNoBatchAtAll}};
  using Signature = Tensor(const Tensor& field, double decay, double diffusion, SymInt steps, std::string_view boundary,
                           std::string_view stencil, double noise, const OptionalTensor& key);
  static constexpr bool kHasOut = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& field, double decay, double diffusion, const Int& steps,
                                      std::string_view boundary, std::string_view stencil, double noise,
                                      const OptionalTensor& key) {
    return step_contract<Int>(kName, field, decay, diffusion, steps, boundary, stencil, noise, key);
  }

  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& field, double decay,
                  double diffusion, int64_t steps, std::string_view boundary, std::string_view stencil, double noise,
                  const OptionalTensor& key) {
    evolve(out, field, decay, diffusion, steps, scheme_of(kName, boundary, stencil), noise, key);
  }

  struct Formula : LinearFormula {
    double decay;
    double diffusion;
    SymInt steps;
    Scheme scheme;

    Formula(double the_decay, double the_diffusion, const SymInt& the_steps, const Scheme& the_scheme)
        : decay(the_decay), diffusion(the_diffusion), steps(the_steps), scheme(the_scheme) {}

    Tensor map(const Tensor& direction) const {
      return call<Evolve>(direction, decay, diffusion, steps, scheme.boundary_name(), scheme.stencil_name(), 0.0,
                          OptionalTensor());
    }
    variable_list backward(const Saved&, const Tensor& grad, const Wanted&) const {
      return {map(grad), Tensor()};
    }
    Tensor jvp(const Saved&, const variable_list& tangents) const {
      return map(tangents[0]);
    }
  };
  static Formula formula(const Tensor&, double decay, double diffusion, const SymInt& steps, std::string_view boundary,
                         std::string_view stencil, double, const OptionalTensor&) {
    return {decay, diffusion, steps, scheme_of(kName, boundary, stencil)};
  }
};

// One step with a decay of 0, less the field: the Laplacian, or the mean less the field.
Tensor difference(const Tensor& field, const Scheme& scheme) {
  const double rate = scheme.stencil == Stencil::kLaplace ? 0.125 : 1;
  const Tensor moved =
      call<Evolve>(field, 0.0, rate, SymInt(1), scheme.boundary_name(), scheme.stencil_name(), 0.0, OptionalTensor());
  return (moved - field) / rate;
}

// The key after so many steps.
OptionalTensor advanced(const Tensor& key, const SymInt& numel, int64_t steps) {
  if (!key.defined()) {
    return std::nullopt;
  }
  const Tensor numbers = key.view(at::kLong);
  return at::stack({numbers.select(0, 0), numbers.select(0, 1) + c10::Scalar(kernels::noise_blocks_of(numel) * steps)});
}

void check_number(const char* name, const Tensor& number, const Tensor& field) {
  check_floating(kName, {{name, number}});
  TORCH_CHECK_VALUE(number.dim() == 0, kName, ": ", name, " must have 0 dimensions, got ", number.dim());
  if (!number.is_cpu() || field.is_cpu()) {
    check_same_device(kName, {"field", field}, {name, number});
  }
}

// Decay and diffusion as tensors, with derivatives.
struct EvolveTensor : Operator {
  static constexpr const char* kName = field::kName;
  static constexpr const char* kOverload = "Tensor";
  static constexpr Operand kOperands[] = {
      {"field", kFieldDims}, {"decay", kNotBatched}, {"diffusion", kNotBatched}, {"key", kNoBatchAtAll}};
  using Signature = Tensor(const Tensor& field, const Tensor& decay, const Tensor& diffusion, SymInt steps,
                           std::string_view boundary, std::string_view stencil, double noise,
                           const OptionalTensor& key);
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& field, const Tensor& decay, const Tensor& diffusion,
                                      const Int& steps, std::string_view boundary, std::string_view stencil,
                                      double noise, const OptionalTensor& key) {
    const auto result = evolve_contract<Int>(kName, field, steps, noise, key);
    check_number("decay", decay, field);
    check_number("diffusion", diffusion, field);
    const Stencil own = scheme_of(kName, boundary, stencil).stencil;
    // A fake tensor has no value, and one on a GPU would have to be waited for.
    if constexpr (std::is_same_v<Int, int64_t>) {
      if (decay.is_cpu()) {
        check_decay(kName, decay.item<double>());
      }
      if (diffusion.is_cpu()) {
        check_diffusion(kName, diffusion.item<double>(), own);
      }
    }
    return result;
  }

  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& field, const Tensor& decay,
                  const Tensor& diffusion, int64_t steps, std::string_view boundary, std::string_view stencil,
                  double noise, const OptionalTensor& key) {
    evolve(out, field, decay, diffusion, steps, scheme_of(kName, boundary, stencil), noise, key);
  }

  // With f' = keep (f + rate D f), D the difference: df'/d decay = -(f + rate D f) and df'/d rate = keep D f. Both need
  // the field before every step, which is made again.
  struct Formula {
    SymInt steps;
    Scheme scheme;
    double noise;

    bool reads(size_t input, const Wanted& wanted) const {
      const bool by_number = wanted[1] || wanted[2];
      return input == 1 || input == 2 || by_number;
    }

    Tensor map(const Saved& saved, const Tensor& direction, const SymInt& count) const {
      return call<EvolveTensor>(direction, saved[1], saved[2], count, scheme.boundary_name(), scheme.stencil_name(),
                                0.0, OptionalTensor());
    }
    // Fields before each step.
    std::vector<Tensor> states(const Saved& saved, int64_t count) const {
      std::vector<Tensor> made;
      for (int64_t step = 0; step < count; ++step) {
        made.push_back(step == 0 ? saved[0]
                                 : call<EvolveTensor>(made.back(), saved[1], saved[2], SymInt(1),
                                                      scheme.boundary_name(), scheme.stencil_name(), noise,
                                                      advanced(saved[3], saved[0].sym_numel(), step - 1)));
      }
      return made;
    }
    // The change of one step by the numbers' directions.
    struct Slopes {
      Tensor by_decay, by_diffusion;
    };
    Slopes slopes(const Saved& saved, const Tensor& state) const {
      const Tensor wide = in_compute_type(state);
      const Tensor own = difference(wide, scheme);
      const auto number = [&](size_t i) { return saved[i].to(wide.scalar_type()); };
      return {-(wide + number(2) * own), (1 - number(1)) * own};
    }

    variable_list backward(const Saved& saved, const Tensor& grad, const Wanted& wanted) const {
      if (!wanted[1] && !wanted[2]) {
        return {map(saved, grad, steps), Tensor(), Tensor(), Tensor()};
      }
      const int64_t count = steps.guard_int(__FILE__, __LINE__);
      const std::vector<Tensor> fields = states(saved, count);
      Tensor direction = in_compute_type(grad);
      variable_list grads(4);
      for (const size_t i : {size_t{1}, size_t{2}}) {
        if (wanted[i] && count == 0) {
          grads[i] = saved[i] * 0;
        }
      }
      for (int64_t step = count - 1; step >= 0; --step) {
        const Slopes own = slopes(saved, fields[static_cast<size_t>(step)]);
        const auto add = [&](size_t i, const Tensor& slope) {
          if (wanted[i]) {
            grads[i] = sum_of_defined(grads[i], (direction * slope).sum().to(saved[i].device()));
          }
        };
        add(1, own.by_decay);
        add(2, own.by_diffusion);
        if (step > 0 || wanted[0]) {
          direction = map(saved, direction, SymInt(1));
        }
      }
      if (wanted[0]) {
        grads[0] = direction;
      }
      return grads;
    }
    Tensor jvp(const Saved& saved, const variable_list& tangents) const {
      if (!tangents[1].defined() && !tangents[2].defined()) {
        return map(saved, tangents[0], steps);
      }
      const int64_t count = steps.guard_int(__FILE__, __LINE__);
      const std::vector<Tensor> fields = states(saved, count);
      Tensor direction = tangents[0].defined() ? in_compute_type(tangents[0]) : Tensor();
      for (int64_t step = 0; step < count; ++step) {
        const Slopes own = slopes(saved, fields[static_cast<size_t>(step)]);
        Tensor moved = direction.defined() ? map(saved, direction, SymInt(1)) : Tensor();
        if (tangents[1].defined()) {
          moved = sum_of_defined(moved, tangents[1] * own.by_decay);
        }
        if (tangents[2].defined()) {
          moved = sum_of_defined(moved, tangents[2] * own.by_diffusion);
        }
        direction = moved;
      }
      return direction.defined() ? direction : saved[0] * 0;
    }
  };
  static Formula formula(const Tensor&, const Tensor&, const Tensor&, const SymInt& steps, std::string_view boundary,
                         std::string_view stencil, double noise, const OptionalTensor&) {
    return {steps, scheme_of(kName, boundary, stencil), noise};
  }
};

// One step of the planes of a field that is split over devices. The first and the last plane given are neighbours,
// which the result holds as they are: the next step's are to come in their place. What lies beyond the whole field's
// depth is for the caller to put there; `origin` is the place in the whole field of the first plane that takes the
// step.
struct EvolvePart : Operator {
  static constexpr const char* kName = "_field_evolve_part";
  static constexpr Operand kOperands[] = {{"field", kFieldDims}, {"key", kNoBatchAtAll}};
  using Signature = Tensor(const Tensor& field, double decay, double diffusion, SymInt origin, SymInt depth,
                           std::string_view boundary, std::string_view stencil, double noise,
                           const OptionalTensor& key);
  static constexpr bool kHasOut = true;
  static constexpr Derivative kDerivative = Derivative::kNone;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& field, double decay, double diffusion, const Int& origin,
                                      const Int& depth, std::string_view boundary, std::string_view stencil,
                                      double noise, const OptionalTensor& key) {
    const auto result = step_contract<Int>(kName, field, decay, diffusion, Int(1), boundary, stencil, noise, key);
    const Int planes = result.sizes[result.sizes.size() - kFieldDims];
    TORCH_CHECK_VALUE(holds(at_most(2, planes)), kName, ": field must have at least 2 planes, got ", planes);
    TORCH_CHECK_VALUE(
        holds(at_most(planes - 2, depth)) && holds(at_most(0, origin)) && holds(at_most(origin, depth - (planes - 2))),
        kName, ": origin must be at least 0 and the planes within the depth ", depth, ", got ", origin, " and ",
        planes - 2);
    Sizes<Int> whole = result.sizes;
    whole[whole.size() - kFieldDims] = depth;
    check_numel<Int>(kName, whole);
    return result;
  }

  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& field, double decay,
                  double diffusion, int64_t origin, int64_t depth, std::string_view boundary, std::string_view stencil,
                  double noise, const OptionalTensor& key) {
    const int64_t planes = field.size(-kFieldDims);
    evolve(out, field, decay, diffusion, 1, scheme_of(kName, boundary, stencil), noise, key,
           {1, origin - 1, depth - (origin - 1) - planes});
    for (const int64_t plane : {int64_t{0}, planes - 1}) {
      out.select(-kFieldDims, plane).copy_(field.select(-kFieldDims, plane));
    }
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<EvolvePart, EvolveTensor, Evolve>(m);
}

}  // namespace
}  // namespace torch_hrr::field

namespace torch_hrr {

using at::Tensor;

Tensor field_evolve(const Tensor& field, const Tensor& decay, const Tensor& diffusion, int64_t steps,
                    std::string_view boundary, std::string_view stencil, double noise,
                    const std::optional<Tensor>& key) {
  return call<field::EvolveTensor>(field, decay, diffusion, steps, boundary, stencil, noise, key);
}
Tensor field_evolve(const Tensor& field, double decay, double diffusion, int64_t steps, std::string_view boundary,
                    std::string_view stencil, double noise, const std::optional<Tensor>& key) {
  return call<field::Evolve>(field, decay, diffusion, steps, boundary, stencil, noise, key);
}
void field_evolve_out(Tensor& out, const Tensor& field, double decay, double diffusion, int64_t steps,
                      std::string_view boundary, std::string_view stencil, double noise,
                      const std::optional<Tensor>& key) {
  call_out<field::Evolve>(field, decay, diffusion, steps, boundary, stencil, noise, key, out);
}

}  // namespace torch_hrr
