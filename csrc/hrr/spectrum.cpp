// spectrum, from_spectrum, bind_spectrum and unbind_spectrum: CPU and CUDA, Meta, derivatives, autocast, registration.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include "csrc/autograd.h"
#include "csrc/dispatch.h"
#include "csrc/hrr/contracts.h"
#include "csrc/hrr/execute.h"
#include "csrc/hrr/library_fft.h"
#include "csrc/hrr/normalization.h"
#include "csrc/hrr/operators.h"
#include "csrc/rows.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::Product;

// What distinguishes the transforms and the products, in their schemas' words.
struct Transform {
  const char* name;
  const char* argument;
  bool inverse;
};
constexpr Transform kSpectrum{"spectrum", "a", false};
constexpr Transform kFromSpectrum{"from_spectrum", "spectrum", true};

struct SpectrumBinding {
  const char* name;
  const char* first;
  Product product;
};
constexpr SpectrumBinding kBindSpectrum{"bind_spectrum", "a", Product::kConvolution};
constexpr SpectrumBinding kUnbindSpectrum{"unbind_spectrum", "bound", Product::kCorrelation};

Tensor compute(const Transform& op, const Tensor& x) {
  const auto contract = row_contract<int64_t>(op.name, {op.argument, x});
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = sizes.slice(0, sizes.size() - 1);
  const Tensor out = at::empty(sizes, x.options());
  kernels::PackedSpectrumParams params;
  params.rows = product_of(batch);
  params.dim = sizes.back();
  params.inverse = op.inverse;
  if (params.rows == 0) {
    return out;
  }
  if (!has_kernel_spectrum(params.dim, out)) {
    library_packed_spectrum(x.reshape({params.rows, params.dim}), op.inverse, out.view({params.rows, params.dim}));
    return out;
  }
  const at::ScalarType row_type = spectrum_row_type(params.dim, out, contract.dtype);
  Tensor rows = with_unit_rows(x, row_type);
  const auto map_rows = [&] { return make_row_map<1>(batch, {RowOperand{&rows, 1}}, params.map); };
  if (!map_rows()) {
    rows = rows.contiguous();
    map_rows();
  }
  params.in = rows.const_data_ptr();
  return execute_in(row_type, params, out);
}

Tensor compute_meta(const Transform& op, const Tensor& x) {
  return at::empty_symint(row_contract<SymInt>(op.name, {op.argument, x}).sizes, x.options());
}

template <typename Int>
ResultContract<Int> contract_of(const SpectrumBinding& op, const Tensor& a, const Tensor& spectrum) {
  return binding_contract<Int>(op.name, {op.first, a}, {"spectrum", spectrum});
}

Tensor compute(const SpectrumBinding& op, const Tensor& a, const Tensor& spectrum) {
  const auto contract = contract_of<int64_t>(op, a, spectrum);
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = sizes.slice(0, sizes.size() - 1);
  kernels::SpectrumBindingParams params;
  params.rows = product_of(batch);
  params.dim = sizes.back();
  params.product = op.product;
  const auto options = a.options().dtype(contract.dtype);
  if (params.rows > 0 && !has_native_spectrum(params.dim, a)) {
    const Tensor wide = in_compute_type(a.to(contract.dtype));
    const Tensor rows = torch_hrr::from_spectrum(in_compute_type(spectrum.to(contract.dtype)));
    const bool convolves = op.product == Product::kConvolution;
    return (convolves ? torch_hrr::bind(wide, rows) : torch_hrr::unbind(wide, rows)).to(contract.dtype);
  }
  const Tensor out = at::empty(sizes, options);
  if (params.rows == 0) {
    return out;
  }
  Tensor rows_a = with_unit_rows(a, contract.dtype);
  Tensor spectra = with_unit_rows(spectrum, contract.dtype);
  const auto map_rows = [&] {
    return make_row_map<2>(batch, {RowOperand{&rows_a, 1}, RowOperand{&spectra, 1}}, params.map);
  };
  if (!map_rows()) {
    rows_a = rows_a.expand(sizes).contiguous();
    spectra = spectra.expand(sizes).contiguous();
    map_rows();
  }
  params.a = rows_a.const_data_ptr();
  params.spectrum = spectra.const_data_ptr();
  params.out = out.mutable_data_ptr();
  execute(params, out);
  return out;
}

Tensor compute_meta(const SpectrumBinding& op, const Tensor& a, const Tensor& spectrum) {
  const auto contract = contract_of<SymInt>(op, a, spectrum);
  return at::empty_symint(contract.sizes, a.options().dtype(contract.dtype));
}

// m, one number a packed element: D for the real bins, D/2 for the parts of the others. With P a -> spectrum(a), the
// adjoint of P is P^-1 m, for a complex bin stands for two of the D bins; that of P^-1 is m^-1 P.
Tensor multiplicities(const Tensor& packed) {
  const Tensor position = at::ones_symint({packed.sym_size(-1)}, packed.options().dtype(at::kLong)).cumsum(0);
  const Tensor dim = position.select(0, -1);
  // Element n = position - 1 belongs to the bin k with 2k = position, or one less: real where D divides it.
  const Tensor is_real = position.bitwise_and(-2).remainder(dim).eq(0);
  return is_real.add(1).mul(dim).to(packed.scalar_type()).div(2);
}

// The gradient with respect to a spectrum from that with respect to its row: rows that share one are summed first.
Tensor spectrum_gradient(const Tensor& row_gradient, const Tensor& spectrum) {
  const Tensor transformed = torch_hrr::spectrum(at::sum_to(row_gradient, spectrum.sym_sizes()));
  return transformed.div(multiplicities(transformed));
}

struct SpectrumFormula {
  static constexpr const char* kName = "TorchHrrSpectrumBackward";
  static constexpr const char* kOperator = "spectrum";
  static constexpr const char* kArguments[] = {"a"};

  Tensor forward(const Tensor& a) const {
    return torch_hrr::spectrum(a);
  }
  variable_list backward(const std::vector<Tensor>&, const Tensor& grad, const std::vector<bool>&) const {
    const Tensor wide = in_compute_type(grad);
    return {torch_hrr::from_spectrum(wide.mul(multiplicities(wide)))};
  }
  Tensor jvp(const std::vector<Tensor>&, const std::vector<Tensor>& tangents) const {
    return torch_hrr::spectrum(tangents[0]);
  }
};

struct FromSpectrumFormula {
  static constexpr const char* kName = "TorchHrrFromSpectrumBackward";
  static constexpr const char* kOperator = "from_spectrum";
  static constexpr const char* kArguments[] = {"spectrum"};

  Tensor forward(const Tensor& spectrum) const {
    return torch_hrr::from_spectrum(spectrum);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>&) const {
    return {spectrum_gradient(in_compute_type(grad), inputs[0])};
  }
  Tensor jvp(const std::vector<Tensor>&, const std::vector<Tensor>& tangents) const {
    return torch_hrr::from_spectrum(tangents[0]);
  }
};

// The sum of what moves with either argument, where there is such a part.
Tensor sum_of_defined(const Tensor& x, const Tensor& y) {
  return x.defined() && y.defined() ? x + y : (x.defined() ? x : y);
}

struct BindSpectrumFormula {
  static constexpr const char* kName = "TorchHrrBindSpectrumBackward";
  static constexpr const char* kOperator = "bind_spectrum";
  static constexpr const char* kArguments[] = {"a", "spectrum"};

  Tensor forward(const Tensor& a, const Tensor& spectrum) const {
    return torch_hrr::bind_spectrum(a, spectrum);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>& wanted) const {
    const auto of_row = [&] { return torch_hrr::unbind(in_compute_type(grad), in_compute_type(inputs[0])); };
    return {wanted[0] ? torch_hrr::unbind_spectrum(grad, inputs[1]) : Tensor(),
            wanted[1] ? spectrum_gradient(of_row(), inputs[1]) : Tensor()};
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    return sum_of_defined(tangents[0].defined() ? torch_hrr::bind_spectrum(tangents[0], inputs[1]) : Tensor(),
                          tangents[1].defined() ? torch_hrr::bind_spectrum(inputs[0], tangents[1]) : Tensor());
  }
};

struct UnbindSpectrumFormula {
  static constexpr const char* kName = "TorchHrrUnbindSpectrumBackward";
  static constexpr const char* kOperator = "unbind_spectrum";
  static constexpr const char* kArguments[] = {"bound", "spectrum"};

  Tensor forward(const Tensor& bound, const Tensor& spectrum) const {
    return torch_hrr::unbind_spectrum(bound, spectrum);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>& wanted) const {
    const auto of_row = [&] { return torch_hrr::unbind(in_compute_type(inputs[0]), in_compute_type(grad)); };
    return {wanted[0] ? torch_hrr::bind_spectrum(grad, inputs[1]) : Tensor(),
            wanted[1] ? spectrum_gradient(of_row(), inputs[1]) : Tensor()};
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    return sum_of_defined(tangents[0].defined() ? torch_hrr::unbind_spectrum(tangents[0], inputs[1]) : Tensor(),
                          tangents[1].defined() ? torch_hrr::unbind_spectrum(inputs[0], tangents[1]) : Tensor());
  }
};

// CPU and CUDA: the parameters are the same, execute() and the library's transforms find the device.
void register_kernels(torch::Library& m) {
  m.impl("spectrum", [](const Tensor& a) { return compute(kSpectrum, a); });
  m.impl("from_spectrum", [](const Tensor& spectrum) { return compute(kFromSpectrum, spectrum); });
  m.impl("bind_spectrum", [](const Tensor& a, const Tensor& spectrum) { return compute(kBindSpectrum, a, spectrum); });
  m.impl("unbind_spectrum",
         [](const Tensor& bound, const Tensor& spectrum) { return compute(kUnbindSpectrum, bound, spectrum); });
}

template <c10::DeviceType kDevice>
void register_autocast(torch::Library& m) {
  m.impl("spectrum", [](const Tensor& a) {
    const Autocast<kDevice> cast;
    return torch_hrr::spectrum(cast(a));
  });
  m.impl("from_spectrum", [](const Tensor& spectrum) {
    const Autocast<kDevice> cast;
    return torch_hrr::from_spectrum(cast(spectrum));
  });
  m.impl("bind_spectrum", [](const Tensor& a, const Tensor& spectrum) {
    const Autocast<kDevice> cast;
    return torch_hrr::bind_spectrum(cast(a), cast(spectrum));
  });
  m.impl("unbind_spectrum", [](const Tensor& bound, const Tensor& spectrum) {
    const Autocast<kDevice> cast;
    return torch_hrr::unbind_spectrum(cast(bound), cast(spectrum));
  });
}

}  // namespace
}  // namespace torch_hrr::hrr

using namespace torch_hrr::hrr;

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  register_kernels(m);
}
#if defined(TORCH_HRR_WITH_CUDA)
TORCH_LIBRARY_IMPL(torch_hrr, CUDA, m) {
  register_kernels(m);
}
#endif
TORCH_LIBRARY_IMPL(torch_hrr, Meta, m) {
  m.impl("spectrum", [](const Tensor& a) { return compute_meta(kSpectrum, a); });
  m.impl("from_spectrum", [](const Tensor& spectrum) { return compute_meta(kFromSpectrum, spectrum); });
  m.impl("bind_spectrum",
         [](const Tensor& a, const Tensor& spectrum) { return compute_meta(kBindSpectrum, a, spectrum); });
  m.impl("unbind_spectrum",
         [](const Tensor& bound, const Tensor& spectrum) { return compute_meta(kUnbindSpectrum, bound, spectrum); });
}
TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  m.impl("spectrum", [](const Tensor& a) { return torch_hrr::differentiable(SpectrumFormula{}, a); });
  m.impl("from_spectrum",
         [](const Tensor& spectrum) { return torch_hrr::differentiable(FromSpectrumFormula{}, spectrum); });
  m.impl("bind_spectrum", [](const Tensor& a, const Tensor& spectrum) {
    return torch_hrr::differentiable(BindSpectrumFormula{}, a, spectrum);
  });
  m.impl("unbind_spectrum", [](const Tensor& bound, const Tensor& spectrum) {
    return torch_hrr::differentiable(UnbindSpectrumFormula{}, bound, spectrum);
  });
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCPU, m) {
  register_autocast<c10::DeviceType::CPU>(m);
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCUDA, m) {
  register_autocast<c10::DeviceType::CUDA>(m);
}
