// field_gradient and gradient_magnitude: Sobel's derivatives of a field [..., D, H, W, C], and their norm.
#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include "csrc/execute.h"
#include "csrc/field/field.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "csrc/types.h"

namespace torch_hrr::field {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::GradientKind;
using kernels::GradientParams;

constexpr int64_t kAxes = 3;

void execute(GradientKind kind, const Tensor& in, bool normalize, const Tensor& out) {
  if (out.numel() == 0) {
    return;
  }
  const Tensor own = in.contiguous();
  GradientParams params{shape_of(in, kind == GradientKind::kTransposed ? 1 : 0)};
  params.in = own.const_data_ptr();
  params.out = out.mutable_data_ptr();
  params.kind = kind;
  params.normalize = normalize;
  execute_rows(params, params.lines(), out, kernels::kernel_table<kernels::RowKernel<GradientParams>>(storage_of(out)));
}

Tensor derivatives(const Tensor& field, bool normalize);
Tensor transposed(const Tensor& given, bool normalize);

// A linear operator whose derivative is its transpose.
template <Tensor (*kMap)(const Tensor&, bool), Tensor (*kTransposed)(const Tensor&, bool)>
struct LinearPair : LinearFormula {
  bool normalize;

  explicit LinearPair(bool the_normalize) : normalize(the_normalize) {}

  variable_list backward(const Saved&, const Tensor& grad, const Wanted&) const {
    return {kTransposed(grad, normalize)};
  }
  Tensor jvp(const Saved&, const variable_list& tangents) const {
    return kMap(tangents[0], normalize);
  }
};

struct FieldGradient : Operator {
  static constexpr const char* kName = "field_gradient";
  static constexpr Operand kOperands[] = {{"field", kFieldDims}};
  using Signature = Tensor(const Tensor& field, bool normalize);
  static constexpr bool kHasOut = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& field, bool) {
    Sizes<Int> sizes = field_sizes<Int>(kName, field);
    sizes.insert(sizes.end() - kFieldDims, Int(kAxes));
    check_numel<Int>(kName, sizes);
    return {sizes, field.scalar_type()};
  }
  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& field, bool normalize) {
    execute(GradientKind::kDerivatives, field, normalize, out);
  }

  using Formula = LinearPair<derivatives, transposed>;
};

// The transposed operator, which is the derivative.
struct FieldGradientBackward : Operator {
  static constexpr const char* kName = "_field_gradient_backward";
  static constexpr Operand kOperands[] = {{"derivatives", kFieldDims + 1}};
  using Signature = Tensor(const Tensor& derivatives, bool normalize);
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& given, bool) {
    check_floating(kName, {{"derivatives", given}});
    check_rank(kName, {"derivatives", given}, kFieldDims + 1, "[..., 3, D, H, W, C]");
    const c10::ArrayRef<Int> own = sizes_of<Int>(given);
    Sizes<Int> sizes(own.begin(), own.end());
    const auto axes = sizes.end() - kFieldDims - 1;
    TORCH_CHECK_VALUE(equal(*axes, Int(kAxes)), kName, ": derivatives must have 3 in [..., 3, D, H, W, C], got ",
                      *axes);
    sizes.erase(axes);
    check_numel<Int>(kName, sizes);
    return {sizes, given.scalar_type()};
  }
  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& given, bool normalize) {
    execute(GradientKind::kTransposed, given, normalize, out);
  }

  using Formula = LinearPair<transposed, derivatives>;
};

Tensor derivatives(const Tensor& field, bool normalize) {
  return call<FieldGradient>(field, normalize);
}
Tensor transposed(const Tensor& given, bool normalize) {
  return call<FieldGradientBackward>(given, normalize);
}

struct GradientMagnitude : Operator {
  static constexpr const char* kName = "gradient_magnitude";
  static constexpr Operand kOperands[] = {{"field", kFieldDims}};
  using Signature = Tensor(const Tensor& field, bool normalize);
  static constexpr bool kHasOut = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& field, bool) {
    const Sizes<Int> sizes = field_sizes<Int>(kName, field);
    check_numel<Int>(kName, sizes);
    return {sizes, field.scalar_type()};
  }
  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& field, bool normalize) {
    execute(GradientKind::kMagnitude, field, normalize, out);
  }

  // With g the derivatives and m their norm: dm = (g / m) dg, taken as 0 where m is.
  struct Formula {
    bool normalize;

    Tensor direction(const Saved& saved) const {
      const Tensor own = derivatives(in_compute_type(saved[0]), normalize);
      const Tensor squares = own.square().sum(-kFieldDims - 1, /*keepdim=*/true);
      const Tensor none = squares == 0;
      return own / squares.masked_fill(none, 1).sqrt();
    }
    variable_list backward(const Saved& saved, const Tensor& grad, const Wanted&) const {
      return {transposed(direction(saved) * in_compute_type(grad).unsqueeze(-kFieldDims - 1), normalize)};
    }
    Tensor jvp(const Saved& saved, const variable_list& tangents) const {
      const Tensor moved = derivatives(in_compute_type(tangents[0]), normalize);
      return (direction(saved) * moved).sum(-kFieldDims - 1);
    }
  };
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<FieldGradient, FieldGradientBackward, GradientMagnitude>(m);
}

}  // namespace
}  // namespace torch_hrr::field

namespace torch_hrr {

at::Tensor field_gradient(const at::Tensor& field, bool normalize) {
  return call<field::FieldGradient>(field, normalize);
}
void field_gradient_out(at::Tensor& out, const at::Tensor& field, bool normalize) {
  call_out<field::FieldGradient>(field, normalize, out);
}
at::Tensor gradient_magnitude(const at::Tensor& field, bool normalize) {
  return call<field::GradientMagnitude>(field, normalize);
}
void gradient_magnitude_out(at::Tensor& out, const at::Tensor& field, bool normalize) {
  call_out<field::GradientMagnitude>(field, normalize, out);
}

}  // namespace torch_hrr
