// spectrum and from_spectrum, bind_spectrum and unbind_spectrum: rows of packed bins.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>

#include "csrc/hrr/contracts.h"
#include "csrc/hrr/execute.h"
#include "csrc/hrr/library_fft.h"
#include "csrc/hrr/operators.h"
#include "csrc/operator.h"
#include "csrc/rows.h"
#include "csrc/types.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::Product;

// m, one number a packed element: D for the real bins, D/2 for the parts of the others. With P a -> spectrum(a), the
// adjoint of P is P^-1 m, for a complex bin stands for two of the D bins; that of P^-1 is m^-1 P.
Tensor multiplicities(const Tensor& packed) {
  const SymInt dim = packed.sym_size(-1);
  Tensor counts = packed.new_ones_symint({dim});
  // The last number is a real bin where D is even; where D is 1 it is the first.
  counts.select(0, -1).fill_(at::Scalar(2 - dim % 2));
  counts.select(0, 0).fill_(2);
  return counts.mul_(at::Scalar(dim)).div_(2);
}

// The gradient with respect to a spectrum of these sizes from that with respect to its row: rows that share one are
// summed first.
Tensor spectrum_gradient(const Tensor& row_gradient, c10::SymIntArrayRef sizes) {
  Tensor transformed = torch_hrr::spectrum(at::sum_to(row_gradient, sizes));
  return transformed.div_(multiplicities(transformed));
}

// The transforms; Op says its direction.
template <typename Op>
struct TransformOperator : Operator {
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& x) {
    return row_contract<Int>(Op::kName, {Op::kOperands[0].name, x});
  }

  static void run(const ResultContract<int64_t>& contract, const Tensor& out, const Tensor& x) {
    const c10::ArrayRef<int64_t> sizes = contract.sizes;
    const c10::ArrayRef<int64_t> batch = all_but_last(sizes);
    kernels::PackedSpectrumParams params;
    params.rows = product_of(batch);
    params.dim = sizes.back();
    params.inverse = Op::kInverse;
    if (params.rows == 0) {
      return;
    }
    params.plan = plan_rows(params, out, contract.dtype);
    if (params.plan.path == kernels::RowPath::kLibrary) {
      return library_packed_spectrum(x.reshape({params.rows, params.dim}), Op::kInverse,
                                     out.view({params.rows, params.dim}));
    }
    const at::ScalarType row_type = row_type_of(params.plan, out, contract.dtype);
    const Rows<1> rows(batch, {{{with_unit_rows(x, row_type), 1}}});
    params.map = rows.map();
    params.in = rows.data(0);
    execute_in(row_type, params, out);
  }
};

struct Spectrum : TransformOperator<Spectrum> {
  static constexpr const char* kName = "spectrum";
  static constexpr Operand kOperands[] = {{"a", 1}};
  static constexpr bool kInverse = false;
  using Signature = Tensor(const Tensor& a);

  struct Formula : LinearFormula {
    variable_list backward(const Saved&, const Tensor& grad, const Wanted&) const {
      const Tensor wide = in_compute_type(grad);
      return {torch_hrr::from_spectrum(wide.mul(multiplicities(wide)))};
    }
    Tensor jvp(const Saved&, const variable_list& tangents) const {
      return torch_hrr::spectrum(tangents[0]);
    }
  };
};

struct FromSpectrum : TransformOperator<FromSpectrum> {
  static constexpr const char* kName = "from_spectrum";
  static constexpr Operand kOperands[] = {{"spectrum", 1}};
  static constexpr bool kInverse = true;
  using Signature = Tensor(const Tensor& spectrum);

  struct Formula : LinearFormula {
    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted&) const {
      return {spectrum_gradient(in_compute_type(grad), inputs.sizes(0))};
    }
    Tensor jvp(const Saved&, const variable_list& tangents) const {
      return torch_hrr::from_spectrum(tangents[0]);
    }
  };
};

// The products of rows with spectra; Op says which.
template <typename Op>
struct SpectrumBinding : Operator {
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& a, const Tensor& spectrum) {
    return bind_contract<Int>(Op::kName, {Op::kOperands[0].name, a}, {"spectrum", spectrum});
  }

  static void run(const ResultContract<int64_t>& contract, const Tensor& out, const Tensor& a, const Tensor& spectrum) {
    const c10::ArrayRef<int64_t> sizes = contract.sizes;
    const c10::ArrayRef<int64_t> batch = all_but_last(sizes);
    kernels::SpectrumBindParams params;
    params.rows = product_of(batch);
    params.dim = sizes.back();
    params.product = Op::kProduct;
    if (params.rows == 0) {
      return;
    }
    params.plan = plan_rows(params, a, contract.dtype);
    if (params.plan.path == kernels::RowPath::kLibrary) {
      const Tensor wide = in_compute_type(a.to(contract.dtype));
      const Tensor rows = torch_hrr::from_spectrum(in_compute_type(spectrum.to(contract.dtype)));
      out.copy_(Op::kProduct == Product::kConvolution ? torch_hrr::bind(wide, rows) : torch_hrr::unbind(wide, rows));
      return;
    }
    const Rows<2> rows(batch,
                       {{{with_unit_rows(a, contract.dtype), 1}, {with_unit_rows(spectrum, contract.dtype), 1}}});
    params.map = rows.map();
    params.a = rows.data(0);
    params.spectrum = rows.data(1);
    params.out = out.mutable_data_ptr();
    execute(params, out);
  }
};

struct BindSpectrum : SpectrumBinding<BindSpectrum> {
  static constexpr const char* kName = "bind_spectrum";
  static constexpr Operand kOperands[] = {{"a", 1}, {"spectrum", 1}};
  static constexpr Product kProduct = Product::kConvolution;
  using Signature = Tensor(const Tensor& a, const Tensor& spectrum);

  struct Formula : BilinearFormula {
    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted& wanted) const {
      const auto of_row = [&] { return torch_hrr::unbind(in_compute_type(grad), in_compute_type(inputs[0])); };
      return {wanted[0] ? torch_hrr::unbind_spectrum(grad, inputs[1]) : Tensor(),
              wanted[1] ? spectrum_gradient(of_row(), inputs.sizes(1)) : Tensor()};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      return sum_of_defined(tangents[0].defined() ? torch_hrr::bind_spectrum(tangents[0], inputs[1]) : Tensor(),
                            tangents[1].defined() ? torch_hrr::bind_spectrum(inputs[0], tangents[1]) : Tensor());
    }
  };
};

struct UnbindSpectrum : SpectrumBinding<UnbindSpectrum> {
  static constexpr const char* kName = "unbind_spectrum";
  static constexpr Operand kOperands[] = {{"bound", 1}, {"spectrum", 1}};
  static constexpr Product kProduct = Product::kCorrelation;
  using Signature = Tensor(const Tensor& bound, const Tensor& spectrum);

  struct Formula : BilinearFormula {
    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted& wanted) const {
      const auto of_row = [&] { return torch_hrr::unbind(in_compute_type(inputs[0]), in_compute_type(grad)); };
      return {wanted[0] ? torch_hrr::bind_spectrum(grad, inputs[1]) : Tensor(),
              wanted[1] ? spectrum_gradient(of_row(), inputs.sizes(1)) : Tensor()};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      return sum_of_defined(tangents[0].defined() ? torch_hrr::unbind_spectrum(tangents[0], inputs[1]) : Tensor(),
                            tangents[1].defined() ? torch_hrr::unbind_spectrum(inputs[0], tangents[1]) : Tensor());
    }
  };
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<Spectrum, FromSpectrum, BindSpectrum, UnbindSpectrum>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr

namespace torch_hrr {

using at::Tensor;

Tensor spectrum(const Tensor& a) {
  return call<hrr::Spectrum>(a);
}
Tensor from_spectrum(const Tensor& spectrum) {
  return call<hrr::FromSpectrum>(spectrum);
}
Tensor bind_spectrum(const Tensor& a, const Tensor& spectrum) {
  return call<hrr::BindSpectrum>(a, spectrum);
}
Tensor unbind_spectrum(const Tensor& bound, const Tensor& spectrum) {
  return call<hrr::UnbindSpectrum>(bound, spectrum);
}

}  // namespace torch_hrr
