// sinusoidal_encoding and sinusoidal_features: sines and cosines of positions, at analytic or held frequencies.
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>

#include "csrc/encoding/sinusoid.h"

#include "csrc/encoding/waves.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "csrc/rows.h"
#include "csrc/types.h"

namespace torch_hrr::encoding {
namespace {

using at::Tensor;
using c10::SymInt;

kernels::SinusoidParams params_of(const HeldPositions& held, int64_t dim, Layout layout, const Tensor& out) {
  kernels::SinusoidParams params;
  params.positions = held.positions;
  params.out = out.mutable_data_ptr();
  params.rows = held.tensor.numel();
  params.dim = dim;
  params.interleaved = layout == Layout::kInterleaved;
  return params;
}

template <typename Int>
ResultContract<Int> result_of(const char* op, const Tensor& positions, const Int& dim, OptionalType dtype) {
  Sizes<Int> sizes(sizes_of<Int>(positions).begin(), sizes_of<Int>(positions).end());
  sizes.push_back(dim);
  check_numel<Int>(op, sizes);
  return {sizes, result_type(op, positions, dtype)};
}

struct SinusoidalEncoding : Operator {
  static constexpr const char* kName = "sinusoidal_encoding";
  static constexpr Operand kOperands[] = {{"positions", 0}};
  using Signature = Tensor(const Tensor& positions, SymInt dim, double base, double scale, double phase,
                           std::string_view layout, OptionalType dtype);
  static constexpr bool kHasOut = true;
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& positions, const Int& dim, double base, double scale, double phase,
                                      std::string_view layout, OptionalType dtype) {
    check_positions(kName, positions);
    TORCH_CHECK_VALUE(holds(at_most(0, dim)), "sinusoidal_encoding: dim must be at least 0, got ", dim);
    const Ladder ladder{base, scale, phase};
    check_ladder(kName, ladder);
    check_frequency_range(kName, dim, ladder);
    (void)layout_of(kName, layout);
    return result_of<Int>(kName, positions, dim, dtype);
  }

  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& positions, int64_t dim, double base,
                  double scale, double phase, std::string_view layout, OptionalType) {
    if (out.numel() == 0) {
      return;
    }
    const HeldPositions held(positions);
    execute(params_of(held, dim, layout_of(kName, layout), out), *ladder_turns(dim, {base, scale, phase}), out);
  }

  static auto autocast(at::ScalarType type, const Tensor& positions, const SymInt& dim, double base, double scale,
                       double phase, std::string_view layout, OptionalType dtype) {
    return std::tuple(positions, dim, base, scale, phase, layout, autocast_type(type, positions, dtype));
  }

  // Positions alone have a derivative.
  struct Formula {
    SymInt dim;
    Ladder ladder;
    Layout layout;
    at::ScalarType type;

    variable_list backward(const Saved& saved, const Tensor& grad, const Wanted&) const {
      return {(in_compute_type(grad) * position_slope(saved[0], dim, ladder, layout, type)).sum(-1)};
    }
    Tensor jvp(const Saved& saved, const variable_list& tangents) const {
      return position_slope(saved[0], dim, ladder, layout, type) * in_compute_type(tangents[0]).unsqueeze(-1);
    }
  };
  static Formula formula(const Tensor& positions, const SymInt& dim, double base, double scale, double phase,
                         std::string_view layout, OptionalType dtype) {
    return {dim, {base, scale, phase}, layout_of(kName, layout), compute_type(result_type(kName, positions, dtype))};
  }
};

template <typename Int>
void check_held(const char* op, const Tensor& positions, const Tensor& frequencies, const OptionalTensor& phase) {
  check_positions(op, positions);
  const auto check_numbers = [&](const Argument& numbers) {
    check_floating(op, {numbers});
    check_same_device(op, {"positions", positions}, numbers);
    TORCH_CHECK_VALUE(numbers.tensor.dim() == 1, op, ": ", numbers.name, " must have 1 dimension [F], got ",
                      numbers.tensor.dim());
  };
  check_numbers({"frequencies", frequencies});
  if (is_given(phase)) {
    check_numbers({"phase", *phase});
    (void)check_same_last<Int>(op, {"frequencies", frequencies}, {"phase", *phase});
  }
}

Tensor features_slope(const Tensor& positions, const Tensor& frequencies, const Tensor& phase, Layout layout,
                      at::ScalarType type);
Tensor angle_gradient(const Tensor& grad, const Tensor& positions, const Tensor& frequencies,
                      const OptionalTensor& phase, Layout layout);

struct SinusoidalFeatures : Operator {
  static constexpr const char* kName = "sinusoidal_features";
  static constexpr Operand kOperands[] = {{"positions", 0}, {"frequencies", kNotBatched}, {"phase", kNotBatched}};
  using Signature = Tensor(const Tensor& positions, const Tensor& frequencies, const OptionalTensor& phase,
                           std::string_view layout, OptionalType dtype);
  static constexpr bool kHasOut = true;
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& positions, const Tensor& frequencies, const OptionalTensor& phase,
                                      std::string_view layout, OptionalType dtype) {
    check_held<Int>(kName, positions, frequencies, phase);
    (void)layout_of(kName, layout);
    return result_of<Int>(kName, positions, 2 * sizes_of<Int>(frequencies)[0], dtype);
  }

  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& positions, const Tensor& frequencies,
                  const OptionalTensor& phase, std::string_view layout, OptionalType) {
    if (out.numel() == 0) {
      return;
    }
    const HeldPositions held(positions);
    execute(params_of(held, 2 * frequencies.size(0), layout_of(kName, layout), out), frequencies,
            phase.value_or(Tensor()), out);
  }

  static auto autocast(at::ScalarType type, const Tensor& positions, const Tensor& frequencies,
                       const OptionalTensor& phase, std::string_view layout, OptionalType dtype) {
    return std::tuple(positions, frequencies, phase, layout, autocast_type(type, positions, dtype));
  }

  // With t = position f + phase: dL/dphase = dL/dt, dL/df = position dL/dt, dL/dposition = f dL/dt.
  struct Formula {
    Layout layout;
    at::ScalarType type;

    at::ScalarType sum_type(const variable_list& inputs) const {
      at::ScalarType wide = c10::promoteTypes(type, inputs[1].scalar_type());
      if (inputs[0].is_floating_point()) {
        wide = c10::promoteTypes(wide, inputs[0].scalar_type());
      }
      return compute_type(wide);
    }

    variable_list backward(const Saved& saved, const Tensor& grad, const Wanted& wanted) const {
      const variable_list& inputs = saved.tensors();
      const at::ScalarType wide = sum_type(inputs);
      const Tensor angles = angle_gradient(grad, inputs[0], inputs[1], optional_of(inputs[2]), layout).to(wide);
      variable_list grads(3);
      if (wanted[0]) {
        grads[0] = at::matmul(angles, inputs[1].to(wide));
      }
      if (wanted[1]) {
        const SymInt rows = inputs[0].sym_numel();
        grads[1] =
            at::matmul(inputs[0].to(wide).reshape_symint({rows}), angles.reshape_symint({rows, inputs[1].sym_size(0)}));
      }
      if (wanted[2]) {
        grads[2] = angles;
      }
      return grads;
    }
    Tensor jvp(const Saved& saved, const variable_list& tangents) const {
      const variable_list& inputs = saved.tensors();
      const at::ScalarType wide = sum_type(inputs);
      Tensor angles;
      if (tangents[0].defined()) {
        angles = tangents[0].to(wide).unsqueeze(-1) * inputs[1];
      }
      if (tangents[1].defined()) {
        angles = sum_of_defined(angles, inputs[0].to(wide).unsqueeze(-1) * tangents[1]);
      }
      if (tangents[2].defined()) {
        angles = sum_of_defined(angles, tangents[2].to(wide));
      }
      // One number a frequency is that of its two columns.
      return features_slope(inputs[0], inputs[1], inputs[2], layout, type) * pairs_of(angles, angles, layout);
    }
  };
  static Formula formula(const Tensor& positions, const Tensor&, const OptionalTensor&, std::string_view layout,
                         OptionalType dtype) {
    return {layout_of(kName, layout), compute_type(result_type(kName, positions, dtype))};
  }
};

// d sin t = cos t dt = sin(t + pi/2) dt, and the same for cos.
Tensor features_slope(const Tensor& positions, const Tensor& frequencies, const Tensor& phase, Layout layout,
                      at::ScalarType type) {
  // In float64: a quarter of a turn in float would err by 2^-25.
  const Tensor offset = phase.defined() ? phase.to(at::kDouble) + kQuarterTurn
                                        : frequencies.new_full_symint({frequencies.sym_size(0)}, kQuarterTurn,
                                                                      frequencies.options().dtype(at::kDouble));
  return call<SinusoidalFeatures>(positions, frequencies, OptionalTensor(offset), name_of(layout), OptionalType(type));
}

// dL/dt of every angle, in the compute type of grad.
struct AngleGradient : Operator {
  static constexpr const char* kName = "_sinusoidal_features_backward";
  static constexpr Operand kOperands[] = {
      {"grad", 1}, {"positions", 0}, {"frequencies", kNotBatched}, {"phase", kNotBatched}};
  using Signature = Tensor(const Tensor& grad, const Tensor& positions, const Tensor& frequencies,
                           const OptionalTensor& phase, std::string_view layout);
  static constexpr Derivative kDerivative = Derivative::kComposition;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& grad, const Tensor& positions, const Tensor& frequencies,
                                      const OptionalTensor& phase, std::string_view layout) {
    check_floating(kName, {{"grad", grad}});
    check_rank(kName, {"grad", grad}, 1, "[..., 2F]");
    check_held<Int>(kName, positions, frequencies, phase);
    check_same_device(kName, {"positions", positions}, {"grad", grad});
    (void)layout_of(kName, layout);
    const Int count = sizes_of<Int>(frequencies)[0];
    const Int dim = sizes_of<Int>(grad).back();
    TORCH_CHECK_VALUE(equal(dim, 2 * count), kName, ": grad must have a last dimension of 2F, got ", dim,
                      " and F = ", count);
    Sizes<Int> sizes(sizes_of<Int>(positions).begin(), sizes_of<Int>(positions).end());
    broadcast_into<Int>(kName, all_but_last<Int>(sizes_of<Int>(grad)), "grad and positions", sizes);
    sizes.push_back(count);
    check_numel<Int>(kName, sizes);
    return {sizes, compute_type(grad.scalar_type())};
  }

  static void run(const ResultContract<int64_t>& contract, const Tensor& out, const Tensor& grad,
                  const Tensor& positions, const Tensor& frequencies, const OptionalTensor& phase,
                  std::string_view layout) {
    if (out.numel() == 0) {
      return;
    }
    const c10::ArrayRef<int64_t> batch = all_but_last<int64_t>(contract.sizes);
    Sizes<int64_t> grad_sizes(batch.begin(), batch.end());
    grad_sizes.push_back(grad.size(-1));
    const Tensor rows = grad.expand(grad_sizes).contiguous();
    const HeldPositions held(positions.expand(batch));
    kernels::AngleGradientParams params;
    params.sinusoid = params_of(held, grad.size(-1), layout_of(kName, layout), out);
    params.grad = rows.const_data_ptr();
    params.grad_storage = storage_of(rows);
    execute(params, frequencies, phase.value_or(Tensor()), out);
  }

  static Tensor compose(const Tensor& grad, const Tensor& positions, const Tensor& frequencies,
                        const OptionalTensor& phase, std::string_view layout) {
    const Layout own = layout_of(kName, layout);
    const Tensor products = in_compute_type(grad) * features_slope(positions, frequencies, phase.value_or(Tensor()),
                                                                   own, compute_type(grad.scalar_type()));
    const SymInt count = frequencies.sym_size(0);
    return part_of_pairs(products, 0, count, own) + part_of_pairs(products, 1, count, own);
  }
};

Tensor angle_gradient(const Tensor& grad, const Tensor& positions, const Tensor& frequencies,
                      const OptionalTensor& phase, Layout layout) {
  return call<AngleGradient>(grad, positions, frequencies, phase, name_of(layout));
}

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<SinusoidalEncoding, SinusoidalFeatures, AngleGradient>(m);
}

}  // namespace

Tensor position_slope(const Tensor& positions, const SymInt& dim, const Ladder& ladder, Layout layout,
                      at::ScalarType type) {
  const Tensor waves = call<SinusoidalEncoding>(positions, dim, ladder.base, ladder.scale, ladder.phase + kQuarterTurn,
                                                name_of(layout), OptionalType(type));
  return waves * column_frequencies(dim, ladder, layout, positions);
}

// Neither flatten nor unflatten: torch's older vmap, that of gradcheck, lacks them.
Tensor part_of_pairs(const Tensor& rows, int64_t which, const SymInt& count, Layout layout) {
  return layout == Layout::kInterleaved ? rows.slice_symint(-1, which, 2 * count, 2)
                                        : rows.slice_symint(-1, which * count, (which + 1) * count);
}
Tensor pairs_of(const Tensor& first, const Tensor& second, Layout layout) {
  if (layout == Layout::kHalf) {
    return at::cat({first, second}, -1);
  }
  c10::SymDimVector sizes(first.sym_sizes().begin(), first.sym_sizes().end());
  sizes.back() = 2 * sizes.back();
  return at::stack({first, second}, -1).reshape_symint(sizes);
}

}  // namespace torch_hrr::encoding

namespace torch_hrr {

at::Tensor sinusoidal_encoding(const at::Tensor& positions, int64_t dim, double base, double scale, double phase,
                               std::string_view layout, std::optional<at::ScalarType> dtype) {
  return call<encoding::SinusoidalEncoding>(positions, dim, base, scale, phase, layout, dtype);
}
void sinusoidal_encoding_out(at::Tensor& out, const at::Tensor& positions, double base, double scale, double phase,
                             std::string_view layout) {
  TORCH_CHECK_TYPE(out.defined(), "sinusoidal_encoding: out must be a defined tensor, got an undefined one");
  check_rank("sinusoidal_encoding", {"out", out}, 1, "[..., dim]");
  call_out<encoding::SinusoidalEncoding>(positions, out.size(-1), base, scale, phase, layout,
                                         std::optional<at::ScalarType>(out.scalar_type()), out);
}
at::Tensor sinusoidal_features(const at::Tensor& positions, const at::Tensor& frequencies,
                               const std::optional<at::Tensor>& phase, std::string_view layout,
                               std::optional<at::ScalarType> dtype) {
  return call<encoding::SinusoidalFeatures>(positions, frequencies, phase, layout, dtype);
}
void sinusoidal_features_out(at::Tensor& out, const at::Tensor& positions, const at::Tensor& frequencies,
                             const std::optional<at::Tensor>& phase, std::string_view layout) {
  TORCH_CHECK_TYPE(out.defined(), "sinusoidal_features: out must be a defined tensor, got an undefined one");
  call_out<encoding::SinusoidalFeatures>(positions, frequencies, phase, layout,
                                         std::optional<at::ScalarType>(out.scalar_type()), out);
}

}  // namespace torch_hrr
