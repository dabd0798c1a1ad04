// Runs a map of spectra, by kernels where they reach, else by the library's transforms; and its shape for Meta.
#include "csrc/hrr/spectral_map.h"

#include <ATen/ops/empty.h>

#include "csrc/hrr/execute.h"
#include "csrc/hrr/library_fft.h"
#include "csrc/rows.h"

namespace torch_hrr::hrr {

using at::Tensor;

Tensor compute_map(const MapCall& call) {
  const auto contract = map_contract<int64_t>(call);
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = sizes.slice(0, sizes.size() - 1);
  const Tensor out = at::empty(sizes, call.a.options().dtype(contract.dtype));
  kernels::SpectralMapParams params;
  params.rows = product_of(batch);
  params.dim = sizes.back();
  params.kind = call.kind;
  params.eps = call.eps;
  params.order = static_cast<int32_t>(call.order);
  if (params.rows == 0) {
    return out;
  }
  const bool number = is_number(call.exponent);
  Tensor exponents = call.exponent.defined() && !number ? call.exponent.to(at::kDouble) : Tensor();
  params.exponent = number ? call.exponent.item<double>() : 0;
  if (!has_kernel_spectrum(params.dim, out)) {
    const auto rows = [&](const Tensor& x) {
      return x.defined() ? x.to(contract.dtype).expand(sizes).reshape({params.rows, params.dim}) : x;
    };
    kernels::LibraryBinsParams bins;
    bins.kind = call.kind;
    bins.eps = call.eps;
    bins.exponent = params.exponent;
    bins.order = params.order;
    if (exponents.defined()) {
      exponents = exponents.expand(batch).contiguous();
      bins.exponents = static_cast<const double*>(exponents.const_data_ptr());
    }
    library_spectral_map(rows(call.a), rows(call.v), bins, out.view({params.rows, params.dim}));
    return out;
  }
  const at::ScalarType row_type = spectrum_row_type(params.dim, out, contract.dtype);
  Tensor rows_a = with_unit_rows(call.a, row_type);
  Tensor rows_v = call.v.defined() ? with_unit_rows(call.v, row_type) : Tensor();
  const auto map_rows = [&] {
    return make_row_map<3>(batch,
                           {RowOperand{&rows_a, 1}, RowOperand{rows_v.defined() ? &rows_v : nullptr, 1},
                            RowOperand{exponents.defined() ? &exponents : nullptr, 0}},
                           params.map);
  };
  if (!map_rows()) {
    rows_a = rows_a.expand(sizes).contiguous();
    rows_v = rows_v.defined() ? rows_v.expand(sizes).contiguous() : rows_v;
    exponents = exponents.defined() ? exponents.expand(batch).contiguous() : exponents;
    map_rows();
  }
  params.a = rows_a.const_data_ptr();
  params.v = rows_v.defined() ? rows_v.const_data_ptr() : nullptr;
  params.exponents = exponents.defined() ? static_cast<const double*>(exponents.const_data_ptr()) : nullptr;
  params.epsilon = compute_epsilon(contract.dtype);
  return execute_in(row_type, params, out);
}

Tensor compute_map_meta(const MapCall& call) {
  const auto contract = map_contract<c10::SymInt>(call);
  return at::empty_symint(contract.sizes, call.a.options().dtype(contract.dtype));
}

}  // namespace torch_hrr::hrr
